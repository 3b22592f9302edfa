#include "ringmax/attention/mask.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <memory>
#include <random>
#include <string>
#include <type_traits>
#include <vector>

#include "ringmax/base/error.h"

namespace ringmax::attention {
namespace {

using ::testing::HasSubstr;
using ::testing::Test;
using ::testing::ThrowsMessage;

static_assert(!std::is_constructible_v<bool, Mask>,
              "a mask must not have a truth value");

// A dense mask that no formula gives: two thirds of the pairs, by their number.
std::shared_ptr<const DenseMask> scattered(std::int64_t queries,
                                           std::int64_t keys) {
  std::vector<std::uint8_t> bytes;
  for (std::int64_t i = 0; i < queries * keys; ++i) {
    bytes.push_back((i * i + i / 7) % 3 != 0 ? 1 : 0);
  }
  return DenseMask::make(queries, keys, bytes);
}

// Every kind of law, at, near and beyond the borders of 12 positions.
std::vector<Mask> laws() {
  std::vector<Mask> masks = {Mask::full(), Mask::dense(scattered(12, 12)),
                             Mask::dense(scattered(9, 7))};
  for (std::int64_t offset : {-20, -9, -3, -1, 0, 1, 2, 7, 30}) {
    masks.push_back(Mask::causal(offset));
  }
  for (std::int64_t left : {0, 1, 4, 30}) {
    for (std::int64_t right : {0, 2, 30}) {
      masks.push_back(Mask::local(left, right));
    }
  }
  for (std::int64_t chunk : {1, 2, 3, 5, 12, 100}) {
    masks.push_back(Mask::chunked(chunk));
  }
  return masks;
}

// Combinations of laws, also of combinations.
std::vector<Mask> combinations() {
  const std::vector<Mask> of = {Mask::full(),
                                Mask::causal(),
                                Mask::causal(-4),
                                Mask::local(3, 0),
                                Mask::local(0, 5),
                                Mask::chunked(4),
                                Mask::dense(scattered(12, 12))};
  std::vector<Mask> masks;
  for (const Mask& a : of) {
    for (const Mask& b : of) {
      masks.push_back(a & b);
      masks.push_back(a | b);
    }
  }
  const std::size_t pairs = masks.size();
  for (std::size_t i = 0; i < pairs; i += 5) {
    masks.push_back(masks[i] & (Mask::chunked(3) | Mask::local(1, 1)));
    masks.push_back(masks[i] | (Mask::causal(-6) & masks[pairs - 1 - i]));
  }
  return masks;
}

std::vector<Mask> test_masks() {
  std::vector<Mask> masks = laws();
  for (const Mask& mask : combinations()) masks.push_back(mask);
  return masks;
}

std::string describe(const Mask& mask, const PositionRun& q,
                     const PositionRun& k) {
  return fmt::format("{} queries {}+{}*{} keys {}+{}*{}", mask.to_string(),
                     q.first, q.stride, q.count, k.first, k.stride, k.count);
}

// Every closed form against counting.
void check(const Mask& mask, const PositionRun& q, const PositionRun& k) {
  std::int64_t seen = 0;
  const PositionRange hull = mask.key_hull(q);
  const PositionRange core = mask.key_core(q);
  for (std::int64_t b = 0; b < k.count; ++b) {
    std::int64_t by = 0;
    for (std::int64_t a = 0; a < q.count; ++a) {
      by += mask.visible(q.at(a), k.at(b)) ? 1 : 0;
    }
    seen += by;
    const std::int64_t key = k.at(b);
    if (by > 0) {
      ASSERT_TRUE(hull.begin <= key && key < hull.end) << describe(mask, q, k);
    }
    if (core.begin <= key && key < core.end) {
      ASSERT_EQ(by, q.count) << describe(mask, q, k);
    }
  }
  ASSERT_EQ(mask.any(q, k), seen > 0) << describe(mask, q, k);
  const BlockKind kind = seen == 0                   ? BlockKind::kEmpty
                         : seen == q.count * k.count ? BlockKind::kFull
                                                     : BlockKind::kPartial;
  ASSERT_EQ(mask.count(q, k), seen) << describe(mask, q, k);
  ASSERT_EQ(mask.classify(q, k), kind) << describe(mask, q, k);
}

TEST(Mask, ClassifiesAndCountsEveryRectangle) {
  constexpr std::int64_t kEnd = 12;
  for (const Mask& mask : test_masks()) {
    // All rectangles for laws, a third of the sides for combinations.
    const std::int64_t step = mask.operands().empty() ? 1 : 3;
    for (std::int64_t q0 = 0; q0 <= kEnd; q0 += step) {
      for (std::int64_t q1 = q0; q1 <= kEnd; ++q1) {
        for (std::int64_t k0 = 0; k0 <= kEnd; k0 += step) {
          for (std::int64_t k1 = k0; k1 <= kEnd; ++k1) {
            check(mask, PositionRange{q0, q1}, PositionRange{k0, k1});
            if (Test::HasFatalFailure()) return;
          }
        }
      }
    }
  }
}

// Runs of any two strides, as striped shards have them.
TEST(Mask, ClassifiesAndCountsStrides) {
  for (const Mask& mask : test_masks()) {
    for (std::int64_t q_stride : {1, 2, 3, 4}) {
      for (std::int64_t k_stride : {1, 2, 3, 4}) {
        for (std::int64_t q0 : {0, 1, 3}) {
          for (std::int64_t k0 : {0, 2, 5}) {
            for (std::int64_t n : {1, 2, 4}) {
              check(mask, {q0, q_stride, n}, {k0, k_stride, 3});
              check(mask, {q0, q_stride, 3}, {k0, k_stride, n});
              if (Test::HasFatalFailure()) return;
            }
          }
        }
      }
    }
  }
}

// Whole chunks repeat: cut ones at either end, strides that share factors.
TEST(Mask, CountsManyChunks) {
  std::mt19937_64 random(57721);
  const auto below = [&](std::int64_t n) {
    return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(n));
  };
  for (int round = 0; round < 2000; ++round) {
    const std::int64_t stride = 1 + below(8);
    check(Mask::chunked(1 + below(12)), {below(40), stride, below(90)},
          {below(60), stride, below(90)});
    if (Test::HasFatalFailure()) return;
  }
  // Chunks of 3 over 3 * 10^8 tokens, 6 pairs each, without a loop over them.
  constexpr PositionRange kAll{0, 300'000'000};
  EXPECT_EQ(Mask::chunked(3).count(kAll, kAll), 600'000'000);
}

TEST(Mask, RandomRectanglesOfRandomMasks) {
  std::mt19937_64 random(20240607);
  const auto below = [&](std::int64_t n) {
    return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(n));
  };
  const auto law = [&]() -> Mask {
    switch (below(5)) {
      case 0:
        return Mask::causal(below(41) - 20);
      case 1:
        return Mask::local(below(20), below(20));
      case 2:
        return Mask::chunked(1 + below(20));
      case 3:
        return Mask::dense(scattered(1 + below(40), 1 + below(40)));
      default:
        return Mask::full();
    }
  };
  for (int round = 0; round < 3000; ++round) {
    Mask mask = law();
    for (std::int64_t more = below(4); more > 0; --more) {
      mask = below(2) == 0 ? mask & law() : mask | law();
      if (below(3) == 0) mask = law() & mask;
    }
    const std::int64_t stride = 1 + below(6);
    check(mask, {below(30), stride, below(30)},
          {below(30), below(4) == 0 ? 1 + below(6) : stride, below(30)});
    if (Test::HasFatalFailure()) return;
  }
}

