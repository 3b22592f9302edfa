// `ringmax bench kernel`: static cycles of one splash kernel on a chip that is
// not here. What tables of block sizes are made from.
#ifndef RINGMAX_CLI_BENCH_KERNEL_H_
#define RINGMAX_CLI_BENCH_KERNEL_H_

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace ringmax::cli {

// Settings: compile_topology, direction, seq, heads, kv_heads, head_dim, dtype,
// block_q, block_kv, block_kv_compute (512: the kernel's own). Useful
// utilisation of a whole shard and of one on the causal diagonal. Once in a
// process: libtpu takes the flags for its dumps when it is loaded. Throws
// kInvalidArgument with all that is wrong.
nlohmann::json bench_kernel(const std::vector<std::string>& words);

}  // namespace ringmax::cli

#endif  // RINGMAX_CLI_BENCH_KERNEL_H_
