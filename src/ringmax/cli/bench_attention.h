// `ringmax bench attention`: times one attention case on random tensors.
#ifndef RINGMAX_CLI_BENCH_ATTENTION_H_
#define RINGMAX_CLI_BENCH_ATTENTION_H_

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace ringmax::cli {

// {"min", "median", "max"} of times in seconds; at least one.
nlohmann::json spread(std::vector<double> times);
// The most memory that this process has held, as the kernel counts it.
std::int64_t peak_rss_bytes();
// What all threads of this process have used so far.
double processor_seconds();

// Its settings, for a command's help.
std::string describe_attention_bench();

// The settings of `ringmax attention`, and batch, seq, heads, kv_heads,
// head_dim and repeats. Throws kInvalidArgument with all that is wrong.
nlohmann::json bench_attention(const std::vector<std::string>& words);

}  // namespace ringmax::cli

#endif  // RINGMAX_CLI_BENCH_ATTENTION_H_
