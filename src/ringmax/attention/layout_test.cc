#include "ringmax/attention/layout.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "ringmax/base/error.h"

namespace ringmax::attention {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

// Shards are equal, cover every position once, and differ from their real
// part by the padding at the end only.
TEST(Layout, CoversEveryPositionOnce) {
  for (std::int64_t shards = 1; shards <= 8; ++shards) {
    for (std::int64_t tokens = shards; tokens <= 40; ++tokens) {
      const Layout layout(LayoutKind::kContiguous, tokens, shards);
      EXPECT_EQ(layout.padded_tokens() % shards, 0);
      EXPECT_GE(layout.padded_tokens(), tokens);
      EXPECT_LT(layout.padded_tokens(), tokens + shards);
      std::vector<std::int64_t> all = layout.positions();
      std::sort(all.begin(), all.end());
      for (std::size_t i = 0; i < all.size(); ++i) {
        EXPECT_EQ(all[i], static_cast<std::int64_t>(i));
      }
      EXPECT_EQ(static_cast<std::int64_t>(all.size()), layout.padded_tokens());
      std::int64_t real = 0;
      for (std::int64_t shard = 0; shard < shards; ++shard) {
        std::int64_t size = 0;
        for (const PositionRange& range : layout.shard_ranges(shard)) {
          EXPECT_FALSE(range.empty());
          size += range.size();
        }
        EXPECT_EQ(size, layout.shard_tokens());
        for (const PositionRange& range : layout.real_ranges(shard)) {
          EXPECT_FALSE(range.empty());
          EXPECT_LE(range.end, tokens);
          real += range.size();
        }
      }
      EXPECT_EQ(real, tokens);
    }
  }
}

// Case 20: padding to blocks happens inside a shard, so 16 tokens reach all
// of 8 devices.
TEST(Layout, SequencePaddingNeverHidesTheRing) {
  const Layout layout(LayoutKind::kContiguous, 16, 8);
  EXPECT_EQ(layout.padded_tokens(), 16);
  for (std::int64_t shard = 0; shard < 8; ++shard) {
    EXPECT_FALSE(layout.real_ranges(shard).empty());
  }
}

TEST(Layout, RefusesWhatCannotBeSpread) {
  EXPECT_THAT([] { Layout(LayoutKind::kContiguous, 3, 4); },
              ThrowsMessage<Error>(
                  AllOf(HasSubstr("3 tokens"), HasSubstr("4 shards"))));
  EXPECT_THROW(Layout(LayoutKind::kContiguous, 0, 1), Error);
  EXPECT_THROW(Layout(LayoutKind::kContiguous, 4, 0), Error);
  EXPECT_THROW(Layout(LayoutKind::kContiguous, 4, 2).shard_ranges(2), Error);
  EXPECT_THAT([] { parse_layout("zigzag"); },
              ThrowsMessage<Error>(HasSubstr("not supported yet")));
  EXPECT_THROW(parse_layout(""), Error);
  EXPECT_EQ(parse_layout(layout_name(LayoutKind::kContiguous)),
            LayoutKind::kContiguous);
}

}  // namespace
}  // namespace ringmax::attention