// any() halves long rectangles of many chunks; counting does not.
TEST(Mask, SeesAnyInLongRectanglesWhereItCountsSome) {
  std::mt19937_64 random(577215);
  const auto below = [&](std::int64_t n) {
    return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(n));
  };
  int empty = 0;
  for (int round = 0; round < 3000; ++round) {
    const Mask chunks = Mask::chunked(1 + below(40));
    const Mask window = Mask::local(below(30), below(3));
    const Mask mask = below(3) == 0   ? chunks
                      : below(2) == 0 ? (chunks & window)
                                      : (chunks | (window & Mask::causal(-9)));
    const std::int64_t stride = 1 + below(50);
    const PositionRun q(below(4000), stride, 65 + below(300));
    const PositionRun k(below(4000), stride, 1 + below(40));
    const std::int64_t seen = mask.count(q, k);
    ASSERT_EQ(mask.any(q, k), seen > 0) << describe(mask, q, k);
    empty += seen == 0 ? 1 : 0;
  }
  EXPECT_GT(empty, 300);
  EXPECT_LT(empty, 2700);
}

TEST(Mask, HasTheMeaningOfItsName) {
  EXPECT_TRUE(Mask::causal(2).visible(0, 2));
  EXPECT_FALSE(Mask::causal(2).visible(0, 3));
  EXPECT_FALSE(Mask::causal(-1).visible(0, 0));
  EXPECT_EQ(Mask::causal(-1).count(PositionRange{0, 1}, PositionRange{0, 5}),
            0);
  // The 5 keys before and the query itself.
  EXPECT_TRUE(Mask::local(5, 0).visible(7, 2));
  EXPECT_FALSE(Mask::local(5, 0).visible(7, 1));
  EXPECT_FALSE(Mask::local(5, 0).visible(7, 8));
  EXPECT_TRUE(Mask::chunked(4).visible(7, 4));
  EXPECT_FALSE(Mask::chunked(4).visible(7, 3));
  EXPECT_FALSE(Mask::chunked(4).visible(4, 5));
}

