#include "ringmax/cli/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>

#include "ringmax/analysis/plan_picture.h"
#include "ringmax/base/error.h"

namespace ringmax::cli {
namespace {

using attention::BlockSizes;
using attention::BlockWalk;
using attention::CostCase;
using attention::Layout;
using attention::MaskInfo;
using attention::RingStep;
using attention::RingTrack;
using attention::Strategy;
using attention::WalkOrder;

std::int64_t bytes_of(const BlockWalk& walk) {
  constexpr std::int64_t kEach = 3 * sizeof(std::int32_t) + 2;
  return walk.visits() * kEach;
}

// More visits than this are not spelled out: no kernel would take them.
constexpr std::int64_t kMostVisits = std::int64_t{1} << 26;
// Blocks of chunks fall into pieces chunk by chunk.
constexpr std::int64_t kMostChunks = std::int64_t{1} << 16;
// Where no two pairs of striped shards are alike each is counted by itself,
// chunk by chunk.
constexpr std::int64_t kMostPieces = std::int64_t{1} << 23;

std::int64_t smallest_chunk(const attention::Mask& mask) {
  std::int64_t least = mask.chunk();
  for (const attention::Mask& operand : mask.operands()) {
    const std::int64_t chunk = smallest_chunk(operand);
    if (chunk > 0 && (least == 0 || chunk < least)) least = chunk;
  }
  return least;
}

void check_size(const CostCase& c) {
  const std::int64_t chunk = smallest_chunk(c.mask);
  if (chunk > 0 && c.queries / chunk > kMostChunks) {
    fail_invalid(
        "mask={}: {} tokens have {} chunks of {}; a combination is planned "
        "with at most {}",
        c.mask.to_string(), c.queries, c.queries / chunk, chunk, kMostChunks);
  }
  if (chunk > 0 && c.layout == attention::LayoutKind::kStriped &&
      !c.mask.operands().empty() && chunk % c.devices != 0 &&
      c.queries / chunk > kMostPieces / (c.devices * c.devices)) {
    fail_invalid(
        "mask={}: in layout=striped a combination with chunks of {}, no "
        "multiple of {} devices, is planned for at most {} tokens here; valid "
        "are a multiple ({} is the next) and layout=contiguous or zigzag",
        c.mask.to_string(), chunk, c.devices,
        kMostPieces / (c.devices * c.devices) * chunk,
        (chunk / c.devices + 1) * c.devices);
  }
  const std::int64_t rows =
      c.blocks.q == 0 ? 1 : c.queries / c.devices / c.blocks.q;
  const std::int64_t columns =
      c.blocks.kv == 0 ? 1 : c.keys / c.devices / c.blocks.kv;
  if (rows > kMostVisits / std::max<std::int64_t>(columns, 1)) {
    fail_invalid(
        "block_q={} and block_kv={} cut a shard of {} queries and {} keys into "
        "{} x {} blocks, too many to plan; larger blocks are valid",
        c.blocks.q, c.blocks.kv, c.queries / c.devices, c.keys / c.devices,
        rows, columns);
  }
}

std::int64_t visits_of(const MaskInfo& info) {
  std::int64_t visits = 0;
  for (const std::int64_t shift : info.shifts()) {
    visits += info.active_blocks(shift);
  }
  return visits;
}

// Metadata of one device, as its kernels take it.
void measure_mask_info(Plan& plan) {
  const CostCase& c = plan.settings.what;
  const std::vector<std::int64_t> pairs = plan.schedule.pairs_per_device();
  const std::int64_t device =
      std::max_element(pairs.begin(), pairs.end()) - pairs.begin();
  plan.mask_info_build_s = 1e9;
  for (int round = 0; round < 3; ++round) {
    std::int64_t bytes = 0;
    const auto start = std::chrono::steady_clock::now();
    for (const RingTrack& track : plan.schedule.tracks) {
      const MaskInfo info(c.mask, plan.queries, plan.keys, c.blocks, device,
                          track.key_slots);
      bytes += info.memory_bytes();
      if (visits_of(info) > kMostVisits) continue;
      for (const std::int64_t shift : info.shifts()) {
        for (const WalkOrder order : {WalkOrder::kByQuery, WalkOrder::kByKey}) {
          bytes += bytes_of(info.walk(shift, order, info.ring_size()));
        }
      }
    }
    plan.mask_info_build_s = std::min(
        plan.mask_info_build_s,
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start)
            .count());
    plan.mask_info_bytes = bytes;
  }
}

// A ring of one device is one that sends nothing, and usp with groups of one,
// or one group, has an axis too many: what is left of it.
Strategy without_empty_axes(Strategy strategy, const CostCase& c) {
  if (c.devices == 1) return Strategy::kSingle;
  if (strategy != Strategy::kUsp) return strategy;
  if (c.ulysses == 1) return Strategy::kRing;
  return c.ulysses == c.devices ? Strategy::kUlysses : strategy;
}

void refuse_if(Strategy strategy, const std::string& why) {
  if (why.empty()) return;
  fail_invalid("strategy={}: {}", name_of(attention::kStrategies, strategy),
               why);
}

double max_over_mean(const std::vector<std::int64_t>& pairs) {
  double total = 0;
  for (const std::int64_t n : pairs) total += static_cast<double>(n);
  if (total == 0) return 1;
  return static_cast<double>(*std::max_element(pairs.begin(), pairs.end())) *
         static_cast<double>(pairs.size()) / total;
}

}  // namespace

