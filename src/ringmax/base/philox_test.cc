#include "ringmax/base/philox.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace ringmax {
namespace {

// Known answers of the Random123 paper's distribution.
TEST(Philox, KnownAnswers) {
  EXPECT_EQ(philox4x32({0, 0, 0, 0}, {0, 0}),
            (PhiloxBlock{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox4x32({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
                       {0xffffffff, 0xffffffff}),
            (PhiloxBlock{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
                       {0xa4093822, 0x299f31d0}),
            (PhiloxBlock{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Philox, CounterAndKeyLayout) {
  EXPECT_EQ(
      random_block(0x299f31d0a4093822, 0x0370734413198a2e, 0x85a308d3243f6a88),
      (PhiloxBlock{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
  EXPECT_EQ(random_bits(0, 0, 0), 0xe169c58d6627e8d5);
}

TEST(Philox, BelowStaysBelowAndIsEven) {
  std::vector<int> counts(7);
  constexpr int kDraws = 70000;
  for (int i = 0; i < kDraws; ++i) {
    const std::uint64_t value = random_below(3, 1, i, 7);
    ASSERT_LT(value, 7u);
    ++counts[value];
  }
  // Standard deviation of a count is about 93.
  for (const int count : counts) EXPECT_NEAR(count, kDraws / 7.0, 470);
  EXPECT_EQ(random_below(3, 1, 5, 1), 0u);
}

TEST(Philox, ApproxNormalScaleIsTheRoundedConstant) {
  const double exact = 1 / std::sqrt(8 * (65536.0 * 65536.0 - 1) / 12);
  EXPECT_EQ(kApproxNormalScale, static_cast<float>(exact));
}

TEST(Philox, ApproxNormalIsOneRoundingOfTheIntegerSum) {
  // Words 6627e8d5 e169c58d bc57ac4c 9b00dbd8 of the first known answer.
  const int sum = 0x6627 + 0xe8d5 + 0xe169 + 0xc58d + 0xbc57 + 0xac4c + 0x9b00 +
                  0xdbd8 - 262140;
  EXPECT_EQ(approx_normal(0, 0, 0),
            static_cast<float>(sum) * kApproxNormalScale);
}

TEST(Philox, ApproxNormalHasTheMomentsOfIrwinHall) {
  constexpr int kDraws = 400000;
  double sum = 0, sum2 = 0, sum3 = 0, sum4 = 0, largest = 0;
  for (int i = 0; i < kDraws; ++i) {
    const double x = approx_normal(11, 5, i);
    sum += x;
    sum2 += x * x;
    sum3 += x * x * x;
    sum4 += x * x * x * x;
    largest = std::max(largest, std::abs(x));
  }
  EXPECT_NEAR(sum / kDraws, 0, 0.008);   // 5 standard errors
  EXPECT_NEAR(sum2 / kDraws, 1, 0.011);  // variance of x^2 is 1.85
  EXPECT_NEAR(sum3 / kDraws, 0, 0.03);
  EXPECT_NEAR(sum4 / kDraws, 3 - 1.2 / 8, 0.07);
  EXPECT_LT(largest, 4.9);
  EXPECT_GT(largest, 3.5);
}

TEST(Philox, StreamsAndSeedsAreUncorrelated) {
  constexpr int kDraws = 100000;
  double streams = 0, seeds = 0, neighbours = 0;
  for (int i = 0; i < kDraws; ++i) {
    const double x = approx_normal(0, 0, i);
    streams += x * approx_normal(0, 1, i);
    seeds += x * approx_normal(1, 0, i);
    neighbours += x * approx_normal(0, 0, i + 1);
  }
  for (const double each : {streams, seeds, neighbours}) {
    EXPECT_NEAR(each / kDraws, 0, 0.016);
  }
}

}  // namespace
}  // namespace ringmax