TEST(Mask, KnowsItsParts) {
  const auto array = scattered(3, 4);
  const Mask mask = (Mask::causal(2) & Mask::local(1, 6) & Mask::dense(array)) |
                    Mask::chunked(5);
  ASSERT_EQ(mask.kind(), Mask::Kind::kOr);
  ASSERT_EQ(mask.operands().size(), 2U);
  const Mask& meet = mask.operands()[0];
  ASSERT_EQ(meet.kind(), Mask::Kind::kAnd);
  ASSERT_EQ(meet.operands().size(), 3U);
  EXPECT_EQ(meet.operands()[0].offset(), 2);
  EXPECT_EQ(meet.operands()[1].left(), 1);
  EXPECT_EQ(meet.operands()[1].right(), 6);
  EXPECT_EQ(meet.operands()[2].dense(), array);
  EXPECT_EQ(mask.operands()[1].chunk(), 5);
  EXPECT_EQ(mask.operands()[1].offset(), 0);
  EXPECT_EQ(mask.find_dense(), array);
  EXPECT_EQ(Mask::causal().find_dense(), nullptr);
}

TEST(Mask, EqualMasksHashAlike) {
  const std::vector<Mask> masks = test_masks();
  for (std::size_t i = 0; i < masks.size(); ++i) {
    for (std::size_t j = 0; j < masks.size(); ++j) {
      if (masks[i] == masks[j]) {
        EXPECT_EQ(masks[i].hash(), masks[j].hash());
      } else {
        EXPECT_NE(masks[i].hash(), masks[j].hash())
            << masks[i].to_string() << " " << masks[j].to_string();
      }
    }
  }
  EXPECT_EQ(Mask::dense(scattered(5, 6)), Mask::dense(scattered(5, 6)));
  EXPECT_FALSE(Mask::dense(scattered(5, 6)) == Mask::dense(scattered(6, 5)));
  EXPECT_FALSE(Mask::causal(3) == Mask::local(3, 0));
}

TEST(Mask, CountsAMillionTokensWithoutOverflow) {
  constexpr std::int64_t kMillion = 1 << 20;
  constexpr PositionRange kAll{0, kMillion};
  EXPECT_EQ(Mask::causal().count(kAll, kAll), kMillion * (kMillion + 1) / 2);
  EXPECT_EQ(Mask::causal(kMaxMaskNumber).count(kAll, kAll),
            kMillion * kMillion);
  EXPECT_EQ(Mask::causal(-kMaxMaskNumber).count(kAll, kAll), 0);
  EXPECT_EQ(Mask::local(kMaxMaskNumber, kMaxMaskNumber).count(kAll, kAll),
            kMillion * kMillion);
  EXPECT_EQ((Mask::causal() & Mask::local(kMaxMaskNumber, 0)).count(kAll, kAll),
            kMillion * (kMillion + 1) / 2);
  EXPECT_EQ(Mask::chunked(kMaxMaskNumber).count(kAll, kAll),
            kMillion * (kMillion + 1) / 2);
}

