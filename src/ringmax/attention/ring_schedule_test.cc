#include "ringmax/attention/ring_schedule.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <set>

#include "ringmax/base/error.h"

namespace ringmax::attention {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;

constexpr LayoutKind kContiguous = LayoutKind::kContiguous;
constexpr LayoutKind kZigzag = LayoutKind::kZigzag;
constexpr LayoutKind kStriped = LayoutKind::kStriped;
constexpr LayoutKind kKinds[] = {kContiguous, kZigzag, kStriped};

RingSchedule square(const Mask& mask, LayoutKind kind, std::int64_t tokens,
                    std::int64_t ring, RingOptions options = {}) {
  const Layout layout(kind, tokens, ring);
  return make_ring_schedule(mask, layout, layout, options);
}

struct Setting {
  Mask mask;
  Layout queries;
  Layout keys;
  RingOptions options;
};

// Divisible and padded lengths, as many keys as queries and not, both ways.
std::vector<Setting> settings() {
  std::vector<Setting> result;
  for (const Mask& mask :
       {Mask::full(), Mask::causal(), Mask::causal(3), Mask::causal(-7),
        Mask::causal(-30), Mask::local(2, 0), Mask::local(1, 2),
        Mask::chunked(5), Mask::causal(-4) & Mask::local(9, 0),
        Mask::local(1, 0) | Mask::chunked(4)}) {
    for (std::int64_t ring : {1, 2, 3, 4, 5, 6, 8}) {
      for (std::int64_t s : {8, 11, 24}) {
        for (std::int64_t t : {s, std::int64_t{9}}) {
          for (const LayoutKind kind : kKinds) {
            for (const bool both : {false, true}) {
              result.push_back(
                  {mask, Layout(kind, s, ring), Layout(kind, t, ring), {both}});
            }
          }
        }
      }
    }
  }
  return result;
}

std::string describe(const Setting& setting) {
  return fmt::format("{} {} ring {} S {} T {} {}", setting.mask.to_string(),
                     layout_name(setting.keys.kind()), setting.queries.shards(),
                     setting.queries.tokens(), setting.keys.tokens(),
                     setting.options.bidirectional ? "both ways" : "one way");
}

// Every visible pair is worked on once, on its query's device, in the step
// of the track that brings its key there.
TEST(RingSchedule, CountsAgreeWithEnumeration) {
  for (const Setting& setting : settings()) {
    const std::int64_t ring = setting.queries.shards();
    const RingSchedule schedule = make_ring_schedule(
        setting.mask, setting.queries, setting.keys, setting.options);
    std::int64_t slots = 0;
    for (const RingTrack& track : schedule.tracks) {
      EXPECT_EQ(track.key_slots.begin, slots);
      slots = track.key_slots.end;
      std::vector<std::vector<std::int64_t>> expected(
          static_cast<std::size_t>(ring),
          std::vector<std::int64_t>(static_cast<std::size_t>(ring), 0));
      for (std::int64_t i = 0; i < setting.queries.tokens(); ++i) {
        const std::int64_t device = setting.queries.shard_of(i);
        for (std::int64_t j = 0; j < setting.keys.tokens(); ++j) {
          const std::int64_t slot = setting.keys.slot_of(j);
          if (!setting.mask.visible(i, j) || slot < track.key_slots.begin ||
              slot >= track.key_slots.end) {
            continue;
          }
          const std::int64_t shift =
              (device - setting.keys.shard_of(j) + ring) % ring;
          ++expected[static_cast<std::size_t>(shift)]
                    [static_cast<std::size_t>(device)];
        }
      }
      std::set<std::int64_t> shifts;
      for (const RingStep& step : track.steps) {
        EXPECT_TRUE(shifts.insert(step.shift).second);
        EXPECT_EQ(step.pairs, expected[static_cast<std::size_t>(step.shift)])
            << describe(setting);
        EXPECT_GT(step.total_pairs(), 0) << describe(setting);
      }
      for (std::int64_t shift = 0; shift < ring; ++shift) {
        const auto& pairs = expected[static_cast<std::size_t>(shift)];
        const bool work = std::any_of(pairs.begin(), pairs.end(),
                                      [](std::int64_t n) { return n > 0; });
        EXPECT_EQ(shifts.count(shift) > 0, work) << describe(setting);
      }
    }
    EXPECT_EQ(slots, setting.keys.shard_tokens());
    EXPECT_EQ(schedule.total_pairs(),
              setting.mask.count(PositionRange{0, setting.queries.tokens()},
                                 PositionRange{0, setting.keys.tokens()}));
  }
}

// What one permute delivers: to each device the shard its source holds.
std::vector<std::int64_t> permuted(const std::vector<std::int64_t>& holds,
                                   const SourceTargetPairs& pairs,
                                   std::int64_t hop) {
  const auto ring = static_cast<std::int64_t>(holds.size());
  std::vector<std::int64_t> next(holds.size(), -1);
  for (const auto& [source, target] : pairs) {
    EXPECT_EQ((source + hop + ring) % ring, target);
    EXPECT_EQ(next[static_cast<std::size_t>(target)], -1);
    next[static_cast<std::size_t>(target)] =
        holds[static_cast<std::size_t>(source)];
  }
  return next;
}

// Playing the sends: a device with work holds the right shard, nothing that
// nobody reads is sent, and every hop takes the shorter way round.
TEST(RingSchedule, SendsBringWhatIsReadAndNothingElse) {
  for (const Setting& setting : settings()) {
    const RingSchedule schedule = make_ring_schedule(
        setting.mask, setting.queries, setting.keys, setting.options);
    const std::int64_t ring = schedule.ring_size;
    std::vector<std::int64_t> home;
    for (std::int64_t d = 0; d < ring; ++d) home.push_back(d);
    for (const RingTrack& track : schedule.tracks) {
      std::vector<std::int64_t> holds = home;
      // Shards sent in this trip that nobody has read since.
      std::set<std::int64_t> unread;
      for (const RingStep& step : track.steps) {
        EXPECT_LE(2 * std::abs(step.hop), ring);
        if (step.from_home) {
          EXPECT_TRUE(unread.empty()) << describe(setting);
        }
        if (step.hop == 0) {
          EXPECT_EQ(step.shift, 0);
          EXPECT_TRUE(step.source_target_pairs.empty());
          holds = home;
        } else {
          EXPECT_FALSE(step.source_target_pairs.empty());
          holds = permuted(step.from_home ? home : holds,
                           step.source_target_pairs, step.hop);
        }
        for (std::int64_t shard : holds) {
          if (shard >= 0 && step.hop != 0) unread.insert(shard);
        }
        for (std::int64_t d : step.active_devices()) {
          const std::int64_t shard = holds[static_cast<std::size_t>(d)];
          ASSERT_EQ(shard, (d - step.shift + ring) % ring)
              << describe(setting) << " shift " << step.shift;
          unread.erase(shard);
        }
      }
      EXPECT_TRUE(unread.empty()) << describe(setting);
    }
  }
}

// Playing the gradients: what devices add to a shard comes home, all of it,
// once.
TEST(RingSchedule, GradientsComeHome) {
  for (const Setting& setting : settings()) {
    const RingSchedule schedule = make_ring_schedule(
        setting.mask, setting.queries, setting.keys, setting.options);
    const std::int64_t ring = schedule.ring_size;
    for (const RingTrack& track : schedule.tracks) {
      std::vector<std::int64_t> expected(static_cast<std::size_t>(ring), 0);
      std::vector<std::int64_t> home = expected;
      std::vector<std::int64_t> moving;
      for (const RingStep& step : track.steps) {
        if (step.from_home) moving.assign(home.size(), 0);
        for (std::int64_t d = 0; d < ring; ++d) {
          const std::int64_t pairs = step.pairs[static_cast<std::size_t>(d)];
          moving[static_cast<std::size_t>(d)] += pairs;
          expected[static_cast<std::size_t>((d - step.shift + ring) % ring)] +=
              pairs;
        }
        EXPECT_LE(2 * std::abs(step.gradient_hop), ring);
        if (step.gradient_hop != 0) {
          std::vector<std::int64_t> next =
              permuted(moving, step.gradient_pairs, step.gradient_hop);
          for (std::int64_t& sum : next) {
            EXPECT_NE(sum, 0) << describe(setting);  // never sends zeros
            sum = std::max(sum, std::int64_t{0});    // nothing arrived
          }
          moving = next;
        }
        if (step.ends_trip) {
          for (std::size_t d = 0; d < home.size(); ++d) home[d] += moving[d];
        }
      }
      EXPECT_EQ(home, expected) << describe(setting);
    }
  }
}

// Case 14.
TEST(RingSchedule, CausalWorkPerDevice) {
  const RingSchedule contiguous = square(Mask::causal(), kContiguous, 16, 4);
  EXPECT_THAT(contiguous.pairs_per_device(), ElementsAre(10, 26, 42, 58));
  EXPECT_NEAR(contiguous.max_over_mean(), 58.0 / 34, 1e-12);
  EXPECT_EQ(contiguous.steps_sent(), 3);
  const std::vector<RingStep>& steps = contiguous.tracks.front().steps;
  EXPECT_THAT(steps[1].source_target_pairs,
              ElementsAre(Pair(0, 1), Pair(1, 2), Pair(2, 3)));
  EXPECT_THAT(steps[3].active_devices(), ElementsAre(3));
  EXPECT_THAT(square(Mask::causal(), kZigzag, 16, 4).pairs_per_device(),
              ElementsAre(34, 34, 34, 34));
  EXPECT_THAT(square(Mask::causal(), kStriped, 16, 4).pairs_per_device(),
              ElementsAre(28, 32, 36, 40));
}

TEST(RingSchedule, ZigzagBalancesCausalWork) {
  EXPECT_NEAR(square(Mask::causal(), kContiguous, 65536, 8).max_over_mean(),
              1.87, 0.01);
  EXPECT_LE(square(Mask::causal(), kZigzag, 65536, 8).max_over_mean(), 1.01);
  EXPECT_LE(square(Mask::causal(), kStriped, 65536, 8).max_over_mean(), 1.01);
}

TEST(RingSchedule, SendsOneLessThanTheRingAtMost) {
  for (std::int64_t ring : {1, 2, 3, 4, 5, 6, 8}) {
    for (const Mask& mask : {Mask::full(), Mask::causal()}) {
      for (const LayoutKind kind : kKinds) {
        const RingSchedule schedule = square(mask, kind, 240, ring);
        EXPECT_EQ(schedule.steps_sent(), ring - 1);
        EXPECT_TRUE(schedule.tracks.front().is_rotation());
        // Both ways: the same number each, of half the size.
        const RingSchedule both = square(Mask::full(), kind, 240, ring, {true});
        EXPECT_EQ(both.steps_sent(), 2 * (ring - 1));
        for (const RingTrack& track : both.tracks) {
          EXPECT_TRUE(track.is_rotation());
        }
      }
    }
  }
}

// A window reaches a few neighbours only. Case 7: W = 6 over shards of 4.
TEST(RingSchedule, WindowsReachTheNeighboursTheyNeed) {
  EXPECT_EQ(square(Mask::local(5, 0), kContiguous, 16, 4).steps_sent(), 2);

  const RingSchedule contiguous =
      square(Mask::local(4095, 0), kContiguous, 65536, 8);
  EXPECT_EQ(contiguous.steps_sent(), 1);
  const RingStep& step = contiguous.tracks.front().steps.at(1);
  EXPECT_EQ(step.source_target_pairs.size(), 7U);
  // Backward: one send of gradients, back where the keys came from.
  EXPECT_EQ(step.gradient_hop, -1);
  EXPECT_EQ(step.gradient_pairs.size(), 7U);

  // Zigzag: chunk c sees chunk c - 1, which the neighbour before (first half)
  // or behind (second half) has; the ends meet on one device.
  const RingSchedule zigzag = square(Mask::local(4095, 0), kZigzag, 65536, 8);
  EXPECT_EQ(zigzag.steps_sent(), 2);
  const std::vector<RingStep>& steps = zigzag.tracks.front().steps;
  ASSERT_EQ(steps.size(), 3U);
  EXPECT_EQ(steps[1].hop, 1);
  EXPECT_EQ(steps[2].hop, -1);
  EXPECT_TRUE(steps[2].from_home);
  EXPECT_EQ(steps[1].source_target_pairs.size(), 7U);
  EXPECT_EQ(steps[2].source_target_pairs.size(), 7U);
  EXPECT_EQ(steps[1].gradient_hop, -1);
  EXPECT_EQ(steps[2].gradient_hop, 1);
  // Both ways: each neighbour gets the half that it needs.
  const RingSchedule halves =
      square(Mask::local(4095, 0), kZigzag, 65536, 8, {true});
  ASSERT_EQ(halves.tracks.size(), 2U);
  EXPECT_EQ(halves.tracks[0].steps_sent(), 1);
  EXPECT_EQ(halves.tracks[1].steps_sent(), 1);
}

// A mask that shows nothing of the home shard jumps over that step, and one
// that shows nothing at all sends nothing.
TEST(RingSchedule, JumpsOverStepsWithoutWork) {
  const RingSchedule far = square(Mask::causal(-8), kContiguous, 16, 4);
  const std::vector<RingStep>& steps = far.tracks.front().steps;
  ASSERT_EQ(steps.size(), 2U);
  EXPECT_EQ(steps[0].shift, 2);
  EXPECT_EQ(steps[0].hop, 2);
  EXPECT_EQ(steps[1].hop, 1);
  EXPECT_EQ(steps[1].gradient_hop, 1);
  EXPECT_FALSE(far.tracks.front().is_rotation());
  const RingSchedule none = square(Mask::causal(-16), kContiguous, 16, 4);
  EXPECT_TRUE(none.tracks.front().steps.empty());
  EXPECT_EQ(none.max_over_mean(), 1);
  EXPECT_EQ(none.steps_sent(), 0);
}

TEST(RingSchedule, RefusesWhatDoesNotFit) {
  EXPECT_THROW(make_ring_schedule(Mask::full(), Layout(kContiguous, 8, 2),
                                  Layout(kContiguous, 8, 4)),
               Error);
  const std::vector<std::uint8_t> visible(12, 1);
  const Mask dense = Mask::dense(DenseMask::make(3, 4, visible));
  EXPECT_THROW(square(dense, kContiguous, 4, 2), Error);
  EXPECT_NO_THROW(make_ring_schedule(dense, Layout(kContiguous, 3, 2),
                                     Layout(kContiguous, 4, 2)));
}

TEST(RingSchedule, IsQuickForAMillionTokensOnManyDevices) {
  const std::int64_t million = 1 << 20;
  for (const LayoutKind kind : kKinds) {
    EXPECT_EQ(square(Mask::causal(), kind, million, 512).total_pairs(),
              million * (million + 1) / 2);
  }
}

}  // namespace
}  // namespace ringmax::attention
