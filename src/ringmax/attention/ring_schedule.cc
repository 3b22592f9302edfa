#include "ringmax/attention/ring_schedule.h"

#include <algorithm>
#include <cstdlib>
#include <numeric>

#include "ringmax/attention/tile_key.h"
#include "ringmax/base/error.h"

namespace ringmax::attention {
namespace {

using Counts = std::vector<std::int64_t>;
using Runs = std::vector<PositionRun>;

std::int64_t sum(const Counts& values) {
  return std::accumulate(values.begin(), values.end(), std::int64_t{0});
}

std::size_t index(std::int64_t i) { return static_cast<std::size_t>(i); }

// The shortest way round: in (-R / 2, R / 2].
std::int64_t shortest(std::int64_t hop, std::int64_t ring) {
  const std::int64_t forward = ((hop % ring) + ring) % ring;
  return 2 * forward > ring ? forward - ring : forward;
}

// Counts what runs of queries see of runs of keys.
class PairCounter {
 public:
  explicit PairCounter(const Mask& mask) : mask_(mask), counts_(mask) {}

  struct Queries {
    PositionRun run;
    PositionRange hull;  // keys outside are seen by none of them
    PositionRange core;  // keys inside by all
  };
  std::vector<Queries> prepared(const Runs& runs) const {
    std::vector<Queries> result;
    for (const PositionRun& run : runs) {
      result.push_back({run, mask_.key_hull(run), mask_.key_core(run)});
    }
    return result;
  }

  std::int64_t count(const std::vector<Queries>& queries, const Runs& keys) {
    std::int64_t pairs = 0;
    for (const Queries& q : queries) {
      for (const PositionRun& k : keys) {
        if (k.last() < q.hull.begin || k.first >= q.hull.end) continue;
        const bool whole = q.core.begin <= k.first && k.last() < q.core.end;
        pairs += whole ? q.run.count * k.count : counts_.count(q.run, k);
      }
    }
    return pairs;
  }

 private:
  Mask mask_;
  TileCounts counts_;
};

// Sends of the trip steps[begin, end), payload and gradients. Going back from
// its last step, a shard is wanted while a device that it has yet to reach
// works with it; going on, its gradient moves once a device has worked with it.
void plan_trip(std::vector<RingStep>& steps, std::size_t begin, std::size_t end,
               std::int64_t ring) {
  const auto owner = [&](const RingStep& step, std::int64_t device) {
    return index((device - step.shift + ring) % ring);
  };
  const auto transfers = [&](const RingStep& step, std::int64_t hop,
                             bool by_source, const std::vector<bool>& shards) {
    SourceTargetPairs pairs;
    if (hop == 0) return pairs;
    for (const auto& [source, target] : rotation(ring, hop)) {
      if (shards[owner(step, by_source ? source : target)]) {
        pairs.emplace_back(source, target);
      }
    }
    return pairs;
  };
  std::vector<bool> wanted(index(ring), false);
  for (std::size_t i = end; i-- > begin;) {
    for (std::int64_t d = 0; d < ring; ++d) {
      if (steps[i].active(d)) wanted[owner(steps[i], d)] = true;
    }
    const std::int64_t from = i == begin ? 0 : steps[i - 1].shift;
    steps[i].from_home = i == begin;
    steps[i].hop = shortest(steps[i].shift - from, ring);
    steps[i].source_target_pairs =
        transfers(steps[i], steps[i].hop, false, wanted);
  }
  std::vector<bool> added(index(ring), false);
  for (std::size_t i = begin; i < end; ++i) {
    for (std::int64_t d = 0; d < ring; ++d) {
      if (steps[i].active(d)) added[owner(steps[i], d)] = true;
    }
    steps[i].ends_trip = i + 1 == end;
    const std::int64_t to = steps[i].ends_trip ? 0 : steps[i + 1].shift;
    steps[i].gradient_hop = shortest(to - steps[i].shift, ring);
    steps[i].gradient_pairs =
        transfers(steps[i], steps[i].gradient_hop, true, added);
  }
}

void plan_trips(std::vector<RingStep>& steps, std::int64_t ring) {
  std::size_t begin = 0;
  for (std::size_t i = 1; i <= steps.size(); ++i) {
    if (i < steps.size()) {
      // What is at home needs no trip, and a tie goes on with the trip: it
      // keeps the ring a ring.
      const std::int64_t from_home = std::abs(shortest(steps[i].shift, ring));
      const std::int64_t from_before =
          std::abs(shortest(steps[i].shift - steps[i - 1].shift, ring));
      const bool starts = steps[i - 1].shift == 0 || from_home < from_before;
      if (!starts) continue;
    }
    plan_trip(steps, begin, i, ring);
    begin = i;
  }
}

// The real positions of some slots of a device that has `shards` neighbouring
// shards.
Runs device_runs(const Layout& layout, std::int64_t device, std::int64_t shards,
                 const PositionRange& slots) {
  Runs result;
  for (std::int64_t s = 0; s < shards; ++s) {
    const std::int64_t start = s * layout.shard_tokens();
    const PositionRange here = {
        std::max(slots.begin - start, std::int64_t{0}),
        std::min(slots.end - start, layout.shard_tokens())};
    if (here.empty()) continue;
    for (const SlotRun& part : layout.real_slots(device * shards + s, here)) {
      result.push_back(part.run);
    }
  }
  return result;
}

RingTrack make_track(
    PairCounter& counter,
    const std::vector<std::vector<PairCounter::Queries>>& queries,
    const Layout& keys, std::int64_t shards_per_device,
    const PositionRange& key_slots, int direction) {
  const std::int64_t ring = keys.shards() / shards_per_device;
  RingTrack track;
  track.direction = direction;
  track.key_slots = key_slots;
  std::vector<Runs> key_runs;
  for (std::int64_t d = 0; d < ring; ++d) {
    key_runs.push_back(device_runs(keys, d, shards_per_device, key_slots));
  }
  for (std::int64_t distance = 0; distance < ring; ++distance) {
    RingStep step;
    step.shift = direction > 0 ? distance : (ring - distance) % ring;
    for (std::int64_t d = 0; d < ring; ++d) {
      const std::int64_t owner = (d - step.shift + ring) % ring;
      step.pairs.push_back(
          counter.count(queries[index(d)], key_runs[index(owner)]));
    }
    if (step.total_pairs() > 0) track.steps.push_back(std::move(step));
  }
  plan_trips(track.steps, ring);
  return track;
}

}  // namespace

SourceTargetPairs rotation(std::int64_t ring_size, std::int64_t by) {
  const std::int64_t forward = ((by % ring_size) + ring_size) % ring_size;
  SourceTargetPairs pairs;
  for (std::int64_t device = 0; device < ring_size; ++device) {
    pairs.emplace_back(device, (device + forward) % ring_size);
  }
  return pairs;
}

std::vector<std::int64_t> RingStep::active_devices() const {
  std::vector<std::int64_t> devices;
  for (std::size_t d = 0; d < pairs.size(); ++d) {
    if (pairs[d] > 0) devices.push_back(static_cast<std::int64_t>(d));
  }
  return devices;
}

std::int64_t RingStep::total_pairs() const { return sum(pairs); }

std::int64_t RingTrack::steps_sent() const {
  return std::count_if(steps.begin(), steps.end(),
                       [](const RingStep& step) { return step.hop != 0; });
}

bool RingTrack::is_rotation() const {
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const auto ring = static_cast<std::int64_t>(steps[i].pairs.size());
    const std::int64_t distance = static_cast<std::int64_t>(i);
    if (steps[i].shift != (direction * distance + ring) % ring) return false;
    if (i > 1 && steps[i].from_home) return false;
  }
  return true;
}

