#include "ringmax/attention/mask.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <type_traits>
#include <vector>

#include "ringmax/base/error.h"

namespace ringmax::attention {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

static_assert(!std::is_constructible_v<bool, Mask>,
              "a mask must not have a truth value");

std::vector<Mask> test_masks() {
  std::vector<Mask> masks = {Mask::full()};
  for (std::int64_t offset : {-20, -9, -3, -1, 0, 1, 2, 7, 30}) {
    masks.push_back(Mask::causal(offset));
  }
  return masks;
}

// Every closed form against counting, for every rectangle of positions.
TEST(Mask, ClassifiesAndCountsEveryRectangle) {
  constexpr std::int64_t kEnd = 10;
  for (const Mask& mask : test_masks()) {
    for (std::int64_t q0 = 0; q0 <= kEnd; ++q0) {
      for (std::int64_t q1 = q0; q1 <= kEnd; ++q1) {
        for (std::int64_t k0 = 0; k0 <= kEnd; ++k0) {
          for (std::int64_t k1 = k0; k1 <= kEnd; ++k1) {
            std::int64_t seen = 0;
            for (std::int64_t i = q0; i < q1; ++i) {
              for (std::int64_t j = k0; j < k1; ++j) {
                seen += mask.visible(i, j) ? 1 : 0;
              }
            }
            const BlockKind kind = seen == 0 ? BlockKind::kEmpty
                                   : seen == (q1 - q0) * (k1 - k0)
                                       ? BlockKind::kFull
                                       : BlockKind::kPartial;
            ASSERT_EQ(mask.count({q0, q1}, {k0, k1}), seen)
                << mask.to_string() << " queries " << q0 << ".." << q1
                << " keys " << k0 << ".." << k1;
            ASSERT_EQ(mask.classify({q0, q1}, {k0, k1}), kind)
                << mask.to_string() << " queries " << q0 << ".." << q1
                << " keys " << k0 << ".." << k1;
          }
        }
      }
    }
  }
}

TEST(Mask, CausalCountsFromTheTopLeft) {
  EXPECT_TRUE(Mask::causal(2).visible(0, 2));
  EXPECT_FALSE(Mask::causal(2).visible(0, 3));
  EXPECT_FALSE(Mask::causal(-1).visible(0, 0));
  EXPECT_EQ(Mask::causal(-1).count({0, 1}, {0, 5}), 0);
}

TEST(Mask, CountsAMillionTokensWithoutOverflow) {
  constexpr std::int64_t kMillion = 1 << 20;
  EXPECT_EQ(Mask::causal().count({0, kMillion}, {0, kMillion}),
            kMillion * (kMillion + 1) / 2);
  const std::int64_t far = std::int64_t{1} << 40;
  EXPECT_EQ(Mask::causal(far).count({0, kMillion}, {0, kMillion}),
            kMillion * kMillion);
  EXPECT_EQ(Mask::causal(-far).count({0, kMillion}, {0, kMillion}), 0);
}

TEST(ParseMask, ReadsWhatToStringWrites) {
  for (const Mask& mask : test_masks()) {
    EXPECT_EQ(parse_mask(mask.to_string()), mask);
  }
  EXPECT_EQ(parse_mask("causal:0"), Mask::causal());
}

TEST(ParseMask, RefusesTheRestByName) {
  for (const char* text :
       {"", "causal:", "causal:x", "causal:1x", "causal: 1", "causal:1.5",
        "causal:99999999999999999999", "causal:9000000000000000000", "Causal",
        "causall", "local:5,0", "chunked:4", "dense", "causal|full",
        "causal&full", "(full)", "full "}) {
    EXPECT_THAT([&] { parse_mask(text); },
                ThrowsMessage<Error>(AllOf(HasSubstr("mask"), HasSubstr(text))))
        << text;
  }
  EXPECT_THAT([] { parse_mask("local:5,0"); },
              ThrowsMessage<Error>(AllOf(HasSubstr("not supported yet"),
                                         HasSubstr("causal:OFFSET"))));
}

}  // namespace
}  // namespace ringmax::attention
