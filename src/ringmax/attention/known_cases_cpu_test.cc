// The cases with a known answer through attend(), for the kernels that CPUs
// run: here every case under every strategy, with ring sizes and layouts taking
// turns; in known_cases_slow_test.cc the whole product, for every kernel.
#include <gtest/gtest.h>

#include <cstdint>
#include <span>
#include <tuple>

#include "ringmax/attention/testing/sweep.h"

namespace ringmax::attention {
namespace {

using testing::Mode;

class KnownCasesCpuTest
    : public ::testing::TestWithParam<std::tuple<const char*, Mode>> {};

TEST_P(KnownCasesCpuTest, GiveTheirAnswers) {
  const auto& [kernel, mode] = GetParam();
  for (const std::string& finding :
       testing::sweep_in_turn(kernel, std::span(&mode, 1))) {
    ADD_FAILURE() << finding;
  }
}

// The plain ring with the kernel that CPUs take by themselves: the whole
// product of cases, ring sizes and layouts.
TEST(KnownCasesOnRingsCpuTest, GiveTheirAnswers) {
  for (const std::int64_t ring : testing::kRingSizes) {
    for (const std::string& finding :
         testing::sweep_ring("native", Mode::kRing, ring)) {
      ADD_FAILURE() << finding;
    }
  }
}

// And where the ring's devices make one call of it together.
TEST(KnownCasesInMemoryCpuTest, GiveTheirAnswers) {
  for (const std::int64_t ring : testing::kRingSizes) {
    if (!testing::is_itself(Mode::kInMemory, ring)) continue;
    for (const std::string& finding :
         testing::sweep_ring("native", Mode::kInMemory, ring)) {
      ADD_FAILURE() << finding;
    }
  }
}

// The kernel of TPUs as CPUs interpret it, which takes its time: strategies
// take turns too.
TEST(KnownCasesOfTheTwinCpuTest, GiveTheirAnswers) {
  for (const std::string& finding :
       testing::sweep_in_turn("mosaic_twin", testing::kModes)) {
    ADD_FAILURE() << finding;
  }
}

INSTANTIATE_TEST_SUITE_P(
    EveryStrategy, KnownCasesCpuTest,
    ::testing::Combine(::testing::Values("stablehlo", "native"),
                       ::testing::ValuesIn(testing::kModes)));

}  // namespace
}  // namespace ringmax::attention
