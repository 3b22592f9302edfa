#include "ringmax/attention/gate.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "ringmax/attention/cost_model.h"
#include "ringmax/attention/mask_graph.h"
#include "ringmax/base/error.h"
#include "ringmax/base/problems.h"

namespace ringmax::attention {
namespace {

using Axes = std::vector<std::string>;

std::int64_t product(const Axes& axes, const mesh::Mesh& mesh) {
  std::int64_t size = 1;
  for (const std::string& axis : axes) size *= mesh.size(axis);
  return size;
}

// The axes of a tensor dimension that cut it: those of size 1 do nothing.
Axes axes_of(const mesh::PartitionSpec& spec, std::size_t dim,
             const mesh::Mesh& mesh) {
  Axes axes;
  if (dim >= spec.dims.size()) return axes;
  for (const std::string& axis : spec.dims[dim]) {
    if (mesh.size(axis) > 1) axes.push_back(axis);
  }
  return axes;
}

std::string named(const Axes& axes, const mesh::Mesh& mesh) {
  std::vector<std::string> parts;
  for (const std::string& axis : axes) {
    parts.push_back(fmt::format("{} ({})", axis, mesh.size(axis)));
  }
  return fmt::format("{}", fmt::join(parts, ", "));
}

void check_tensors(const AttendShapes& s, Problems& problems) {
  const Shape& q = s.q;
  const Shape& k = s.k;
  const Shape& v = s.v;
  if (q.rank() != 4 || k.rank() != 4 || v.rank() != 4) {
    problems.add(
        "q {}, k {} and v {} must be [batch, tokens, heads, head_dim] each",
        q.to_string(), k.to_string(), v.to_string());
    return;
  }
  const bool fits = q.dims[0] == k.dims[0] && q.dims[3] == k.dims[3] &&
                    k.dims[0] == v.dims[0] && k.dims[1] == v.dims[1] &&
                    k.dims[2] == v.dims[2];
  if (!fits) {
    problems.add(
        "q {}, k {} and v {} do not fit; they are [B, S, Hq, D], [B, T, Hkv, "
        "D] and [B, T, Hkv, Dv]",
        q.to_string(), k.to_string(), v.to_string());
  }
  if (std::min({element_count(q.dims), element_count(k.dims),
                element_count(v.dims)}) == 0) {
    problems.add("q {}, k {}, v {}: no dimension may be 0", q.to_string(),
                 k.to_string(), v.to_string());
    return;
  }
  if (q.dims[2] % k.dims[2] != 0) {
    problems.add("{} query heads are not a multiple of {} kv heads", q.dims[2],
                 k.dims[2]);
  }
  if (q.dtype != k.dtype || q.dtype != v.dtype) {
    problems.add("q {}, k {} and v {} must have one dtype", q.to_string(),
                 k.to_string(), v.to_string());
  }
  if (s.q_segments.has_value() != s.kv_segments.has_value()) {
    problems.add(
        "segment ids of {} are given without those of {}; give both or neither",
        s.q_segments ? "queries" : "keys", s.q_segments ? "keys" : "queries");
  }
  const auto segments = [&](const char* name, const std::optional<Shape>& given,
                            std::int64_t tokens) {
    const Shape expected(DType::kI32, {q.dims[0], tokens});
    if (given && *given != expected) {
      problems.add("{} is {}, must be {}: [batch, tokens]", name,
                   given->to_string(), expected.to_string());
    }
  };
  segments("q_segment_ids", s.q_segments, q.dims[1]);
  segments("kv_segment_ids", s.kv_segments, k.dims[1]);
  if (s.sinks && s.sinks->dims != Dims{q.dims[2]}) {
    problems.add("sinks is {}, must be one number for each of {} query heads",
                 s.sinks->to_string(), q.dims[2]);
  }
}

void check_numbers(const AttendSettings& s, Problems& problems) {
  if (s.scale && (!std::isfinite(*s.scale) || *s.scale == 0)) {
    problems.add("scale={}: must be a finite number, not 0", *s.scale);
  }
  if (!std::isfinite(s.soft_cap) || s.soft_cap < 0) {
    problems.add("{}={}: must be a finite number above 0, or 0 for none",
                 s.names.soft_cap, s.soft_cap);
  }
  const BlockSettings& b = s.blocks;
  const std::pair<std::string_view, std::int64_t> lengths[] = {
      {"q", b.block_q},
      {"kv", b.block_kv},
      {"kv_compute", b.block_kv_compute},
      {"q_dkv", b.block_q_dkv},
      {"kv_dkv", b.block_kv_dkv},
      {"kv_dkv_compute", b.block_kv_dkv_compute}};
  for (const auto& [name, length] : lengths) {
    if (length >= 0) continue;
    problems.add("{}{}={}: a block has at least 1 token; 0 lets it be chosen",
                 s.names.block, name, length);
  }
  if (s.ring_scan_unroll < -1) {
    problems.add(
        "ring_scan_unroll={}: must be 0 (no loop) or more, or -1 (chosen)",
        s.ring_scan_unroll);
  }
}

// Fills the plan's axes; q and kv must agree in what they share.
void derive_axes(const AttendShapes& shapes, const AttendSettings& settings,
                 const mesh::Mesh& mesh, AttendPlan& plan, Problems& problems) {
  const auto check_spec = [&](const char* what,
                              const mesh::PartitionSpec& spec) {
    Axes seen;
    if (spec.dims.size() > 4) {
      problems.add("{} sharding {} has more than 4 dimensions", what,
                   spec.to_string());
    }
    for (const auto& dim : spec.dims) {
      for (const std::string& axis : dim) {
        if (!mesh.has_axis(axis)) {
          problems.add("{} sharding {} names axis {}, which the mesh lacks",
                       what, spec.to_string(), axis);
        }
        if (std::find(seen.begin(), seen.end(), axis) != seen.end()) {
          problems.add("{} sharding {} uses axis {} twice", what,
                       spec.to_string(), axis);
        }
        seen.push_back(axis);
      }
    }
    const Axes head_dim = axes_of(spec, 3, mesh);
    if (!head_dim.empty()) {
      problems.add(
          "{} head_dim is sharded over {}; attention needs it whole on every "
          "device",
          what, named(head_dim, mesh));
    }
  };
  check_spec("query", settings.q_spec);
  check_spec("key/value", settings.kv_spec);
  const auto same = [&](const char* what, std::size_t dim) {
    const Axes q = axes_of(settings.q_spec, dim, mesh);
    const Axes kv = axes_of(settings.kv_spec, dim, mesh);
    if (q != kv) {
      problems.add(
          "{} of queries is sharded over [{}], of keys and values over [{}]; "
          "both must be sharded alike",
          what, named(q, mesh), named(kv, mesh));
    }
    return q;
  };
  plan.batch_axes = same("batch", 0);
  plan.sequence_axes = same("sequence", 1);
  const Axes kv_heads = axes_of(settings.kv_spec, 2, mesh);
  if (shapes.k.dims[2] == 1 && !kv_heads.empty()) {
    problems.add("one kv head cannot be sharded over {}; leave it whole",
                 named(kv_heads, mesh));
  }
  plan.head_axes = same("heads", 2);
  const auto even = [&](const char* what, std::int64_t size, const Axes& axes) {
    const std::int64_t parts = product(axes, mesh);
    if (size % parts != 0) {
      problems.add("{} {} do not divide evenly over {}", size, what,
                   named(axes, mesh));
    }
  };
  even("sequences of the batch", shapes.q.dims[0], plan.batch_axes);
  even("query heads", shapes.q.dims[2], plan.head_axes);
  even("kv heads", shapes.k.dims[2], plan.head_axes);
}

// Real tokens in slots, over the devices of the sequence.
std::optional<Layout> layout_of(const char* what, LayoutKind kind,
                                std::int64_t tokens, std::int64_t slots,
                                std::int64_t shards, Problems& problems) {
  if (tokens == 0) tokens = slots;
  if (tokens < 0 || tokens > slots) {
    problems.add("{} real {} do not fit into an array of {}", tokens, what,
                 slots);
    return std::nullopt;
  }
  if (shards > tokens) {
    problems.add(
        "{} {} cannot be spread over {} devices; every device needs at least "
        "one",
        tokens, what, shards);
    return std::nullopt;
  }
  if (slots >= kBeyondPositions) {
    problems.add("{} {}: positions must be below 2^30", slots, what);
    return std::nullopt;
  }
  const Layout layout(kind, tokens, shards);
  if (layout.padded_tokens() != slots) {
    problems.add(
        "{} {} take {} slots in layout {} over {} devices, the array has {}",
        tokens, what, layout.padded_tokens(), layout_name(kind), shards, slots);
    return std::nullopt;
  }
  return layout;
}

// The sequence's axes as given, those of size 1 too.
Axes sequence_spec(const AttendSettings& settings) {
  return settings.q_spec.dims.size() > 1 ? settings.q_spec.dims[1] : Axes{};
}

// Why a strategy cannot compute this; nothing when it can.
std::optional<std::string> refusal(Strategy strategy, const AttendShapes& s,
                                   const AttendSettings& settings,
                                   const AttendPlan& plan,
                                   const mesh::Mesh& mesh) {
  const Axes& axes = plan.sequence_axes;
  const auto heads_divide = [&](std::int64_t size) {
    const std::int64_t heads = s.q.dims[2] / product(plan.head_axes, mesh);
    return heads % size == 0
               ? std::nullopt
               : std::optional(fmt::format(
                     "{} query heads a device do not divide over {} devices",
                     heads, size));
  };
  std::int64_t ring_size = product(axes, mesh);
  std::optional<std::string> why;
  switch (strategy) {
    case Strategy::kSingle:
      if (!axes.empty()) {
        why = fmt::format("the sequence is sharded over {}", named(axes, mesh));
      }
      break;
    case Strategy::kRing:
      if (axes.size() > 1) {
        why = fmt::format(
            "the sequence is sharded over {}, a ring goes along one axis",
            named(axes, mesh));
      }
      break;
    case Strategy::kUlysses:
      if (axes.size() > 1) {
        why = fmt::format(
            "the sequence is sharded over {}, heads are shared out along one "
            "axis",
            named(axes, mesh));
      } else {
        why = heads_divide(product(axes, mesh));
      }
      break;
    case Strategy::kUsp:
      if (const Axes given = sequence_spec(settings); given.size() != 2) {
        why = fmt::format(
            "usp takes a sequence sharded over two axes, ring and ulysses, not "
            "over [{}]",
            fmt::join(given, ", "));
      } else {
        ring_size = mesh.size(given[0]);
        why = heads_divide(mesh.size(given[1]));
      }
      break;
    case Strategy::kAuto:
    case Strategy::kAllGather:
      break;
  }
  if (!why && settings.bidirectional) {
    const std::string both =
        bidirectional_refusal(strategy, s.k.dims[1], ring_size);
    if (!both.empty()) why = both;
  }
  return why;
}

// What this costs a device group, for the cost model.
CostCase cost_case(const AttendShapes& s, const AttendSettings& settings,
                   const mesh::Mesh& mesh, const AttendPlan& plan) {
  const std::int64_t batch_shards = product(plan.batch_axes, mesh);
  const std::int64_t head_shards = product(plan.head_axes, mesh);
  CostCase c;
  c.mask = settings.mask;
  c.layout = plan.q_layout.kind();
  c.batch = s.q.dims[0] / batch_shards;
  c.queries = plan.q_layout.tokens();
  c.keys = plan.kv_layout.tokens();
  c.query_heads = s.q.dims[2] / head_shards;
  c.kv_heads = s.k.dims[2] / head_shards;
  c.head_dim = s.q.dims[3];
  c.value_dim = s.v.dims[3];
  c.dtype = s.q.dtype;
  c.devices = product(plan.sequence_axes, mesh);
  c.ulysses =
      plan.sequence_axes.size() > 1 ? mesh.size(plan.sequence_axes.back()) : 1;
  c.bidirectional = settings.bidirectional;
  // To tell strategies apart these serve where none are asked for.
  constexpr BlockSizes kUsual{512, 512};
  const BlockSettings& b = settings.blocks;
  c.blocks = {b.block_q == 0 ? kUsual.q : b.block_q,
              b.block_kv == 0 ? kUsual.kv : b.block_kv};
  if (!plan.sequence_axes.empty()) {
    c.neighbour_links =
        neighbour_links(settings.target, mesh, plan.sequence_axes.front());
  }
  return c;
}

// Fills in the lengths that nobody asks for.
BlockSettings chosen_blocks(const CostCase& asked,
                            const AttendSettings& settings, AttendPlan& plan) {
  BlockSettings b = settings.blocks;
  if (b.block_q > 0 && b.block_kv > 0) return b;
  BlockSizes chosen;
  if (const auto own = plan.backend->own_blocks()) {
    chosen = {own->q, own->kv};
  } else {
    CostCase c = asked;
    // What a kernel gets: of a ring one shard after the other, elsewhere all
    // keys at once.
    c.ulysses = plan.ulysses_size;
    chosen = choose_blocks(c, settings.target);
  }
  if (b.block_q == 0) b.block_q = chosen.q;
  if (b.block_kv == 0) b.block_kv = chosen.kv;
  plan.notes.push_back(fmt::format(
      "blocks of {} queries and {} keys: {}", b.block_q, b.block_kv,
      plan.backend->own_blocks()
          ? fmt::format("what kernel {} is best with", plan.backend->name())
          : "the cheapest by the cost model"));
  return b;
}

KernelRequest request_of(const AttendShapes& s, const AttendSettings& settings,
                         const mesh::Mesh& mesh, const AttendPlan& plan) {
  KernelRequest r;
  r.mask = plan.tile_mask ? Mask::full() : settings.mask;
  r.scale =
      settings.scale.value_or(1 / std::sqrt(static_cast<double>(s.q.dims[3])));
  r.soft_cap = settings.soft_cap;
  const std::int64_t head_shards =
      product(plan.head_axes, mesh) * plan.ulysses_size;
  const std::int64_t devices = product(plan.sequence_axes, mesh);
  r.batch = s.q.dims[0] / product(plan.batch_axes, mesh);
  r.kv_heads = s.k.dims[2] * plan.kv_copies / head_shards;
  r.groups = s.q.dims[2] / head_shards / r.kv_heads;
  r.queries = s.q.dims[1] / devices * plan.ulysses_size;
  r.keys = plan.strategy == Strategy::kAllGather
               ? s.k.dims[1]
               : s.k.dims[1] / devices * plan.ulysses_size;
  r.head_dim = s.q.dims[3];
  r.value_dim = s.v.dims[3];
  r.dtype = s.q.dtype;
  r.segments = s.q_segments.has_value();
  r.tile = plan.tile_mask.has_value();
  r.chip = settings.target.chip;
  r.vmem_bytes = settings.target.vmem_bytes;
  return r;
}

// Why the devices of a ring cannot read each other's keys where they lie;
// nothing when they can.
std::optional<std::string> memory_refusal(const AttendSettings& settings,
                                          const AttendPlan& plan) {
  if (plan.strategy != Strategy::kRing) {
    return fmt::format("it is for strategy ring, and strategy {} is taken",
                       name_of(kStrategies, plan.strategy));
  }
  if (settings.bidirectional) {
    return "keys that are not sent have no two ways to go";
  }
  if (!settings.target.devices_share_memory()) {
    return fmt::format("devices of platform {} have memories of their own",
                       settings.target.platform);
  }
  if (!plan.backend->works_together()) {
    return fmt::format("kernel {} reads what its own device has",
                       plan.backend->name());
  }
  return std::nullopt;
}

// Whether a ring, if that is chosen, sends nothing.
bool would_ring_in_memory(const AttendShapes& shapes,
                          const AttendSettings& settings,
                          const mesh::Mesh& mesh, AttendPlan plan) {
  if (settings.ring_transport == RingTransport::kCollective) return false;
  plan.strategy = Strategy::kRing;
  plan.request = request_of(shapes, settings, mesh, plan);
  for (const Backend* backend : backends()) {
    const bool meant =
        settings.kernel == backend->name() ||
        (settings.kernel == "auto" && backend->automatic(settings.target));
    if (!meant || backend->refusal(plan.request, settings.target)) continue;
    plan.backend = backend;
    return !memory_refusal(settings, plan).has_value();
  }
  return false;
}

// What such a ring costs: an even share of one device's call.
StrategyEstimate estimate_in_memory(const CostCase& c,
                                    const hw::Target& target) {
  StrategyEstimate estimate = estimate_strategy(Strategy::kRing, c, target);
  CostCase whole = c;
  whole.devices = whole.ulysses = 1;
  whole.layout = LayoutKind::kContiguous;
  estimate.compute_s =
      estimate_strategy(Strategy::kSingle, whole, target).compute_s /
      static_cast<double>(c.devices);
  estimate.total_s = estimate.compute_s;
  estimate.transfer_s = 0;
  estimate.sent_bytes = 0;
  return estimate;
}

// The cheapest strategy, and why not the others.
void choose_strategy(const AttendShapes& shapes, const AttendSettings& settings,
                     const mesh::Mesh& mesh, AttendPlan& plan,
                     Problems& problems) {
  std::vector<StrategyEstimate> possible;
  for (const auto& [each, name] : kStrategies) {
    if (each == Strategy::kAuto) continue;
    if (const auto why = refusal(each, shapes, settings, plan, mesh)) {
      plan.refused.push_back(fmt::format("{}: {}", name, *why));
      continue;
    }
    if (settings.ring_transport == RingTransport::kMemory &&
        each != Strategy::kRing && !plan.sequence_axes.empty()) {
      plan.refused.push_back(
          fmt::format("{}: ring_transport=memory is for a ring", name));
      continue;
    }
    const CostCase c = cost_case(shapes, settings, mesh, plan);
    const bool in_memory = each == Strategy::kRing &&
                           !plan.sequence_axes.empty() &&
                           would_ring_in_memory(shapes, settings, mesh, plan);
    StrategyEstimate estimate =
        in_memory ? estimate_in_memory(c, settings.target)
                  : estimate_strategy(each, c, settings.target);
    // Degenerate, a ring of one device: only when nothing else is possible.
    if (!estimate.refusal.empty()) {
      estimate.refusal.clear();
      estimate.total_s = std::numeric_limits<double>::infinity();
    }
    possible.push_back(std::move(estimate));
  }
  if (possible.empty()) {
    problems.add("{}=auto: no strategy computes this: {}",
                 settings.names.strategy, fmt::join(plan.refused, "; "));
    return;
  }
  plan.strategy = cheapest(possible).strategy;
  const std::string_view taken = name_of(kStrategies, plan.strategy);
  for (const StrategyEstimate& estimate : possible) {
    const std::string_view name = name_of(kStrategies, estimate.strategy);
    const bool priced = !std::isinf(estimate.total_s);
    if (estimate.strategy == plan.strategy) {
      if (priced && possible.size() > 1) plan.estimate = estimate.to_string();
    } else if (priced) {
      plan.refused.push_back(fmt::format("{}: possible, estimated at {}", name,
                                         estimate.to_string()));
    } else {
      plan.refused.push_back(
          fmt::format("{}: possible, {} needs nobody else", name, taken));
    }
  }
}

void pick_strategy(const AttendShapes& shapes, const AttendSettings& settings,
                   const mesh::Mesh& mesh, AttendPlan& plan,
                   Problems& problems) {
  if (settings.strategy == Strategy::kAuto) {
    // One device has nothing to choose, unless it is asked to be a ring.
    if (!plan.sequence_axes.empty() || settings.bidirectional) {
      choose_strategy(shapes, settings, mesh, plan, problems);
      return;
    }
    plan.strategy = Strategy::kSingle;
  } else {
    plan.strategy = settings.strategy;
  }
  if (const auto why = refusal(plan.strategy, shapes, settings, plan, mesh)) {
    problems.add("{}={}: {}", settings.names.strategy,
                 name_of(kStrategies, plan.strategy), *why);
  }
}

void place_on_axes(const AttendSettings& settings, const mesh::Mesh& mesh,
                   AttendPlan& plan) {
  const Axes& axes = plan.sequence_axes;
  switch (plan.strategy) {
    case Strategy::kRing:
      if (!axes.empty()) plan.ring_axis = axes[0];
      break;
    case Strategy::kUlysses:
      if (!axes.empty()) plan.ulysses_axis = axes[0];
      break;
    case Strategy::kUsp:
      plan.ring_axis = sequence_spec(settings)[0];
      plan.ulysses_axis = sequence_spec(settings)[1];
      break;
    case Strategy::kAuto:
    case Strategy::kSingle:
    case Strategy::kAllGather:
      break;
  }
  for (std::string* axis : {&plan.ring_axis, &plan.ulysses_axis}) {
    if (mesh.size(*axis) == 1) axis->clear();
  }
  plan.ring_size = mesh.size(plan.ring_axis);
  plan.ulysses_size = mesh.size(plan.ulysses_axis);
}

void plan_ring(const Mask& mask, const AttendSettings& settings,
               AttendPlan& plan) {
  plan.schedule = make_ring_schedule(mask, plan.q_layout, plan.kv_layout,
                                     {.bidirectional = settings.bidirectional,
                                      .shards_per_device = plan.ulysses_size});
}

// Whether the ring's steps are a loop.
void plan_loop(const Mask& mask, const AttendSettings& settings,
               AttendPlan& plan) {
  if (settings.ring_scan_unroll == 0 || plan.ring_size == 1) return;
  const bool asked = settings.ring_scan_unroll > 0;
  if (plan.in_memory) {
    if (!asked) return;
    plan.notes.push_back(fmt::format(
        "ring_scan_unroll={}: no effect, keys are read where they lie; "
        "ring_transport=collective sends them",
        settings.ring_scan_unroll));
    return;
  }
  const std::int64_t unroll = asked ? settings.ring_scan_unroll : 1;
  const std::size_t steps = plan.schedule.tracks.front().steps.size();
  bool loops = true;
  for (const RingTrack& track : plan.schedule.tracks) {
    loops = loops && track.is_rotation() && track.steps.size() == steps;
  }
  if (!loops) {
    if (!asked) return;
    plan.notes.push_back(fmt::format(
        "ring_scan_unroll={}: the steps of mask {} jump, so they are not put "
        "into a loop",
        unroll, mask.to_string()));
    return;
  }
  // Below two passes a loop saves nothing.
  if (static_cast<std::int64_t>(steps) < 2 * unroll + 2) {
    if (!asked) return;
    plan.notes.push_back(
        fmt::format("ring_scan_unroll={}: {} ring steps are too few for a loop",
                    unroll, steps));
    return;
  }
  plan.ring_scan_unroll = unroll;
  // In a loop all steps are alike: everybody sends.
  for (RingTrack& track : plan.schedule.tracks) {
    for (RingStep& step : track.steps) {
      if (step.hop == 0) continue;
      step.source_target_pairs = rotation(plan.ring_size, step.hop);
    }
  }
}

void set_blocks(const BlockSettings& b, KernelRequest& r) {
  const auto or_else = [](std::int64_t value, std::int64_t fallback) {
    return value == 0 ? fallback : value;
  };
  r.forward_blocks = {b.block_q, b.block_kv,
                      or_else(b.block_kv_compute, b.block_kv)};
  r.backward_blocks.q = or_else(b.block_q_dkv, b.block_q);
  r.backward_blocks.kv = or_else(b.block_kv_dkv, b.block_kv);
  r.backward_blocks.kv_compute =
      or_else(b.block_kv_dkv_compute, r.backward_blocks.kv);
  for (auto* blocks : {&r.forward_blocks, &r.backward_blocks}) {
    blocks->kv_compute = std::min(blocks->kv_compute, blocks->kv);
  }
}

// Which part of a call's pairs its busiest device computes, and the mean device
// of that. `pairs` are those of every ring device.
void count_shares(bool rings, const std::vector<std::int64_t>& pairs,
                  AttendPlan& plan) {
  const KernelRequest& r = plan.request;
  double busiest = 0;
  double all = 0;
  if (rings) {
    for (const RingTrack& track : plan.schedule.tracks) {
      for (const RingStep& step : track.steps) {
        busiest += static_cast<double>(
            *std::max_element(step.pairs.begin(), step.pairs.end()));
        all += static_cast<double>(r.queries) *
               static_cast<double>(track.key_slots.size());
      }
    }
  } else {
    busiest =
        static_cast<double>(*std::max_element(pairs.begin(), pairs.end()));
    all = static_cast<double>(r.queries) * static_cast<double>(r.keys);
  }
  if (busiest == 0) return;
  double mean = 0;
  for (const std::int64_t n : pairs) mean += static_cast<double>(n);
  mean /= static_cast<double>(pairs.size());
  plan.request.visible_share = busiest / all;
  plan.balance = mean / busiest;
}

void choose_transport(const AttendSettings& settings, AttendPlan& plan) {
  const RingTransport asked = settings.ring_transport;
  if (asked == RingTransport::kCollective || plan.sequence_axes.empty()) return;
  if (const auto why = memory_refusal(settings, plan)) {
    if (asked == RingTransport::kAuto) return;
    fail_invalid(
        "ring_transport=memory: {}; valid are auto, which sends them then, and "
        "collective",
        *why);
  }
  plan.in_memory = true;
}

void count_work(const AttendShapes& s, const mesh::Mesh& mesh, const Mask& mask,
                AttendPlan& plan) {
  const KernelRequest& r = plan.request;
  const std::int64_t devices = product(plan.sequence_axes, mesh);
  const auto element = static_cast<std::int64_t>(dtype_size(r.dtype));
  const std::int64_t local_queries = s.q.dims[1] / devices;
  const std::int64_t local_keys = s.k.dims[1] / devices;
  // Of one key slot of what goes round, or is gathered.
  const std::int64_t slot_bytes =
      r.batch * r.kv_heads * (r.head_dim + r.value_dim) * element +
      (r.segments ? 4 * r.batch : 0);
  const bool rings =
      plan.strategy == Strategy::kRing || plan.strategy == Strategy::kUsp;
  const std::vector<std::int64_t> pairs =
      rings ? plan.schedule.pairs_per_device()
            : make_ring_schedule(mask, plan.q_layout, plan.kv_layout,
                                 {.shards_per_device = plan.ulysses_size})
                  .pairs_per_device();
  for (const std::int64_t each : pairs) {
    plan.pairs_per_device.insert(plan.pairs_per_device.end(),
                                 static_cast<std::size_t>(plan.ulysses_size),
                                 each);
  }
  count_shares(rings, pairs, plan);
  if (rings && !plan.in_memory) {
    plan.ring_steps_sent = plan.schedule.steps_sent();
    std::vector<std::int64_t> sent(static_cast<std::size_t>(plan.ring_size));
    for (const RingTrack& track : plan.schedule.tracks) {
      for (const RingStep& step : track.steps) {
        for (const auto& [source, target] : step.source_target_pairs) {
          sent[static_cast<std::size_t>(source)] +=
              track.key_slots.size() * slot_bytes;
        }
      }
    }
    plan.bytes_sent_per_device += *std::max_element(sent.begin(), sent.end());
  }
  if (plan.strategy == Strategy::kAllGather) {
    plan.bytes_sent_per_device += (devices - 1) * local_keys * slot_bytes;
  }
  if (plan.ulysses_size > 1) {
    const std::int64_t others = plan.ulysses_size - 1;
    // q and out in its dtype, lse and max in float32, of all heads but its own.
    const std::int64_t heads = r.kv_heads * r.groups;
    plan.bytes_sent_per_device +=
        others * r.batch *
        (local_queries * heads * ((r.head_dim + r.value_dim) * element + 8) +
         local_keys * r.kv_heads * (r.head_dim + r.value_dim) * element +
         (r.segments ? 4 * (local_queries + local_keys) : 0));
  }
}

}  // namespace

Strategy strategy_of(ContextStrategy strategy) {
  switch (strategy) {
    case ContextStrategy::kAuto:
      return Strategy::kAuto;
    case ContextStrategy::kRing:
      return Strategy::kRing;
    case ContextStrategy::kAllGather:
      return Strategy::kAllGather;
    case ContextStrategy::kUlysses:
      return Strategy::kUlysses;
    case ContextStrategy::kUsp:
      return Strategy::kUsp;
  }
  return Strategy::kAuto;
}

AttendPlan plan_attend(const AttendShapes& shapes,
                       const AttendSettings& settings, const mesh::Mesh& mesh) {
  AttendPlan plan;
  Problems problems;
  check_numbers(settings, problems);
  check_tensors(shapes, problems);
  problems.throw_if_any();
  derive_axes(shapes, settings, mesh, plan, problems);
  const std::int64_t devices = product(plan.sequence_axes, mesh);
  const auto queries = layout_of("queries", settings.layout, settings.queries,
                                 shapes.q.dims[1], devices, problems);
  const auto keys = layout_of("keys", settings.layout, settings.keys,
                              shapes.k.dims[1], devices, problems);
  problems.throw_if_any();
  plan.q_layout = *queries;
  plan.kv_layout = *keys;
  settings.mask.check_shape(queries->tokens(), keys->tokens());
  pick_strategy(shapes, settings, mesh, plan, problems);
  problems.throw_if_any();
  place_on_axes(settings, mesh, plan);
  if (settings.mask.find_dense() != nullptr) plan.tile_mask = settings.mask;

  const std::int64_t kv_heads =
      shapes.k.dims[2] / product(plan.head_axes, mesh);
  plan.kv_copies = plan.ulysses_size / std::gcd(kv_heads, plan.ulysses_size);
  if (plan.kv_copies > 1) {
    plan.notes.push_back(fmt::format(
        "{} kv heads a device do not divide over {}: each is sent {} times",
        kv_heads, named({plan.ulysses_axis}, mesh), plan.kv_copies));
  }
  if (plan.strategy == Strategy::kRing || plan.strategy == Strategy::kUsp) {
    plan_ring(settings.mask, settings, plan);
  }
  plan.request = request_of(shapes, settings, mesh, plan);
  BackendChoice choice = choose_backend(settings.kernel, plan.request,
                                        settings.target, settings.names.kernel);
  plan.backend = choice.backend;
  set_blocks(
      chosen_blocks(cost_case(shapes, settings, mesh, plan), settings, plan),
      plan.request);
  // With the blocks that it has now.
  if (const auto why = plan.backend->refusal(plan.request, settings.target)) {
    fail_invalid("{}={}: {}", settings.names.kernel, plan.backend->name(),
                 *why);
  }
  for (std::string& why : choice.refused) {
    plan.refused.push_back("kernel " + std::move(why));
  }
  choose_transport(settings, plan);
  if (!plan.ring_axis.empty()) plan_loop(settings.mask, settings, plan);
  count_work(shapes, mesh, settings.mask, plan);
  return plan;
}

std::string AttendPlan::summary() const {
  std::string text(name_of(kStrategies, strategy));
  if (!ring_axis.empty()) {
    text += fmt::format(" over {} ({})", ring_axis, ring_size);
  }
  if (!ulysses_axis.empty()) {
    text += fmt::format(", heads over {} ({})", ulysses_axis, ulysses_size);
  }
  text += fmt::format(", layout {}, kernel {}", layout_name(q_layout.kind()),
                      backend->name());
  if (ring_scan_unroll > 0) {
    text += fmt::format(", {} ring step{} in a pass of its loop",
                        ring_scan_unroll, ring_scan_unroll == 1 ? "" : "s");
  }
  if (in_memory) text += ", keys read where they lie";
  if (!estimate.empty()) text += ", estimated at " + estimate;
  return text;
}

}  // namespace ringmax::attention