bool Plan::is_ring() const {
  return settings.strategy == Strategy::kRing ||
         settings.strategy == Strategy::kUsp;
}

const attention::StrategyEstimate& Plan::estimate() const {
  return *std::find_if(costs.estimates.begin(), costs.estimates.end(),
                       [&](const attention::StrategyEstimate& e) {
                         return e.strategy == settings.strategy;
                       });
}

Plan make_plan(const PlanSettings& settings) {
  Plan plan;
  plan.settings = settings;
  CostCase& c = plan.settings.what;
  check_size(c);
  if (c.blocks.q == 0 || c.blocks.kv == 0) {
    const BlockSizes chosen = attention::choose_blocks(c, settings.target);
    if (c.blocks.q == 0) c.blocks.q = chosen.q;
    if (c.blocks.kv == 0) c.blocks.kv = chosen.kv;
  }
  Strategy& strategy = plan.settings.strategy;
  const std::int64_t ring =
      strategy == Strategy::kUsp ? c.devices / c.ulysses : c.devices;
  if (c.bidirectional && strategy != Strategy::kAuto) {
    refuse_if(strategy,
              attention::bidirectional_refusal(
                  strategy, Layout(c.layout, c.keys, c.devices).padded_tokens(),
                  ring));
  }
  if (c.devices == 1 || ring == 1) c.bidirectional = false;
  plan.costs = attention::choose_strategy(c, settings.target);
  strategy = strategy == Strategy::kAuto ? plan.costs.strategy
                                         : without_empty_axes(strategy, c);
  refuse_if(strategy, plan.estimate().refusal);
  const std::int64_t group = strategy == Strategy::kUsp       ? c.ulysses
                             : strategy == Strategy::kUlysses ? c.devices
                                                              : 1;
  plan.queries = Layout(c.layout, c.queries, c.devices / group);
  plan.keys = Layout(c.layout, c.keys, c.devices / group);
  plan.schedule = make_ring_schedule(c.mask, plan.queries, plan.keys,
                                     {plan.is_ring() && c.bidirectional});
  // Devices of a Ulysses group have the same tokens, each with its heads.
  for (const std::int64_t pairs : plan.schedule.pairs_per_device()) {
    plan.pairs_per_device.insert(plan.pairs_per_device.end(),
                                 static_cast<std::size_t>(group), pairs);
  }
  plan.max_over_mean = max_over_mean(plan.pairs_per_device);
  if (plan.is_ring()) plan.ring_steps_sent = plan.schedule.steps_sent();
  measure_mask_info(plan);
  return plan;
}

