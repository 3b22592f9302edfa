#include "ringmax/attention/ring_schedule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "ringmax/base/error.h"

namespace ringmax::attention {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;

Layout contiguous(std::int64_t tokens, std::int64_t shards) {
  return Layout(LayoutKind::kContiguous, tokens, shards);
}

struct Setting {
  Mask mask;
  Layout queries;
  Layout keys;
};

// Divisible and padded lengths, as many keys as queries and not.
std::vector<Setting> settings() {
  std::vector<Setting> result;
  for (const Mask& mask :
       {Mask::full(), Mask::causal(), Mask::causal(3), Mask::causal(-1),
        Mask::causal(-7), Mask::causal(-30), Mask::causal(30)}) {
    for (std::int64_t ring : {1, 2, 3, 4, 5, 6, 8}) {
      for (std::int64_t s : {8, 11, 16, 24, 30}) {
        for (std::int64_t t : {s, std::int64_t{9}, std::int64_t{24}}) {
          result.push_back({mask, contiguous(s, ring), contiguous(t, ring)});
        }
      }
    }
  }
  return result;
}

std::string describe(const Setting& setting) {
  return fmt::format("{} ring {} S {} T {}", setting.mask.to_string(),
                     setting.queries.shards(), setting.queries.tokens(),
                     setting.keys.tokens());
}

std::int64_t owner_of(const Layout& layout, std::int64_t position) {
  const std::vector<std::int64_t> all = layout.positions();
  for (std::size_t slot = 0; slot < all.size(); ++slot) {
    if (all[slot] == position) {
      return static_cast<std::int64_t>(slot) / layout.shard_tokens();
    }
  }
  return -1;
}

// Every visible pair is worked on once, on its query's device, in the step
// that brings its key there.
TEST(RingSchedule, CountsAgreeWithEnumeration) {
  for (const Setting& setting : settings()) {
    const std::int64_t ring = setting.queries.shards();
    std::vector<std::int64_t> query_owner;
    std::vector<std::int64_t> key_owner;
    for (std::int64_t i = 0; i < setting.queries.tokens(); ++i) {
      query_owner.push_back(owner_of(setting.queries, i));
    }
    for (std::int64_t j = 0; j < setting.keys.tokens(); ++j) {
      key_owner.push_back(owner_of(setting.keys, j));
    }
    std::vector<std::vector<std::int64_t>> expected(
        static_cast<std::size_t>(ring),
        std::vector<std::int64_t>(static_cast<std::size_t>(ring), 0));
    for (std::size_t i = 0; i < query_owner.size(); ++i) {
      for (std::size_t j = 0; j < key_owner.size(); ++j) {
        if (!setting.mask.visible(static_cast<std::int64_t>(i),
                                  static_cast<std::int64_t>(j))) {
          continue;
        }
        const std::int64_t shift =
            (query_owner[i] - key_owner[j] + ring) % ring;
        ++expected[static_cast<std::size_t>(shift)]
                  [static_cast<std::size_t>(query_owner[i])];
      }
    }
    const RingSchedule schedule =
        make_ring_schedule(setting.mask, setting.queries, setting.keys);
    std::set<std::int64_t> shifts;
    for (const RingStep& step : schedule.steps) {
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
    EXPECT_EQ(schedule.total_pairs(),
              setting.mask.count({0, setting.queries.tokens()},
                                 {0, setting.keys.tokens()}));
  }
}

// Playing the sends: a device with work holds the right shard, and a shard is
// not sent anywhere after the last device that works with it.
TEST(RingSchedule, SendsBringWhatIsReadAndNothingElse) {
  for (const Setting& setting : settings()) {
    const RingSchedule schedule =
        make_ring_schedule(setting.mask, setting.queries, setting.keys);
    const std::size_t ring = static_cast<std::size_t>(schedule.ring_size);
    std::vector<std::int64_t> holds(ring);
    for (std::size_t d = 0; d < ring; ++d) {
      holds[d] = static_cast<std::int64_t>(d);
    }
    std::vector<std::size_t> last_sent(ring, 0);
    std::vector<std::size_t> last_read(ring, 0);
    for (std::size_t s = 0; s < schedule.steps.size(); ++s) {
      const RingStep& step = schedule.steps[s];
      if (step.hop == 0) {
        EXPECT_TRUE(step.source_target_pairs.empty());
      } else {
        EXPECT_FALSE(step.source_target_pairs.empty());
        std::vector<std::int64_t> next(ring, -1);
        for (const auto& [source, target] : step.source_target_pairs) {
          EXPECT_EQ((source + step.hop) % schedule.ring_size, target);
          EXPECT_EQ(next[static_cast<std::size_t>(target)], -1);
          const std::int64_t shard = holds[static_cast<std::size_t>(source)];
          ASSERT_NE(shard, -1) << describe(setting);
          next[static_cast<std::size_t>(target)] = shard;
          last_sent[static_cast<std::size_t>(shard)] = s;
        }
        holds = next;
      }
      for (std::int64_t d : step.active_devices()) {
        const std::int64_t shard = holds[static_cast<std::size_t>(d)];
        ASSERT_EQ(shard,
                  (d - step.shift + schedule.ring_size) % schedule.ring_size)
            << describe(setting) << " shift " << step.shift;
        last_read[static_cast<std::size_t>(shard)] = s;
      }
    }
    for (std::size_t shard = 0; shard < ring; ++shard) {
      EXPECT_LE(last_sent[shard], last_read[shard]) << describe(setting);
    }
    // What went on rotating comes home.
    std::int64_t at = 0;
    for (const RingStep& step : schedule.steps) at += step.hop;
    EXPECT_EQ((at + schedule.home_hop()) % schedule.ring_size, 0);
  }
}

// Case 14, its contiguous row.
TEST(RingSchedule, CausalWorkPerDevice) {
  const RingSchedule schedule =
      make_ring_schedule(Mask::causal(), contiguous(16, 4), contiguous(16, 4));
  EXPECT_THAT(schedule.pairs_per_device(), ElementsAre(10, 26, 42, 58));
  EXPECT_NEAR(schedule.max_over_mean(), 58.0 / 34, 1e-12);
  EXPECT_EQ(schedule.steps_sent(), 3);
  EXPECT_THAT(schedule.steps[1].source_target_pairs,
              ElementsAre(Pair(0, 1), Pair(1, 2), Pair(2, 3)));
  EXPECT_THAT(schedule.steps[3].active_devices(), ElementsAre(3));
}

TEST(RingSchedule, SendsOneLessThanTheRingAtMost) {
  for (std::int64_t ring : {1, 2, 3, 4, 5, 6, 8}) {
    for (const Mask& mask : {Mask::full(), Mask::causal()}) {
      EXPECT_EQ(
          make_ring_schedule(mask, contiguous(120, ring), contiguous(120, ring))
              .steps_sent(),
          ring - 1);
    }
  }
}

// A mask that shows nothing of the home shard jumps over that step, and one
// that shows nothing at all sends nothing.
TEST(RingSchedule, JumpsOverStepsWithoutWork) {
  const RingSchedule far = make_ring_schedule(
      Mask::causal(-8), contiguous(16, 4), contiguous(16, 4));
  ASSERT_EQ(far.steps.size(), 2U);
  EXPECT_EQ(far.steps[0].shift, 2);
  EXPECT_EQ(far.steps[0].hop, 2);
  EXPECT_EQ(far.steps[1].hop, 1);
  EXPECT_EQ(far.home_hop(), 1);
  const RingSchedule none = make_ring_schedule(
      Mask::causal(-16), contiguous(16, 4), contiguous(16, 4));
  EXPECT_TRUE(none.steps.empty());
  EXPECT_EQ(none.max_over_mean(), 1);
  EXPECT_EQ(none.home_hop(), 0);
}

TEST(RingSchedule, RefusesRingsOfTwoSizes) {
  EXPECT_THROW(
      make_ring_schedule(Mask::full(), contiguous(8, 2), contiguous(8, 4)),
      Error);
}

TEST(RingSchedule, IsQuickForAMillionTokensOnManyDevices) {
  const std::int64_t million = 1 << 20;
  const RingSchedule schedule = make_ring_schedule(
      Mask::causal(), contiguous(million, 512), contiguous(million, 512));
  EXPECT_EQ(schedule.total_pairs(), million * (million + 1) / 2);
}

}  // namespace
}  // namespace ringmax::attention
