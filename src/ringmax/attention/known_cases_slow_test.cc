// Every known case under every strategy, layout and ring size.
#include <gtest/gtest.h>

#include "ringmax/attention/testing/sweep.h"

namespace ringmax::attention {
namespace {

using testing::Mode;

class KnownCasesSlowTest : public ::testing::TestWithParam<Mode> {};

TEST_P(KnownCasesSlowTest, WholeProduct) {
  for (const std::string& finding : testing::sweep_known_cases(
           "auto", GetParam(), testing::Extent::kWhole)) {
    ADD_FAILURE() << finding;
  }
}

INSTANTIATE_TEST_SUITE_P(EveryStrategy, KnownCasesSlowTest,
                         ::testing::Values(Mode::kRing, Mode::kBothWays,
                                           Mode::kInALoop, Mode::kAllGather,
                                           Mode::kUlysses, Mode::kUsp));

}  // namespace
}  // namespace ringmax::attention
