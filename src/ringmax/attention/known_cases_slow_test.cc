// Every known case for every kernel that runs here, under every strategy,
// layout and ring size.
#include <gtest/gtest.h>

#include <tuple>

#include "ringmax/attention/testing/sweep.h"

namespace ringmax::attention {
namespace {

using testing::Mode;

class KnownCasesSlowTest
    : public ::testing::TestWithParam<std::tuple<const char*, Mode>> {};

TEST_P(KnownCasesSlowTest, WholeProduct) {
  const auto& [kernel, mode] = GetParam();
  for (const std::string& finding :
       testing::sweep_known_cases(kernel, mode, testing::Extent::kWhole)) {
    ADD_FAILURE() << finding;
  }
}

INSTANTIATE_TEST_SUITE_P(
    EveryStrategy, KnownCasesSlowTest,
    ::testing::Combine(::testing::Values("stablehlo", "native", "mosaic_twin"),
                       ::testing::Values(Mode::kRing, Mode::kBothWays,
                                         Mode::kInALoop, Mode::kAllGather,
                                         Mode::kUlysses, Mode::kUsp)));

}  // namespace
}  // namespace ringmax::attention