std::int64_t RingSchedule::steps_sent() const {
  std::int64_t sent = 0;
  for (const RingTrack& track : tracks) sent += track.steps_sent();
  return sent;
}

std::vector<std::int64_t> RingSchedule::pairs_per_device() const {
  Counts result(index(ring_size), 0);
  for (const RingTrack& track : tracks) {
    for (const RingStep& step : track.steps) {
      for (std::size_t d = 0; d < result.size(); ++d) {
        result[d] += step.pairs[d];
      }
    }
  }
  return result;
}

std::int64_t RingSchedule::total_pairs() const {
  return sum(pairs_per_device());
}

double RingSchedule::max_over_mean() const {
  const Counts pairs = pairs_per_device();
  const std::int64_t total = sum(pairs);
  if (total == 0) return 1;
  return static_cast<double>(*std::max_element(pairs.begin(), pairs.end())) *
         static_cast<double>(ring_size) / static_cast<double>(total);
}

RingSchedule make_ring_schedule(const Mask& mask, const Layout& queries,
                                const Layout& keys, RingOptions options) {
  if (keys.shards() != queries.shards()) {
    fail_invalid(
        "a ring needs as many shards of queries as of keys, got {} "
        "and {}",
        queries.shards(), keys.shards());
  }
  const std::int64_t group = options.shards_per_device;
  if (group < 1 || queries.shards() % group != 0) {
    fail_invalid("{} shards are not a multiple of {} shards a ring device",
                 queries.shards(), group);
  }
  const std::int64_t ring = queries.shards() / group;
  mask.check_shape(queries.tokens(), keys.tokens());
  PairCounter counter(mask);
  std::vector<std::vector<PairCounter::Queries>> query_runs;
  for (std::int64_t d = 0; d < ring; ++d) {
    query_runs.push_back(counter.prepared(
        device_runs(queries, d, group, {0, queries.shard_tokens() * group})));
  }
  RingSchedule schedule;
  schedule.ring_size = ring;
  const std::int64_t slots = keys.shard_tokens() * group;
  if (options.bidirectional && slots > 1 && ring > 1) {
    schedule.tracks = {
        make_track(counter, query_runs, keys, group, {0, slots / 2}, 1),
        make_track(counter, query_runs, keys, group, {slots / 2, slots}, -1)};
  } else {
    schedule.tracks = {
        make_track(counter, query_runs, keys, group, {0, slots}, 1)};
  }
  return schedule;
}

}  // namespace ringmax::attention
