// Errors of the vector functions, on every instruction set of this machine.
#include "ringmax/attention/cpu/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ringmax/attention/cpu/math_test.cc"
#include <hwy/foreach_target.h>  // must come before highway.h
#include <hwy/highway.h>

#include "ringmax/attention/cpu/math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ringmax::attention::cpu::HWY_NAMESPACE {

void apply_exp2(const float* in, float* out, std::size_t count) {
  for (std::size_t i = 0; i < count; i += kLanes) {
    hn::StoreU(exp2(hn::LoadU(FloatTag(), in + i)), FloatTag(), out + i);
  }
}

void apply_tanh(const float* in, float* out, std::size_t count) {
  for (std::size_t i = 0; i < count; i += kLanes) {
    hn::StoreU(tanh(hn::LoadU(FloatTag(), in + i)), FloatTag(), out + i);
  }
}

}  // namespace ringmax::attention::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "ringmax/attention/cpu/testing/run_kernel.h"

namespace ringmax::attention::cpu {
namespace {

HWY_EXPORT(apply_exp2);
HWY_EXPORT(apply_tanh);

class MathTest : public ::testing::TestWithParam<testing::InstructionSet> {
 protected:
  testing::UseInstructionSet use_{GetParam()};
};

INSTANTIATE_TEST_SUITE_P(EveryInstructionSet, MathTest,
                         ::testing::ValuesIn(testing::instruction_sets()),
                         [](const auto& info) { return info.param.name(); });

// Every 1,009th float of both signs up to `limit`.
std::vector<float> floats(float limit) {
  std::vector<float> result;
  const auto last = std::bit_cast<std::uint32_t>(limit);
  for (std::uint32_t bits = 0; bits < last; bits += 1009) {
    result.push_back(std::bit_cast<float>(bits));
    result.push_back(-std::bit_cast<float>(bits));
  }
  while (result.size() % 16 != 0) result.push_back(0);
  return result;
}

TEST_P(MathTest, Exp2IsWithinItsBound) {
  const std::vector<float> x = floats(126);
  std::vector<float> y(x.size());
  HWY_DYNAMIC_DISPATCH(apply_exp2)(x.data(), y.data(), x.size());
  double worst = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double want = std::exp2(static_cast<double>(x[i]));
    worst = std::max(worst, std::abs(y[i] - want) / want);
  }
  EXPECT_LT(worst, std::exp2(-23));
}

TEST_P(MathTest, Exp2OfTheVerySmallIsZero) {
  std::vector<float> x(16, -std::numeric_limits<float>::infinity());
  x[1] = -127.5F;
  x[2] = -3e38F;
  x[3] = -60000.F;
  std::vector<float> y(16);
  HWY_DYNAMIC_DISPATCH(apply_exp2)(x.data(), y.data(), x.size());
  for (const float v : y) EXPECT_EQ(v, 0);
}

TEST_P(MathTest, TanhIsWithinItsBound) {
  const std::vector<float> x = floats(1e4);
  std::vector<float> y(x.size());
  HWY_DYNAMIC_DISPATCH(apply_tanh)(x.data(), y.data(), x.size());
  double worst = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double want = std::tanh(static_cast<double>(x[i]));
    // Below 2^-126 only the error's absolute size means anything.
    if (std::abs(want) < 1.2e-38) continue;
    worst = std::max(worst, std::abs((y[i] - want) / want));
  }
  EXPECT_LT(worst, std::exp2(-21));
}

}  // namespace
}  // namespace ringmax::attention::cpu
#endif
