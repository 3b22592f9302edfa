#include "ringmax/attention/ring_schedule.h"

#include <algorithm>
#include <numeric>

#include "ringmax/base/error.h"

namespace ringmax::attention {
namespace {

std::int64_t sum(const std::vector<std::int64_t>& values) {
  return std::accumulate(values.begin(), values.end(), std::int64_t{0});
}

std::int64_t visible_pairs(const Mask& mask,
                           const std::vector<PositionRange>& queries,
                           const std::vector<PositionRange>& keys) {
  std::int64_t pairs = 0;
  for (const PositionRange& q : queries) {
    for (const PositionRange& k : keys) pairs += mask.count(q, k);
  }
  return pairs;
}

}  // namespace

SourceTargetPairs rotation(std::int64_t ring_size, std::int64_t by) {
  SourceTargetPairs pairs;
  for (std::int64_t device = 0; device < ring_size; ++device) {
    pairs.emplace_back(device, (device + by) % ring_size);
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

std::int64_t RingSchedule::steps_sent() const {
  return std::count_if(steps.begin(), steps.end(),
                       [](const RingStep& step) { return step.hop != 0; });
}

std::vector<std::int64_t> RingSchedule::pairs_per_device() const {
  std::vector<std::int64_t> result(static_cast<std::size_t>(ring_size), 0);
  for (const RingStep& step : steps) {
    for (std::size_t d = 0; d < result.size(); ++d) result[d] += step.pairs[d];
  }
  return result;
}

std::int64_t RingSchedule::total_pairs() const {
  return sum(pairs_per_device());
}

double RingSchedule::max_over_mean() const {
  const std::vector<std::int64_t> pairs = pairs_per_device();
  const std::int64_t total = sum(pairs);
  if (total == 0) return 1;
  return static_cast<double>(*std::max_element(pairs.begin(), pairs.end())) *
         static_cast<double>(ring_size) / static_cast<double>(total);
}

std::int64_t RingSchedule::home_hop() const {
  if (steps.empty()) return 0;
  return (ring_size - steps.back().shift) % ring_size;
}

RingSchedule make_ring_schedule(const Mask& mask, const Layout& queries,
                                const Layout& keys) {
  const std::int64_t ring = queries.shards();
  if (keys.shards() != ring) {
    fail_invalid(
        "a ring needs as many shards of queries as of keys, got {} "
        "and {}",
        ring, keys.shards());
  }
  std::vector<std::vector<PositionRange>> query_ranges;
  std::vector<std::vector<PositionRange>> key_ranges;
  for (std::int64_t d = 0; d < ring; ++d) {
    query_ranges.push_back(queries.real_ranges(d));
    key_ranges.push_back(keys.real_ranges(d));
  }
  RingSchedule schedule;
  schedule.ring_size = ring;
  std::int64_t at = 0;
  for (std::int64_t shift = 0; shift < ring; ++shift) {
    RingStep step;
    step.shift = shift;
    for (std::int64_t d = 0; d < ring; ++d) {
      const std::int64_t owner = (d - shift + ring) % ring;
      step.pairs.push_back(
          visible_pairs(mask, query_ranges[static_cast<std::size_t>(d)],
                        key_ranges[static_cast<std::size_t>(owner)]));
    }
    if (step.total_pairs() == 0) continue;
    step.hop = shift - at;
    at = shift;
    schedule.steps.push_back(std::move(step));
  }
  // From the last step back, a shard is wanted as long as some device that it
  // has yet to reach works with it.
  std::vector<bool> wanted(static_cast<std::size_t>(ring), false);
  for (auto step = schedule.steps.rbegin(); step != schedule.steps.rend();
       ++step) {
    for (std::int64_t d = 0; d < ring; ++d) {
      const std::int64_t owner = (d - step->shift + ring) % ring;
      if (step->active(d)) wanted[static_cast<std::size_t>(owner)] = true;
    }
    if (step->hop == 0) continue;
    for (const auto& [source, target] : rotation(ring, step->hop)) {
      const std::int64_t owner = (target - step->shift + ring) % ring;
      if (wanted[static_cast<std::size_t>(owner)]) {
        step->source_target_pairs.emplace_back(source, target);
      }
    }
  }
  return schedule;
}

}  // namespace ringmax::attention