std::string plan_json(const Plan& plan) {
  using nlohmann::json;
  const CostCase& c = plan.settings.what;
  json steps = json::array();
  for (const RingTrack& track : plan.schedule.tracks) {
    for (const RingStep& step : track.steps) {
      json pairs = json::array();
      for (const std::int64_t d : step.active_devices()) {
        pairs.push_back(step.pairs[static_cast<std::size_t>(d)]);
      }
      steps.push_back({{"shift", step.shift},
                       {"active_devices", step.active_devices()},
                       {"pairs", std::move(pairs)},
                       {"direction", track.direction},
                       {"hop", plan.is_ring() ? step.hop : 0},
                       {"transfers",
                        plan.is_ring() ? step.source_target_pairs.size() : 0}});
    }
  }
  json estimates = json::array();
  for (const attention::StrategyEstimate& e : plan.costs.estimates) {
    json one = {{"strategy", name_of(attention::kStrategies, e.strategy)}};
    if (e.refusal.empty()) {
      one["total_s"] = e.total_s;
      one["compute_s"] = e.compute_s;
      one["transfer_s"] = e.transfer_s;
      one["sent_bytes"] = e.sent_bytes;
      one["memory_bytes"] = e.memory_bytes;
      one["fits"] = e.fits;
    } else {
      one["refused"] = e.refusal;
    }
    estimates.push_back(std::move(one));
  }
  const json out = {
      {"mask", c.mask.to_string()},
      {"layout", attention::layout_name(c.layout)},
      {"strategy", name_of(attention::kStrategies, plan.settings.strategy)},
      {"queries", c.queries},
      {"keys", c.keys},
      {"devices", c.devices},
      {"block_q", c.blocks.q},
      {"block_kv", c.blocks.kv},
      {"pairs_per_device", plan.pairs_per_device},
      {"max_over_mean", plan.max_over_mean},
      {"steps", std::move(steps)},
      {"ring_steps_sent", plan.ring_steps_sent},
      {"mask_info_build_s", plan.mask_info_build_s},
      {"mask_info_bytes", plan.mask_info_bytes},
      {"estimates", std::move(estimates)},
  };
  // A key a line.
  std::string text;
  for (const auto& [key, value] : out.items()) {
    text += fmt::format("{}  {}: {}", text.empty() ? "{\n" : ",\n",
                        json(key).dump(), value.dump());
  }
  return text + "\n}\n";
}

std::string plan_text(const Plan& plan) {
  const CostCase& c = plan.settings.what;
  std::string text = fmt::format(
      "{} over {} queries and {} keys, {} on {} device(s), {}, blocks of {} x "
      "{}\n",
      c.mask.to_string(), c.queries, c.keys, attention::layout_name(c.layout),
      c.devices, name_of(attention::kStrategies, plan.settings.strategy),
      c.blocks.q, c.blocks.kv);
  text += fmt::format(
      "pairs a device: max over mean {:.4f}; ring steps sent: {}; mask "
      "metadata of a device: {} bytes in {:.3f} ms\n",
      plan.max_over_mean, plan.ring_steps_sent, plan.mask_info_bytes,
      plan.mask_info_build_s * 1e3);
  constexpr std::size_t kMostLines = 16;
  for (const RingTrack& track : plan.schedule.tracks) {
    if (!plan.is_ring()) break;
    for (std::size_t i = 0; i < track.steps.size(); ++i) {
      if (i == kMostLines) {
        text += fmt::format("  ... {} more\n", track.steps.size() - i);
        break;
      }
      const RingStep& step = track.steps[i];
      text += fmt::format(
          "  shift {:>3}: hop {:+d}{}, {} transfer(s), {} device(s) at work, "
          "{} pairs\n",
          step.shift, step.hop, step.from_home ? " from home" : "",
          step.source_target_pairs.size(), step.active_devices().size(),
          analysis::short_count(static_cast<double>(step.total_pairs())));
    }
  }
  const PlanSettings& s = plan.settings;
  if (s.strategy == Strategy::kRing && s.target.devices_share_memory() &&
      !c.bidirectional &&
      s.ring_transport != attention::RingTransport::kCollective) {
    text += fmt::format(
        "training on this machine sends nothing: devices read keys where they "
        "lie (ring_transport={})\n",
        name_of(attention::kRingTransports, s.ring_transport));
  }
  text += fmt::format(
      "one attention op, forward and backward, {} query heads "
      "and {} kv heads of {}, on {} (*: the cheapest):\n{}",
      c.query_heads, c.kv_heads, c.head_dim,
      plan.settings.target.topology_name.empty()
          ? plan.settings.target.chip
          : plan.settings.target.topology_name,
      plan.costs.to_string());
  return text;
}

}  // namespace ringmax::cli
