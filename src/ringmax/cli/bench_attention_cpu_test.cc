// `ringmax bench attention` on the CPU plugin.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "ringmax/cli/bench_attention.h"

namespace ringmax::cli {
namespace {

TEST(BenchAttention, CountsVisiblePairsOnly) {
  const nlohmann::json json =
      bench_attention({"mask=local:63,0", "seq=256", "heads=4", "kv_heads=2",
                       "head_dim=16", "repeats=3", "context_parallel=2"});
  EXPECT_EQ(json["kernel"], "native");
  EXPECT_EQ(json["strategy"], "ring");
  EXPECT_EQ(json["layout"], "contiguous");
  // Keys and values of 128 tokens, once, to the neighbour.
  EXPECT_EQ(json["bytes_sent_per_device"], 2 * 128 * 2 * 16 * 4);
  EXPECT_GT(json["temporaries_bytes"].get<std::int64_t>(), 0);
  EXPECT_GT(json["compile_s"].get<double>(), 0);
  EXPECT_GE(json["threads"].get<int>(), 1);
  EXPECT_GT(json["peak_rss_bytes"].get<std::int64_t>(), 1 << 20);
  // 64 keys a query, but for the first 63.
  const int pairs = 256 * 64 - 63 * 64 / 2;
  const double flops = 4.0 * 16 * 4 * pairs;
  for (const auto& [what, work] :
       {std::pair<std::string, double>("forward", flops),
        std::pair<std::string, double>("forward_backward", 3.5 * flops)}) {
    const nlohmann::json& times = json[what + "_s"];
    EXPECT_LE(times["min"], times["median"]);
    EXPECT_LE(times["median"], times["max"]);
    EXPECT_NEAR(json[what + "_gflops"].get<double>() * 1e9 *
                    times["median"].get<double>(),
                work, 1e-6 * work);
  }
}

}  // namespace
}  // namespace ringmax::cli
