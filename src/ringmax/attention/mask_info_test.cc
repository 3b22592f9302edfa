#include "ringmax/attention/mask_info.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>

#include "ringmax/attention/ring_schedule.h"
#include "ringmax/base/error.h"

namespace ringmax::attention {
namespace {

using ::testing::HasSubstr;
using ::testing::Test;
using ::testing::ThrowsMessage;

constexpr LayoutKind kKinds[] = {LayoutKind::kContiguous, LayoutKind::kZigzag,
                                 LayoutKind::kStriped};

struct Setting {
  Mask mask = Mask::full();
  Layout queries;
  Layout keys;
  BlockSizes blocks;
  PositionRange key_slots;

  std::string describe() const {
    return fmt::format("{} {} R {} S {} T {} blocks {}x{} key slots {}..{}",
                       mask.to_string(), layout_name(keys.kind()),
                       keys.shards(), queries.tokens(), keys.tokens(), blocks.q,
                       blocks.kv, key_slots.begin, key_slots.end);
  }
};

class Random {
 public:
  explicit Random(std::uint64_t seed) : bits_(seed) {}
  std::int64_t below(std::int64_t n) {
    return static_cast<std::int64_t>(bits_() % static_cast<std::uint64_t>(n));
  }

  Mask law(std::int64_t queries, std::int64_t keys) {
    switch (below(6)) {
      case 0:
        return Mask::full();
      case 1:
        return Mask::local(below(12), below(6));
      case 2:
        return Mask::chunked(1 + below(20));
      case 3: {
        std::vector<std::uint8_t> bytes(
            static_cast<std::size_t>(queries * keys));
        for (std::uint8_t& byte : bytes) byte = below(3) == 0 ? 0 : 1;
        return Mask::dense(DenseMask::make(queries, keys, bytes));
      }
      default:
        return Mask::causal(below(3) == 0 ? below(31) - 15 : 0);
    }
  }

  Setting setting() {
    constexpr std::int64_t kRings[] = {1, 2, 3, 4, 5, 6, 8};
    const std::int64_t ring = kRings[below(7)];
    const std::int64_t s = ring + below(70);
    const std::int64_t t = below(2) == 0 ? s : ring + below(70);
    Mask mask = law(s, t);
    for (std::int64_t more = below(3); more > 0; --more) {
      mask = below(2) == 0 ? mask & law(s, t) : mask | law(s, t);
    }
    const LayoutKind kind = kKinds[below(3)];
    Setting made{mask,
                 Layout(kind, s, ring),
                 Layout(kind, t, ring),
                 {1 + below(9), 1 + below(9)},
                 {}};
    const std::int64_t slots = made.keys.shard_tokens();
    if (slots > 1 && below(3) == 0) {
      made.key_slots = below(2) == 0 ? PositionRange{0, slots / 2}
                                     : PositionRange{slots / 2, slots};
    }
    return made;
  }

