#include "ringmax/attention/layout.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "ringmax/base/error.h"

namespace ringmax::attention {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

constexpr LayoutKind kKinds[] = {LayoutKind::kContiguous, LayoutKind::kZigzag,
                                 LayoutKind::kStriped};

// Shards are equal, cover every position once, and differ from their real
// part by the padding at the end only.
TEST(Layout, CoversEveryPositionOnce) {
  for (const LayoutKind kind : kKinds) {
    for (std::int64_t shards = 1; shards <= 8; ++shards) {
      for (std::int64_t tokens = shards; tokens <= 40; ++tokens) {
        const Layout layout(kind, tokens, shards);
        const std::int64_t unit =
            kind == LayoutKind::kZigzag ? 2 * shards : shards;
        EXPECT_EQ(layout.padded_tokens() % unit, 0);
        EXPECT_GE(layout.padded_tokens(), tokens);
        EXPECT_LT(layout.padded_tokens(), tokens + unit);
        const std::vector<std::int64_t> positions = layout.positions();
        std::vector<std::int64_t> sorted = positions;
        std::sort(sorted.begin(), sorted.end());
        ASSERT_EQ(static_cast<std::int64_t>(sorted.size()),
                  layout.padded_tokens());
        for (std::size_t i = 0; i < sorted.size(); ++i) {
          EXPECT_EQ(sorted[i], static_cast<std::int64_t>(i));
        }
        std::int64_t real = 0;
        for (std::int64_t shard = 0; shard < shards; ++shard) {
          std::vector<std::int64_t> expected;
          for (std::int64_t slot = 0; slot < layout.shard_tokens(); ++slot) {
            const std::int64_t position = positions[static_cast<std::size_t>(
                shard * layout.shard_tokens() + slot)];
            EXPECT_EQ(layout.position(shard, slot), position);
            EXPECT_EQ(layout.shard_of(position), shard);
            EXPECT_EQ(layout.slot_of(position), slot);
            if (position < tokens) expected.push_back(position);
          }
          std::vector<std::int64_t> listed;
          for (const PositionRun& run : layout.real_runs(shard)) {
            EXPECT_FALSE(run.empty());
            for (std::int64_t i = 0; i < run.count; ++i) {
              listed.push_back(run.at(i));
            }
          }
          EXPECT_EQ(listed, expected);
          real += static_cast<std::int64_t>(listed.size());
        }
        EXPECT_EQ(real, tokens);
      }
    }
  }
}

TEST(Layout, PutsTokensWhereItsNameSays) {
  const auto positions = [](LayoutKind kind) {
    return Layout(kind, 12, 3).positions();
  };
  EXPECT_THAT(positions(LayoutKind::kContiguous),
              ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11));
  EXPECT_THAT(positions(LayoutKind::kZigzag),
              ElementsAre(0, 1, 10, 11, 2, 3, 8, 9, 4, 5, 6, 7));
  EXPECT_THAT(positions(LayoutKind::kStriped),
              ElementsAre(0, 3, 6, 9, 1, 4, 7, 10, 2, 5, 8, 11));
}

// Case 20: padding to blocks happens inside a shard, so 16 tokens reach all
// of 8 devices.
TEST(Layout, SequencePaddingNeverHidesTheRing) {
  for (const LayoutKind kind : kKinds) {
    const Layout layout(kind, 16, 8);
    EXPECT_EQ(layout.padded_tokens(), 16);
    for (std::int64_t shard = 0; shard < 8; ++shard) {
      EXPECT_FALSE(layout.real_runs(shard).empty());
    }
  }
  // Balanced layouts leave no device without tokens at any length.
  for (std::int64_t shards = 1; shards <= 8; ++shards) {
    for (std::int64_t tokens = shards; tokens <= 40; ++tokens) {
      for (std::int64_t shard = 0; shard < shards; ++shard) {
        EXPECT_FALSE(Layout(LayoutKind::kZigzag, tokens, shards)
                         .real_runs(shard)
                         .empty());
        EXPECT_FALSE(Layout(LayoutKind::kStriped, tokens, shards)
                         .real_runs(shard)
                         .empty());
      }
    }
  }
}

TEST(Layout, RefusesWhatCannotBeSpread) {
  for (const LayoutKind kind : kKinds) {
    EXPECT_THAT([&] { Layout(kind, 3, 4); },
                ThrowsMessage<Error>(
                    AllOf(HasSubstr("3 tokens"), HasSubstr("4 shards"))));
    EXPECT_THROW(Layout(kind, 0, 1), Error);
    EXPECT_THROW(Layout(kind, 4, 0), Error);
    EXPECT_THROW(Layout(kind, -4, -2), Error);
    EXPECT_THROW(Layout(kind, std::int64_t{1} << 31, 2), Error);
    EXPECT_THROW(Layout(kind, (std::int64_t{1} << 62) + 1, 1 << 30), Error);
    EXPECT_THROW(Layout(kind, (std::int64_t{1} << 31) - 1, 2), Error);
    EXPECT_NO_THROW(Layout(kind, std::int64_t{1} << 30, 1024));
    EXPECT_THROW(Layout(kind, 4, 2).runs(2), Error);
    EXPECT_THROW(Layout(kind, 4, 2).runs(-1), Error);
    EXPECT_THROW(Layout(kind, 4, 2).position(0, 2), Error);
    EXPECT_EQ(parse_layout(layout_name(kind)), kind);
  }
  EXPECT_THAT(
      [] { parse_layout("zickzack"); },
      ThrowsMessage<Error>(AllOf(HasSubstr("zickzack"), HasSubstr("striped"))));
  EXPECT_THROW(parse_layout(""), Error);
}

}  // namespace
}  // namespace ringmax::attention
