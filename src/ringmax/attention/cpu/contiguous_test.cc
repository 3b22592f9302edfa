#include "ringmax/attention/cpu/contiguous.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <vector>

namespace ringmax::attention::cpu {
namespace {

// [batch, row, head, column], more rows than one task takes.
constexpr RowSizes kSizes{2, 3, 150, 5};
constexpr std::int64_t kRow = kSizes.heads * kSizes.columns;
constexpr std::int64_t kAll = kSizes.batches * kSizes.rows * kRow;

std::vector<float> numbers() {
  std::vector<float> values(kAll);
  std::iota(values.begin(), values.end(), 1.0F);
  return values;
}

template <typename Check>
void for_all(const Check& check) {
  for (std::int64_t b = 0; b < kSizes.batches; ++b) {
    for (std::int64_t h = 0; h < kSizes.heads; ++h) {
      for (std::int64_t r = 0; r < kSizes.rows; ++r) {
        for (std::int64_t c = 0; c < kSizes.columns; ++c) {
          check(b, h, r, c,
                (b * kSizes.rows + r) * kRow + h * kSizes.columns + c);
        }
      }
    }
  }
}

TEST(ContiguousTest, RowsThatLieApartAreCopied) {
  const std::vector<float> values = numbers();
  const ConstRows apart{values.data(), kSizes.rows * kRow, kSizes.columns,
                        kRow};
  const ContiguousRows copy(apart, kSizes, sizeof(float), {});
  const ConstRows& rows = copy.rows();
  EXPECT_EQ(rows.row, kSizes.columns);
  for_all([&](auto b, auto h, auto r, auto c, auto at) {
    EXPECT_EQ(static_cast<const float*>(
                  rows.data)[b * rows.batch + h * rows.head + r * rows.row + c],
              values[at]);
  });
}

TEST(ContiguousTest, RowsSideBySideStayWhereTheyAre) {
  std::vector<float> values = numbers();
  const std::int64_t head = kSizes.rows * kSizes.columns;
  const ConstRows from{values.data(), kSizes.heads * head, head,
                       kSizes.columns};
  EXPECT_EQ(ContiguousRows(from, kSizes, sizeof(float), {}).rows().data,
            values.data());
  const FloatRows to{values.data(), from.batch, from.head, from.row};
  const ContiguousSums sums(to, kSizes, false, {});
  EXPECT_EQ(sums.rows().data, values.data());
  sums.finish({});
  EXPECT_EQ(values, numbers());
  const ContiguousSums fresh(to, kSizes, true, {});
  EXPECT_EQ(fresh.rows().data, values.data());
  EXPECT_THAT(values, ::testing::Each(0.0F));
}

TEST(ContiguousTest, SumsComeHome) {
  for (const bool fresh : {false, true}) {
    std::vector<float> values = numbers();
    const FloatRows to{values.data(), kSizes.rows * kRow, kSizes.columns, kRow};
    const ContiguousSums sums(to, kSizes, fresh, {});
    const FloatRows& rows = sums.rows();
    for_all([&](auto b, auto h, auto r, auto c, auto at) {
      float& sum = rows.data[b * rows.batch + h * rows.head + r * rows.row + c];
      ASSERT_EQ(sum, 0.0F);
      sum = 0.5F * static_cast<float>(at);
    });
    EXPECT_EQ(values, numbers());
    sums.finish({});
    for_all([&](auto, auto, auto, auto, auto at) {
      ASSERT_EQ(values[at], 0.5F * static_cast<float>(at) +
                                (fresh ? 0.0F : static_cast<float>(at) + 1));
    });
  }
}

}  // namespace
}  // namespace ringmax::attention::cpu