 private:
  std::mt19937_64 bits_;
};

bool sees(const Setting& s, std::int64_t query, std::int64_t key) {
  return query >= 0 && key >= 0 && s.mask.visible(query, key);
}

// Everything a walk says, against asking about each pair of slots.
void check_walk(const Setting& s, const MaskInfo& info, std::int64_t shift,
                WalkOrder order) {
  const BlockWalk walk = info.walk(shift, order, info.ring_size());
  const std::vector<std::int32_t> q = info.query_positions();
  const std::vector<std::int32_t> k = info.key_positions(shift);
  ASSERT_EQ(static_cast<std::int64_t>(q.size()),
            info.query_blocks() * s.blocks.q);
  ASSERT_EQ(static_cast<std::int64_t>(k.size()),
            info.key_blocks() * s.blocks.kv);
  const bool by_query = order == WalkOrder::kByQuery;
  std::size_t at = 0;
  const auto line_of = [&](std::size_t i) {
    return by_query ? walk.rows[i] : walk.columns[i];
  };
  const std::int64_t lines = by_query ? info.query_blocks() : info.key_blocks();
  const std::int64_t across =
      by_query ? info.key_blocks() : info.query_blocks();
  for (std::int64_t line = 0; line < lines; ++line) {
    const std::size_t first = at;
    for (std::int64_t other = 0; other < across; ++other) {
      const std::int64_t row = by_query ? line : other;
      const std::int64_t column = by_query ? other : line;
      std::int64_t visible = 0;
      std::vector<std::uint8_t> bytes;
      for (std::int64_t i = 0; i < s.blocks.q; ++i) {
        for (std::int64_t j = 0; j < s.blocks.kv; ++j) {
          const bool seen =
              sees(s, q[static_cast<std::size_t>(row * s.blocks.q + i)],
                   k[static_cast<std::size_t>(column * s.blocks.kv + j)]);
          visible += seen ? 1 : 0;
          bytes.push_back(seen ? 1 : 0);
        }
      }
      if (visible == 0) continue;
      ASSERT_LT(at, walk.rows.size());
      ASSERT_EQ(walk.rows[at], row);
      ASSERT_EQ(walk.columns[at], column);
      if (visible == s.blocks.q * s.blocks.kv) {
        ASSERT_EQ(walk.kinds[at], BlockKind::kFull);
      } else {
        ASSERT_EQ(walk.kinds[at], BlockKind::kPartial);
        const auto number = static_cast<std::size_t>(walk.next_partial[at]);
        ASSERT_LT(number, info.partial_blocks().size());
        ASSERT_EQ(info.partial_blocks()[number].bytes(s.blocks.kv), bytes);
      }
      ++at;
    }
    if (at == first) {  // nothing visible: written all the same
      ASSERT_LT(at, walk.rows.size());
      ASSERT_EQ(line_of(at), line);
      ASSERT_EQ(walk.kinds[at], BlockKind::kEmpty);
      ++at;
    }
    for (std::size_t i = first; i < at; ++i) {
      const int bounds = (i == first ? BlockWalk::kFirst : 0) |
                         (i + 1 == at ? BlockWalk::kLast : 0);
      ASSERT_EQ(walk.bounds[i], bounds);
    }
  }
  ASSERT_EQ(at, walk.rows.size());
  std::int32_t next = -1;
  for (std::size_t i = at; i-- > 0;) {
    if (walk.kinds[i] == BlockKind::kPartial) next = walk.next_partial[i];
    ASSERT_EQ(walk.next_partial[i], next);
  }
  ASSERT_EQ(walk.active(), info.active_blocks(shift));
}

TEST(MaskInfo, AgreesWithEveryPairOfSlots) {
  Random random(271828);
  for (int round = 0; round < 400; ++round) {
    const Setting s = random.setting();
    SCOPED_TRACE(s.describe());
    for (std::int64_t device = 0; device < s.queries.shards(); ++device) {
      SCOPED_TRACE(fmt::format("device {}", device));
      const MaskInfo info(s.mask, s.queries, s.keys, s.blocks, device,
                          s.key_slots);
      const std::vector<std::int64_t> counts = count_active_blocks(
          s.mask, s.queries, s.keys, s.blocks, device, s.key_slots);
      for (const std::int64_t shift : info.shifts()) {
        SCOPED_TRACE(fmt::format("shift {}", shift));
        ASSERT_EQ(counts[static_cast<std::size_t>(shift)],
                  info.active_blocks(shift));
        check_walk(s, info, shift, WalkOrder::kByQuery);
        check_walk(s, info, shift, WalkOrder::kByKey);
        if (Test::HasFatalFailure()) return;
      }
    }
  }
}

// slice(step) is what a fresh MaskInfo of that rectangle is.
TEST(MaskInfo, ASliceIsAFreshOne) {
  Random random(314159);
  for (int round = 0; round < 400; ++round) {
    const Setting s = random.setting();
    SCOPED_TRACE(s.describe());
    const std::int64_t ring = s.queries.shards();
    const std::int64_t device = random.below(ring);
    const MaskInfo whole(s.mask, s.queries, s.keys, s.blocks, device,
                         s.key_slots);
    ASSERT_EQ(static_cast<std::int64_t>(whole.shifts().size()), ring);
    for (std::int64_t shift = 0; shift < ring; ++shift) {
      const MaskInfo slice = whole.slice(shift, ring);
      const MaskInfo fresh = MaskInfo::of_step(
          s.mask, s.queries, s.keys, s.blocks, device, shift, s.key_slots);
      ASSERT_TRUE(slice == fresh) << "device " << device << " shift " << shift;
      ASSERT_EQ(slice.walk(shift, WalkOrder::kByKey, ring),
                fresh.walk(shift, WalkOrder::kByKey, ring));
      // A slice of a slice is itself.
      ASSERT_TRUE(slice.slice(shift, ring) == slice);
    }
  }
}

// No two partial blocks of the same content.
TEST(MaskInfo, StoresEachPartialBlockOnce) {
  for (const LayoutKind kind : kKinds) {
    for (const Mask& mask :
         {Mask::causal(), Mask::local(20, 3), Mask::chunked(32),
          Mask::causal() & Mask::local(37, 0)}) {
      const Layout layout(kind, 512, 4);
      for (std::int64_t device = 0; device < 4; ++device) {
        const MaskInfo info(mask, layout, layout, {16, 16}, device);
        std::set<std::vector<std::uint8_t>> contents;
        for (const PartialBlock& block : info.partial_blocks()) {
          EXPECT_TRUE(contents.insert(block.bytes(16)).second)
              << mask.to_string() << " " << layout_name(kind);
        }
      }
    }
  }
}

TEST(MaskInfo, ACausalDiagonalIsOneBlock) {
  for (const LayoutKind kind : {LayoutKind::kContiguous, LayoutKind::kZigzag}) {
    const Layout layout(kind, 1 << 20, 64);
    for (std::int64_t device : {0, 31, 63}) {
      const MaskInfo info(Mask::causal(), layout, layout, {1024, 1024}, device);
      EXPECT_EQ(info.partial_blocks().size(), 1U);
    }
  }
  // Striped: with the query's own stripe or a later one.
  const Layout striped(LayoutKind::kStriped, 1 << 20, 64);
  EXPECT_EQ(MaskInfo(Mask::causal(), striped, striped, {1024, 1024}, 31)
                .partial_blocks()
                .size(),
            2U);
}

// Blocks of the slowest device over the mean, which is what its time is.
TEST(MaskInfo, ZigzagBalancesBlocks) {
  const auto max_over_mean = [](LayoutKind kind) {
    const Layout layout(kind, 65536, 8);
    std::int64_t total = 0;
    std::int64_t most = 0;
    for (std::int64_t device = 0; device < 8; ++device) {
      const MaskInfo info(Mask::causal(), layout, layout, {512, 512}, device);
      std::int64_t blocks = 0;
      for (std::int64_t s : info.shifts()) blocks += info.active_blocks(s);
      total += blocks;
      most = std::max(most, blocks);
    }
    return 8.0 * static_cast<double>(most) / static_cast<double>(total);
  };
  EXPECT_LE(max_over_mean(LayoutKind::kZigzag), 1.01);
  EXPECT_LE(max_over_mean(LayoutKind::kStriped), 1.01);
  EXPECT_NEAR(max_over_mean(LayoutKind::kContiguous), 1.87, 0.01);
}

// A small one, spelled out: 8 tokens on 2 devices, blocks of 2.
TEST(MaskInfo, SpellsOutItsWalk) {
  const Layout layout(LayoutKind::kContiguous, 8, 2);
  const MaskInfo info(Mask::local(1, 0), layout, layout, {2, 2}, 1);
  // Keys of device 0: query block 0 (positions 4, 5) sees key 3, block 1
  // nothing.
  const BlockWalk forward = info.walk(1, WalkOrder::kByQuery, 2);
  EXPECT_THAT(forward.rows, ::testing::ElementsAre(0, 1));
  EXPECT_THAT(forward.columns, ::testing::ElementsAre(1, 0));
  EXPECT_THAT(forward.kinds,
              ::testing::ElementsAre(BlockKind::kPartial, BlockKind::kEmpty));
  EXPECT_THAT(forward.bounds, ::testing::ElementsAre(3, 3));
  const auto number = static_cast<std::size_t>(forward.next_partial[0]);
  EXPECT_THAT(info.partial_blocks()[number].bytes(2),
              ::testing::ElementsAre(0, 1, 0, 0));
  EXPECT_EQ(forward.next_partial[1], -1);
  // Its own keys: two diagonal blocks, one content, and the one below.
  const BlockWalk dkv = info.walk(0, WalkOrder::kByKey, 2);
  EXPECT_THAT(dkv.columns, ::testing::ElementsAre(0, 0, 1));
  EXPECT_THAT(dkv.rows, ::testing::ElementsAre(0, 1, 1));
  EXPECT_THAT(dkv.bounds, ::testing::ElementsAre(1, 2, 3));
  EXPECT_EQ(dkv.next_partial[0], dkv.next_partial[2]);
}

// Every step that a schedule gives a device has blocks, and none other.
TEST(MaskInfo, AgreesWithTheSchedule) {
  Random random(161803);
  for (int round = 0; round < 100; ++round) {
    const Setting s = random.setting();
    const std::int64_t ring = s.queries.shards();
    const RingSchedule schedule =
        make_ring_schedule(s.mask, s.queries, s.keys, {.bidirectional = true});
    for (const RingTrack& track : schedule.tracks) {
      for (std::int64_t device = 0; device < ring; ++device) {
        const MaskInfo info(s.mask, s.queries, s.keys, s.blocks, device,
                            track.key_slots);
        for (std::int64_t shift = 0; shift < ring; ++shift) {
          const auto step = std::find_if(
              track.steps.begin(), track.steps.end(),
              [&](const RingStep& each) { return each.shift == shift; });
          EXPECT_EQ(step != track.steps.end() && step->active(device),
                    info.active_blocks(shift) > 0)
              << s.describe();
        }
      }
    }
  }
}

TEST(MaskInfo, RefusesAnotherRing) {
  const Layout layout(LayoutKind::kContiguous, 64, 4);
  const MaskInfo info(Mask::causal(), layout, layout, {8, 8}, 1);
  EXPECT_THAT([&] { info.slice(1, 8); },
              ThrowsMessage<Error>(
                  AllOf(HasSubstr("ring of 4"), HasSubstr("ring of 8"))));
  EXPECT_THAT([&] { info.walk(1, WalkOrder::kByQuery, 2); },
              ThrowsMessage<Error>(
                  AllOf(HasSubstr("ring of 4"), HasSubstr("ring of 2"))));
  EXPECT_THROW(info.slice(4, 4), Error);
  EXPECT_THROW(info.slice(1, 4).slice(2, 4), Error);
}

TEST(MaskInfo, RefusesWhatDoesNotFit) {
  const Layout layout(LayoutKind::kContiguous, 64, 4);
  const auto make = [&](const Mask& mask, const Layout& keys, BlockSizes blocks,
                        std::int64_t device, PositionRange slots = {}) {
    MaskInfo(mask, layout, keys, blocks, device, slots);
  };
  EXPECT_THROW(make(Mask::full(), layout, {0, 8}, 0), Error);
  EXPECT_THROW(make(Mask::full(), layout, {8, -1}, 0), Error);
  EXPECT_THROW(make(Mask::full(), layout, {8, 8}, 4), Error);
  EXPECT_THROW(make(Mask::full(), layout, {8, 8}, -1), Error);
  EXPECT_THROW(make(Mask::full(), layout, {8, 8}, 0, {0, 17}), Error);
  EXPECT_THROW(
      make(Mask::full(), Layout(LayoutKind::kContiguous, 64, 2), {8, 8}, 0),
      Error);
  EXPECT_THROW(
      make(Mask::full(), Layout(LayoutKind::kStriped, 64, 4), {8, 8}, 0),
      Error);
  const std::vector<std::uint8_t> bytes(64 * 32, 1);
  EXPECT_THAT(
      [&] {
        make(Mask::dense(DenseMask::make(64, 32, bytes)), layout, {8, 8}, 0);
      },
      ThrowsMessage<Error>(AllOf(HasSubstr("[64, 32]"), HasSubstr("64 keys"))));
}

// Blocks far larger than the shard, and a million tokens of blocks of one.
TEST(MaskInfo, TakesBlocksOfAnySize) {
  const Layout small(LayoutKind::kZigzag, 10, 2);
  const MaskInfo one(Mask::causal(), small, small, {1 << 20, 1 << 20}, 1);
  EXPECT_EQ(one.query_blocks(), 1);
  EXPECT_EQ(one.active_blocks(0), 1);
  const Layout million(LayoutKind::kContiguous, 1 << 20, 1 << 10);
  const MaskInfo fine(Mask::causal(), million, million, {1, 1}, 1023);
  EXPECT_EQ(fine.active_blocks(0), 1024 * 1025 / 2);
  EXPECT_LT(fine.memory_bytes(), std::int64_t{64} << 20);
}

}  // namespace
}  // namespace ringmax::attention