TEST(Mask, RefusesWhatIsNoMask) {
  EXPECT_THAT([] { Mask::local(-1, 0); },
              ThrowsMessage<Error>(HasSubstr("local:-1,0")));
  EXPECT_THROW(Mask::local(0, -1), Error);
  EXPECT_THROW(Mask::local(0, kMaxMaskNumber + 1), Error);
  EXPECT_THAT([] { Mask::chunked(0); },
              ThrowsMessage<Error>(HasSubstr("chunked:0")));
  EXPECT_THROW(Mask::chunked(-3), Error);
  EXPECT_THROW(Mask::causal(kMaxMaskNumber + 1), Error);
  EXPECT_THROW(Mask::causal(std::numeric_limits<std::int64_t>::min()), Error);
  const std::vector<std::uint8_t> six(6, 1);
  EXPECT_THROW(DenseMask::make(2, 4, six), Error);
  EXPECT_THROW(DenseMask::make(0, 4, {}), Error);
  EXPECT_THROW(
      DenseMask::make(std::int64_t{1} << 40, std::int64_t{1} << 40, six),
      Error);
}

TEST(Mask, AnArrayHasAShape) {
  const Mask mask = Mask::causal() & Mask::dense(scattered(3, 4));
  EXPECT_NO_THROW(mask.check_shape(3, 4));
  EXPECT_THAT(
      [&] { mask.check_shape(4, 3); },
      ThrowsMessage<Error>(AllOf(HasSubstr("[3, 4]"), HasSubstr("4 queries"),
                                 HasSubstr("3 keys"))));
  EXPECT_NO_THROW(Mask::causal().check_shape(4, 3));
}

TEST(ParseMask, ReadsWhatToStringWrites) {
  const auto array = scattered(12, 12);
  for (const Mask& mask : test_masks()) {
    if (mask.find_dense() != nullptr && !(*mask.find_dense() == *array)) {
      continue;
    }
    EXPECT_EQ(parse_mask(mask.to_string(), array), mask) << mask.to_string();
  }
  EXPECT_EQ(parse_mask("causal:0"), Mask::causal());
}

TEST(ParseMask, BindsAndTighterThanOr) {
  const Mask a = Mask::causal(1);
  const Mask b = Mask::local(2, 3);
  const Mask c = Mask::chunked(4);
  EXPECT_EQ(parse_mask("causal:1|local:2,3&chunked:4"), a | (b & c));
  EXPECT_EQ(parse_mask("causal:1&local:2,3|chunked:4"), (a & b) | c);
  EXPECT_EQ(parse_mask("(causal:1|local:2,3)&chunked:4"), (a | b) & c);
  EXPECT_EQ(parse_mask(" ( causal:1 | local:2,3 ) & chunked:4 "), (a | b) & c);
  EXPECT_EQ(parse_mask("((full))"), Mask::full());
}

TEST(ParseMask, RefusesTheRestByName) {
  for (const char* text : {"",
                           " ",
                           "causal:",
                           "causal:x",
                           "causal:1x",
                           "causal: 1",
                           "causal:1.5",
                           "causal:99999999999999999999",
                           "causal:9000000000000000000",
                           "Causal",
                           "causall",
                           "local",
                           "local:5",
                           "local:5,",
                           "local:,5",
                           "local:-1,0",
                           "local:5,0,0",
                           "chunked",
                           "chunked:",
                           "chunked:0",
                           "chunked:-1",
                           "dense",
                           "causal||full",
                           "causal&&full",
                           "(full",
                           "full)",
                           "()",
                           "&",
                           "full&",
                           "|full",
                           "full full",
                           "full,full",
                           "!causal",
                           "segment"}) {
    EXPECT_THAT([&] { parse_mask(text); },
                ThrowsMessage<Error>(AllOf(HasSubstr("mask"), HasSubstr(text))))
        << text;
  }
  EXPECT_THAT([] { parse_mask("lokal:5,0"); },
              ThrowsMessage<Error>(AllOf(HasSubstr("character 1"),
                                         HasSubstr("local:LEFT,RIGHT"))));
  EXPECT_THROW(parse_mask(std::string(100000, '(')), Error);
  EXPECT_THROW(parse_mask(std::string(2000, '(') + "full"), Error);
}

}  // namespace
}  // namespace ringmax::attention
