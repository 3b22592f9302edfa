// Every known case for every kernel that runs here, under every strategy,
// layout and ring size.
#include <gtest/gtest.h>

#include <cstdint>
#include <tuple>
#include <vector>

#include "ringmax/attention/testing/sweep.h"

namespace ringmax::attention {
namespace {

using testing::Mode;

class KnownCasesSlowTest : public ::testing::TestWithParam<
                               std::tuple<const char*, Mode, std::int64_t>> {};

TEST_P(KnownCasesSlowTest, WholeProduct) {
  const auto& [kernel, mode, ring] = GetParam();
  for (const std::string& finding : testing::sweep_ring(kernel, mode, ring)) {
    ADD_FAILURE() << finding;
  }
}

std::vector<std::tuple<const char*, Mode, std::int64_t>> everything() {
  std::vector<std::tuple<const char*, Mode, std::int64_t>> all;
  for (const char* kernel : {"native", "mosaic_twin", "stablehlo"}) {
    for (const Mode mode : testing::kModes) {
      for (const std::int64_t ring : testing::kRingSizes) {
        if (testing::is_itself(mode, ring))
          all.emplace_back(kernel, mode, ring);
      }
    }
  }
  for (const std::int64_t ring : testing::kRingSizes) {
    if (testing::is_itself(Mode::kInMemory, ring))
      all.emplace_back("native", Mode::kInMemory, ring);
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(EveryStrategy, KnownCasesSlowTest,
                         ::testing::ValuesIn(everything()));

}  // namespace
}  // namespace ringmax::attention
