// Every known case for every kernel that runs here, under every strategy,
// layout and ring size.
#include <gtest/gtest.h>

#include <cstdint>
#include <tuple>

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

INSTANTIATE_TEST_SUITE_P(
    EveryStrategy, KnownCasesSlowTest,
    ::testing::Combine(::testing::Values("stablehlo", "native", "mosaic_twin"),
                       ::testing::Values(Mode::kRing, Mode::kBothWays,
                                         Mode::kInALoop, Mode::kAllGather,
                                         Mode::kUlysses, Mode::kUsp),
                       ::testing::ValuesIn(testing::kRingSizes)));

}  // namespace
}  // namespace ringmax::attention
