#include "ringmax/attention/cost_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <set>

#include "ringmax/attention/ring_schedule.h"
#include "ringmax/base/error.h"
#include "ringmax/mesh/device_order.h"

namespace ringmax::attention {
namespace {

// Of the peak, what a good attention kernel keeps of its matrix units busy.
constexpr double kKernelEfficiency = 0.6;
// To start a block: pipeline, mask, rescaling; on a CPU a turn of XLA's loop.
constexpr double kBlockStart_s = 0.4e-6;
constexpr double kCpuBlockStart_s = 20e-6;
// To start a collective.
constexpr double kSendStart_s = 5e-6;
// Backward over forward: five products of a block instead of two.
constexpr double kBackwardFactor = 2.5;
// Where the target does not say (a CPU): a core with vector units, and memory
// as the link. Only their ratio matters, all strategies use the same.
constexpr double kUnknownFlops = 30e9;
constexpr double kUnknownLink = 4e9;
constexpr double kUnknownMemory = 8e9;
constexpr std::int64_t kCpuCache = std::int64_t{1} << 20;

std::int64_t ceil_div(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}

struct Speeds {
  double flops, link, memory;  // a second; bytes a second, one link one way
  double block_start_s;
};

Speeds speeds_of(const CostCase& c, const hw::Target& target) {
  const double peak = target.peak_flops(c.dtype);
  return {(peak > 0 ? peak : kUnknownFlops) * kKernelEfficiency,
          target.link_bytes_per_s > 0 ? target.link_bytes_per_s : kUnknownLink,
          target.hbm_bytes_per_s > 0 ? target.hbm_bytes_per_s : kUnknownMemory,
          target.platform == "cpu" ? kCpuBlockStart_s : kBlockStart_s};
}

double element_bytes(const CostCase& c) {
  return static_cast<double>(dtype_size(c.dtype));
}

// Forward time of one block of one head of one sequence.
double block_s(const CostCase& c, BlockSizes blocks, const Speeds& speeds) {
  const double pairs =
      static_cast<double>(blocks.q) * static_cast<double>(blocks.kv);
  const auto width = static_cast<double>(c.head_dim + c.value_dim);
  const double fetch =
      static_cast<double>(blocks.kv) * width * element_bytes(c) / speeds.memory;
  return std::max(2 * pairs * width / speeds.flops, fetch) +
         speeds.block_start_s;
}

// Forward time of `blocks` active blocks for `heads` query heads.
double compute_s(const CostCase& c, const Speeds& speeds, double blocks,
                 double heads) {
  return blocks * heads * static_cast<double>(c.batch) *
         block_s(c, c.blocks, speeds);
}

double kv_bytes(const CostCase& c, double tokens, double heads,
                double bytes_each) {
  return static_cast<double>(c.batch) * tokens * heads *
         static_cast<double>(c.head_dim + c.value_dim) * bytes_each;
}

struct Ring {
  Layout queries, keys;
  RingSchedule schedule;
};

Ring ring_of(const CostCase& c, std::int64_t size) {
  const Layout queries(c.layout, c.queries, size);
  const Layout keys(c.layout, c.keys, size);
  return {queries, keys,
          make_ring_schedule(c.mask, queries, keys, {c.bidirectional})};
}

// What the steps of a ring take; both tracks' i-th steps run at once.
struct RingLoad {
  explicit RingLoad(const RingSchedule& schedule) {
    std::size_t steps = 0;
    for (const RingTrack& track : schedule.tracks) {
      steps = std::max(steps, track.steps.size());
    }
    devices = static_cast<std::size_t>(schedule.ring_size);
    compute.assign(steps, std::vector<double>(devices, 0));
    forward.assign(steps, 0);
    backward.assign(steps, 0);
  }

  double busiest() const {
    double most = 0;
    for (std::size_t d = 0; d < devices; ++d) {
      double sum = 0;
      for (const std::vector<double>& step : compute) sum += step[d];
      most = std::max(most, sum);
    }
    return most;
  }

