// The cases with a known answer through attend(): here every case under every
// strategy, with ring sizes and layouts taking turns; in
// known_cases_slow_test.cc the whole product.
#include <gtest/gtest.h>

#include "ringmax/attention/testing/sweep.h"

namespace ringmax::attention {
namespace {

using testing::Mode;

void expect_known_answers(Mode mode) {
  for (const std::string& finding : testing::sweep_known_cases(
           "auto", mode, testing::Extent::kTakingTurns)) {
    ADD_FAILURE() << finding;
  }
}

TEST(KnownCasesCpuTest, Ring) { expect_known_answers(Mode::kRing); }
TEST(KnownCasesCpuTest, RingBothWays) { expect_known_answers(Mode::kBothWays); }
TEST(KnownCasesCpuTest, RingInALoop) { expect_known_answers(Mode::kInALoop); }
TEST(KnownCasesCpuTest, AllGather) { expect_known_answers(Mode::kAllGather); }
TEST(KnownCasesCpuTest, Ulysses) { expect_known_answers(Mode::kUlysses); }
TEST(KnownCasesCpuTest, Usp) { expect_known_answers(Mode::kUsp); }

}  // namespace
}  // namespace ringmax::attention