  // Until the last device is done. A device starts a step when it is through
  // with the one before and its keys have come: they left when the device that
  // had them started the step before.
  double time(const RingSchedule& schedule, double factor,
              const std::vector<double>& transfer) const {
    std::vector<double> started(devices, 0);
    std::vector<double> done(devices, 0);
    for (std::size_t i = 0; i < compute.size(); ++i) {
      std::vector<double> ready = done;
      for (const RingTrack& track : schedule.tracks) {
        if (i >= track.steps.size()) continue;
        for (const auto& [source, target] :
             track.steps[i].source_target_pairs) {
          double& at = ready[static_cast<std::size_t>(target)];
          at = std::max(
              at, started[static_cast<std::size_t>(source)] + transfer[i]);
        }
      }
      started = ready;
      for (std::size_t d = 0; d < devices; ++d) {
        done[d] = started[d] + factor * compute[i][d];
      }
    }
    return *std::max_element(done.begin(), done.end());
  }

  std::size_t devices = 1;
  std::vector<std::vector<double>> compute;  // forward, by step and device
  std::vector<double> forward, backward;     // transfers that bring a step
};

// Compute and transfers of a ring over `size` groups, each device computing
// `q_heads` and carrying `kv_heads` heads.
void add_ring(const CostCase& c, std::int64_t size, double q_heads,
              double kv_heads, const Speeds& speeds, StrategyEstimate& out) {
  const Ring ring = ring_of(c, size);
  RingLoad load(ring.schedule);
  std::vector<double> sent(static_cast<std::size_t>(size), 0);
  for (const RingTrack& track : ring.schedule.tracks) {
    const auto tokens = static_cast<double>(track.key_slots.size());
    const double payload = kv_bytes(c, tokens, kv_heads, element_bytes(c));
    const double gradient = kv_bytes(c, tokens, kv_heads, 4);
    for (std::int64_t d = 0; d < size; ++d) {
      const std::vector<std::int64_t> blocks = count_active_blocks(
          c.mask, ring.queries, ring.keys, c.blocks, d, track.key_slots);
      for (std::size_t i = 0; i < track.steps.size(); ++i) {
        const auto shift = static_cast<std::size_t>(track.steps[i].shift);
        load.compute[i][static_cast<std::size_t>(d)] +=
            compute_s(c, speeds, static_cast<double>(blocks[shift]), q_heads);
      }
    }
    for (std::size_t i = 0; i < track.steps.size(); ++i) {
      const RingStep& step = track.steps[i];
      const auto transfer = [&](double bytes, std::int64_t hop) {
        if (hop == 0) return 0.0;
        return bytes * static_cast<double>(std::abs(hop)) * c.neighbour_links /
                   speeds.link +
               kSendStart_s;
      };
      load.forward[i] = std::max(load.forward[i], transfer(payload, step.hop));
      // The gradient of a step leaves while the next one computes.
      load.backward[i] =
          std::max(load.backward[i], transfer(payload, step.hop) +
                                         transfer(gradient, step.gradient_hop));
      for (const auto& [source, target] : step.source_target_pairs) {
        sent[static_cast<std::size_t>(source)] +=
            payload * (c.backward ? 2 : 1);
      }
      if (!c.backward) continue;
      for (const auto& [source, target] : step.gradient_pairs) {
        sent[static_cast<std::size_t>(source)] += gradient;
      }
    }
  }
  const double busiest = load.busiest();
  out.compute_s += busiest;
  out.total_s += load.time(ring.schedule, 1, load.forward);
  for (const double t : load.forward) out.transfer_s += t;
  if (c.backward) {
    out.compute_s += kBackwardFactor * busiest;
    out.total_s += load.time(ring.schedule, kBackwardFactor, load.backward);
    for (const double t : load.backward) out.transfer_s += t;
  }
  out.sent_bytes +=
      static_cast<std::int64_t>(*std::max_element(sent.begin(), sent.end()));
  // Home, what computes and what arrives; in float32 the gradient that stays
  // and the one that travels, arriving and leaving.
  const auto shard = static_cast<double>(ring.keys.shard_tokens());
  const double copies = size > 1 ? 3 : 1;
  out.memory_bytes += static_cast<std::int64_t>(
      kv_bytes(c, shard, kv_heads, element_bytes(c)) * copies +
      (c.backward ? kv_bytes(c, shard, kv_heads, 4) * copies : 0));
}

void add_all_gather(const CostCase& c, const Speeds& speeds,
                    StrategyEstimate& out) {
  const Layout queries(c.layout, c.queries, c.devices);
  const Layout keys(c.layout, c.keys, c.devices);
  double slowest = 0;
  for (std::int64_t d = 0; d < c.devices; ++d) {
    double blocks = 0;
    for (const std::int64_t n :
         count_active_blocks(c.mask, queries, keys, c.blocks, d)) {
      blocks += static_cast<double>(n);
    }
    slowest = std::max(slowest, blocks);
  }
  const auto heads = static_cast<double>(c.kv_heads);
  const auto others = static_cast<double>(c.devices - 1);
  const auto shard = static_cast<double>(keys.shard_tokens());
  const double gathered = others * kv_bytes(c, shard, heads, element_bytes(c));
  const double scattered = others * kv_bytes(c, shard, heads, 4);
  const double sent =
      gathered * (c.backward ? 2 : 1) + (c.backward ? scattered : 0);
  out.compute_s =
      compute_s(c, speeds, slowest, static_cast<double>(c.query_heads)) *
      (c.backward ? 1 + kBackwardFactor : 1);
  // Both ways round the ring at once.
  out.transfer_s = sent * c.neighbour_links / (2 * speeds.link) +
                   (c.backward ? 3 : 1) * kSendStart_s;
  out.total_s = out.compute_s + out.transfer_s;
  out.sent_bytes = static_cast<std::int64_t>(sent);
  const auto whole = static_cast<double>(keys.padded_tokens());
  out.memory_bytes = static_cast<std::int64_t>(
      kv_bytes(c, whole + shard, heads, element_bytes(c)) +
      (c.backward ? kv_bytes(c, whole + shard, heads, 4) : 0));
}

// Heads of keys and values that each of `group` devices holds: those that do
// not divide are copied until they do.
double kv_heads_each(const CostCase& c, std::int64_t group) {
  const std::int64_t copies = group / std::gcd(c.kv_heads, group);
  return static_cast<double>(c.kv_heads * copies) / static_cast<double>(group);
}

// The all-to-alls of a Ulysses group, forward q, k, v and out, backward the
// same twice: the operands again and all gradients.
void add_all_to_all(const CostCase& c, std::int64_t group, double tokens_q,
                    double tokens_k, const Speeds& speeds,
                    StrategyEstimate& out) {
  const auto size = static_cast<double>(group);
  const auto q_heads = static_cast<double>(c.query_heads);
  const double away = (size - 1) / size;
  const double forward =
      away *
      (kv_bytes(c, tokens_q, q_heads, element_bytes(c)) +
       kv_bytes(c, tokens_k, kv_heads_each(c, group) * size, element_bytes(c)));
  const double sent = forward * (c.backward ? 3 : 1);
  // A quarter of the way round on average, over links to both sides.
  const double links = std::max(size / 4, 1.0) * c.neighbour_links;
  const double time =
      sent * links / (2 * speeds.link) + (c.backward ? 12 : 4) * kSendStart_s;
  out.transfer_s += time;
  out.total_s += time;
  out.sent_bytes += static_cast<std::int64_t>(sent);
  // Queries and output before and after.
  out.memory_bytes += static_cast<std::int64_t>(
      2 * kv_bytes(c, tokens_q, q_heads, element_bytes(c)));
}

std::string heads_refusal(const CostCase& c, std::int64_t group) {
  if (c.query_heads % group != 0) {
    return fmt::format("{} query heads cannot be spread over {} devices",
                       c.query_heads, group);
  }
  return "";
}

std::string refusal_of(Strategy strategy, const CostCase& c) {
  if (c.bidirectional && c.devices > 1) {
    const std::string why = bidirectional_refusal(
        strategy, Layout(c.layout, c.keys, c.devices).padded_tokens(),
        strategy == Strategy::kUsp ? c.devices / c.ulysses : c.devices);
    if (!why.empty()) return why;
  }
  if (strategy == Strategy::kSingle) {
    if (c.devices == 1) return "";
    return fmt::format("{} devices share the sequence", c.devices);
  }
  if (c.devices == 1) return "one device has the whole sequence";
  if (strategy == Strategy::kUsp) {
    if (c.ulysses == 1) return "there is no axis for Ulysses groups";
    if (c.ulysses == c.devices) return "one group is Ulysses without a ring";
    return heads_refusal(c, c.ulysses);
  }
  if (c.ulysses != 1 && c.ulysses != c.devices) {
    return fmt::format("the Ulysses groups of {} devices are used by usp only",
                       c.ulysses);
  }
  if (strategy == Strategy::kUlysses) return heads_refusal(c, c.devices);
  return "";
}

void check(const CostCase& c) {
  if (c.devices < 1 || c.ulysses < 1 || c.devices % c.ulysses != 0) {
    fail_invalid(
        "{} devices cannot be grouped by {}: the Ulysses size must divide "
        "them",
        c.devices, c.ulysses);
  }
  if (c.batch < 1 || c.query_heads < 1 || c.kv_heads < 1 || c.head_dim < 1 ||
      c.value_dim < 1 || c.query_heads % c.kv_heads != 0) {
    fail_invalid(
        "attention of batch {}, {} query heads, {} kv heads, head sizes {} and "
        "{}: all must be at least 1, and kv heads must divide query heads",
        c.batch, c.query_heads, c.kv_heads, c.head_dim, c.value_dim);
  }
}

// The same with blocks as long as they must be for their rows, over all ring
// steps, to be counted in a second: of no weight for sequences so long.
CostCase countable(CostCase c) {
  constexpr std::int64_t kMostRows = 1 << 22;
  const auto rows = [&] { return c.queries / c.blocks.q * c.devices; };
  while (rows() > kMostRows && c.blocks.q < c.queries / c.devices) {
    c.blocks = {2 * c.blocks.q, 2 * c.blocks.kv};
  }
  return c;
}

std::string bytes_text(std::int64_t bytes) {
  const auto value = static_cast<double>(bytes);
  if (value >= 1e9) return fmt::format("{:.2f} GB", value / 1e9);
  if (value >= 1e6) return fmt::format("{:.2f} MB", value / 1e6);
  return fmt::format("{:.2f} kB", value / 1e3);
}

std::string time_text(double seconds) {
  if (seconds >= 1) return fmt::format("{:.2f} s", seconds);
  if (seconds >= 1e-3) return fmt::format("{:.2f} ms", seconds * 1e3);
  return fmt::format("{:.2f} us", seconds * 1e6);
}

}  // namespace

double neighbour_links(const hw::Target& target, const mesh::Mesh& mesh,
                       std::string_view axis) {
  if (target.platform == "cpu" || target.devices() != mesh.device_count()) {
    return 1;
  }
  const std::vector<int> order = mesh::device_order(target.topology, mesh);
  const mesh::RingHops hops =
      mesh::ring_hops(target.topology, mesh, order, axis);
  return std::max(1.0, static_cast<double>(hops.max));
}

std::string bidirectional_refusal(Strategy strategy, std::int64_t key_slots,
                                  std::int64_t ring_size) {
  if (strategy != Strategy::kRing && strategy != Strategy::kUsp) {
    return "bidirectional=true asks for a ring, and here nothing goes round";
  }
  if (ring_size <= 1 || key_slots / ring_size > 1) return "";
  return fmt::format(
      "bidirectional=true halves the keys of a device, and {} keys over {} "
      "devices cannot be halved",
      key_slots, ring_size);
}

StrategyEstimate estimate_strategy(Strategy strategy, const CostCase& asked,
                                   const hw::Target& target) {
  check(asked);
  const CostCase c = countable(asked);
  RINGMAX_CHECK(strategy != Strategy::kAuto);
  StrategyEstimate out;
  out.strategy = strategy;
  out.refusal = refusal_of(strategy, c);
  if (!out.refusal.empty()) return out;
  const Speeds speeds = speeds_of(c, target);
  const auto q_heads = static_cast<double>(c.query_heads);
  const auto kv_heads = static_cast<double>(c.kv_heads);
  switch (strategy) {
    case Strategy::kAuto:
      break;
    case Strategy::kSingle:
      add_ring(c, 1, q_heads, kv_heads, speeds, out);
      break;
    case Strategy::kRing:
      add_ring(c, c.devices, q_heads, kv_heads, speeds, out);
      break;
    case Strategy::kAllGather:
      add_all_gather(c, speeds, out);
      break;
    case Strategy::kUlysses:
    case Strategy::kUsp: {
      const std::int64_t group =
          strategy == Strategy::kUsp ? c.ulysses : c.devices;
      add_ring(c, c.devices / group, q_heads / static_cast<double>(group),
               kv_heads_each(c, group), speeds, out);
      add_all_to_all(
          c, group, static_cast<double>(ceil_div(c.queries, c.devices)),
          static_cast<double>(ceil_div(c.keys, c.devices)), speeds, out);
      break;
    }
  }
  out.fits = target.hbm_bytes == 0 || out.memory_bytes <= target.hbm_bytes;
  return out;
}

const StrategyEstimate& StrategyChoice::chosen() const {
  return *std::find_if(
      estimates.begin(), estimates.end(),
      [&](const StrategyEstimate& e) { return e.strategy == strategy; });
}

std::string StrategyEstimate::to_string() const {
  if (!refusal.empty()) return "refused: " + refusal;
  return fmt::format("{}: compute {}, transfers {}, sends {}, keeps {}{}",
                     time_text(total_s), time_text(compute_s),
                     time_text(transfer_s), bytes_text(sent_bytes),
                     bytes_text(memory_bytes), fits ? "" : ", does not fit");
}

std::string StrategyChoice::to_string() const {
  std::string text;
  for (const StrategyEstimate& e : estimates) {
    text += fmt::format("{} {:<10} {}\n",
                        e.strategy == strategy && e.refusal.empty() ? '*' : ' ',
                        name_of(kStrategies, e.strategy), e.to_string());
  }
  return text;
}

const StrategyEstimate& cheapest(
    const std::vector<StrategyEstimate>& estimates) {
  return *std::min_element(
      estimates.begin(), estimates.end(),
      [](const StrategyEstimate& a, const StrategyEstimate& b) {
        if (a.fits != b.fits) return a.fits;
        return a.fits ? a.total_s < b.total_s : a.memory_bytes < b.memory_bytes;
      });
}

StrategyChoice choose_strategy(const CostCase& c, const hw::Target& target) {
  StrategyChoice choice;
  std::vector<StrategyEstimate> possible;
  for (const auto& named : kStrategies) {
    if (named.value == Strategy::kAuto) continue;
    choice.estimates.push_back(estimate_strategy(named.value, c, target));
    if (choice.estimates.back().refusal.empty()) {
      possible.push_back(choice.estimates.back());
    }
  }
  // Single or ring is always possible, but for Ulysses groups that do not fit
  // and keys that cannot be halved.
  if (possible.empty()) {
    fail_invalid("no context strategy is possible:\n{}", choice.to_string());
  }
  choice.strategy = cheapest(possible).strategy;
  return choice;
}

BlockSizes choose_blocks(const CostCase& c, const hw::Target& target) {
  check(c);
  const Speeds speeds = speeds_of(c, target);
  const std::int64_t ring = c.devices / c.ulysses;
  const Layout queries(c.layout, c.queries, ring);
  const Layout keys(c.layout, c.keys, ring);
  const std::int64_t room =
      target.vmem_bytes > 0 ? target.vmem_bytes / 2 : kCpuCache;
  const auto fits = [&](BlockSizes b) {
    const std::int64_t width = c.head_dim + c.value_dim;
    const auto each = static_cast<std::int64_t>(dtype_size(c.dtype));
    // Queries and sums; two key/value blocks (one arriving); logits and
    // probabilities.
    return b.q * (c.head_dim * each + c.value_dim * 4) +
               2 * b.kv * width * each + 2 * b.q * b.kv * 4 <=
           room;
  };
  // Shards so long that counting small blocks takes seconds get large ones.
  constexpr std::int64_t kMostRows = 1 << 18;
  const std::int64_t rows = queries.shard_tokens() / 128 * ring;
  const std::int64_t least_size = rows > kMostRows ? 2048 : 128;
  const std::set<std::int64_t> sample = {0, ring / 2, ring - 1};
  BlockSizes best{least_size, least_size};
  double least = std::numeric_limits<double>::infinity();
  for (std::int64_t q = least_size; q <= 2048; q *= 2) {
    for (std::int64_t kv = least_size; kv <= 2048; kv *= 2) {
      const BlockSizes blocks{q, kv};
      // Longer than the next power of two is padding.
      if ((q > 128 && q >= 2 * queries.shard_tokens()) ||
          (kv > 128 && kv >= 2 * keys.shard_tokens()) || !fits(blocks)) {
        continue;
      }
      double active = 0;
      for (const std::int64_t d : sample) {
        for (const std::int64_t n :
             count_active_blocks(c.mask, queries, keys, blocks, d)) {
          active += static_cast<double>(n);
        }
      }
      const double time = active * block_s(c, blocks, speeds);
      if (time < least) {
        least = time;
        best = blocks;
      }
    }
  }
  return best;
}

}  // namespace ringmax::attention
