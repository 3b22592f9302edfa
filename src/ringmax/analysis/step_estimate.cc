#include "ringmax/analysis/step_estimate.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <set>
#include <unordered_map>

namespace ringmax::analysis {
namespace {

constexpr double kHopLatency_s = 1e-6;
// More than any instruction takes; XLA writes the largest number where it has
// no estimate.
constexpr double kMostCycles = 1e12;

// The compiler's own estimate; negative when there is none.
double estimated_cycles(const HloInstruction& i) {
  constexpr std::string_view kKey = "\"estimated_cycles\":\"";
  const std::size_t at = i.backend_config.find(kKey);
  if (at == std::string::npos) return -1;
  std::int64_t value = 0;
  const char* begin = i.backend_config.data() + at + kKey.size();
  const auto [stop, error] = std::from_chars(
      begin, i.backend_config.data() + i.backend_config.size(), value);
  const auto cycles = static_cast<double>(value);
  return error == std::errc() && cycles < kMostCycles ? cycles : -1;
}

bool is_free(const HloInstruction& i) {
  for (const char* opcode :
       {"parameter", "constant", "get-tuple-element", "tuple", "bitcast",
        "partition-id", "after-all", "opt-barrier", "copy-start", "copy-done",
        "async-update", "slice-start", "slice-done"}) {
    if (i.opcode == opcode) return true;
  }
  return false;
}

// Links of a chip that a group of devices can use at once, one direction.
double active_links(const hw::Topology& topology, std::int64_t group) {
  if (group < topology.devices()) return group == 2 ? 1 : 2;
  double links = 0;
  for (std::size_t d = 0; d < topology.dims.size(); ++d) {
    const auto n = static_cast<double>(topology.dims[d]);
    if (topology.dims[d] == 1) continue;
    links += topology.wrap[d] && topology.dims[d] > 2 ? 2 : 2 * (n - 1) / n;
  }
  return std::max(links, 1.0);
}

struct Utilisation {
  double share = 0;
  const char* source = "";
};
Utilisation utilisation_of(const std::string& kernel,
                           const EstimateSettings& settings) {
  const auto given = settings.given_utilisation.find(kernel);
  if (given != settings.given_utilisation.end()) {
    return {given->second, "kernel_utilization="};
  }
  const auto measured = settings.measured_utilisation.find(kernel);
  if (measured != settings.measured_utilisation.end()) {
    return {measured->second, "its useful utilisation by static cycles"};
  }
  return {settings.kernel_utilisation,
          settings.kernel_utilisation_given
              ? "kernel_utilization="
              : "assumed; kernel_cycles=true takes static cycles, "
                "kernel_utilization= any other"};
}

struct Part {
  double compute_s = 0;
  double kernels_s = 0;
  double exposed_s = 0;
  double collectives_s = 0;
  double total() const { return compute_s + kernels_s + exposed_s; }
  void add(const Part& other, double times) {
    compute_s += times * other.compute_s;
    kernels_s += times * other.kernels_s;
    exposed_s += times * other.exposed_s;
    collectives_s += times * other.collectives_s;
  }
};

class Walk {
 public:
  Walk(const HloModule& module, const HloCounts& counts,
       const hw::Target& target, const Places& places,
       const EstimateSettings& settings)
      : module_(module),
        counts_(counts),
        target_(target),
        places_(places),
        settings_(settings) {}

  const Part& run(std::int64_t id) {
    const auto known = parts_.find(id);
    if (known != parts_.end()) return known->second;
    Part part = walk(module_.at(id));
    return parts_.emplace(id, part).first->second;
  }

 private:
  double collective_seconds(const HloComputation& where,
                            const HloInstruction& i) const {
    const std::string kind = collective_kind(module_, i).value_or("");
    const auto bytes = static_cast<double>(collective_bytes(module_, where, i));
    const double link = target_.link_bytes_per_s;
    if (kind == "collective_permute") {
      const Hops hops = permute_hops(i, target_.topology, places_);
      const double links = std::max(1.0, hops.mean);
      return bytes * links / link +
             kHopLatency_s *
                 static_cast<double>(std::max<std::int64_t>(hops.max, 1));
    }
    const std::int64_t group =
        i.group_size > 0 ? i.group_size : target_.devices();
    const auto n = static_cast<double>(group);
    const double rate = link * active_links(target_.topology, group);
    const double once = bytes * (n - 1) / n / rate;
    const double latency = kHopLatency_s * n / 2;
    if (kind == "all_reduce") return 2 * once + 2 * latency;
    // Every device's bytes cross a quarter of a ring on average.
    if (kind == "all_to_all") return once * std::max(1.0, n / 8) + latency;
    return once + latency;
  }

  double kernel_seconds(const HloInstruction& call) {
    const KernelRow cost = kernel_cost(call);
    const double matmul =
        cost.flops /
        (target_.peak_bf16_flops * utilisation_of(cost.name, settings_).share);
    return std::max(matmul, cost.bytes / target_.hbm_bytes_per_s);
  }

  double plain_seconds(const HloComputation& where,
                       const HloInstruction& i) const {
    const double cycles = estimated_cycles(i);
    if (cycles >= 0) return cycles / target_.clock_hz;
    // In place: what is written, twice.
    if (i.opcode == "dynamic-update-slice") {
      return 2 * static_cast<double>(where.operand(i, 1).shape.bytes()) /
             target_.hbm_bytes_per_s;
    }
    std::int64_t bytes = i.shape.bytes();
    for (std::size_t n = 0; n < i.operands.size(); ++n) {
      bytes += std::min(where.operand(i, n).shape.bytes(), i.shape.bytes());
    }
    return std::max(counts_.matmul_flops(where, i) / target_.peak_bf16_flops,
                    static_cast<double>(bytes) / target_.hbm_bytes_per_s);
  }

  Part walk(const HloComputation& computation) {
    Part part;
    // When what was started ends, and when the wires of a kind are free again.
    std::unordered_map<std::int64_t, double> ends;
    std::map<std::string, double> wires;
    for (const HloInstruction& i : computation.instructions) {
      if (is_free(i)) continue;
      if (i.opcode == "while" || i.opcode == "call" ||
          i.opcode == "conditional") {
        run_called(computation, i, part);
      } else if (i.opcode.size() > 5 &&
                 i.opcode.substr(i.opcode.size() - 5) == "-done") {
        const auto end = ends.find(started_by(computation, i));
        if (end != ends.end()) {  // else waited for where it started
          part.exposed_s += std::max(0.0, end->second - part.total());
        }
      } else if (collective_kind(module_, i)) {
        const double seconds = collective_seconds(computation, i);
        part.collectives_s += seconds;
        if (i.opcode.ends_with("-start") &&
            (settings_.hidden_sends || !is_ring_send(i))) {
          double& wire = wires[wire_of(i)];
          wire = std::max(wire, part.total()) + seconds;
          ends[i.id] = wire;
        } else {
          part.exposed_s += seconds;
        }
      } else if (i.opcode == "async-start") {
        continue;  // on another core of the chip, beside this one
      } else if (i.custom_call_target == "tpu_custom_call") {
        part.kernels_s += kernel_seconds(i);
      } else if (i.opcode != "custom-call") {
        part.compute_s += plain_seconds(computation, i);
      }
    }
    return part;
  }

  // Permutations of unlike pairs travel over unlike links.
  std::string wire_of(const HloInstruction& i) const {
    std::string wire = collective_kind(module_, i).value_or("");
    if (!i.source_target_pairs.empty()) {
      const auto& [from, to] = i.source_target_pairs.front();
      wire += fmt::format(" {}", to - from);
    }
    return wire;
  }

  std::int64_t started_by(const HloComputation& where,
                          const HloInstruction& done) const {
    const HloInstruction* i = &done;
    while (!i->operands.empty() &&
           i->opcode.find("-start") == std::string::npos) {
      i = &where.operand(*i, 0);
    }
    return i->id;
  }

  void run_called(const HloComputation& where, const HloInstruction& i,
                  Part& part) {
    if (i.opcode == "while") {
      const auto trips = counts_.trip_count(where, i);
      part.add(run(i.called.at(0)), static_cast<double>(trips.value_or(1)));
      return;
    }
    // The longest branch.
    const Part* longest = nullptr;
    for (const std::int64_t called : i.called) {
      const Part& branch = run(called);
      if (longest == nullptr || branch.total() > longest->total()) {
        longest = &branch;
      }
    }
    if (longest != nullptr) part.add(*longest, 1);
  }

  const HloModule& module_;
  const HloCounts& counts_;
  const hw::Target& target_;
  const Places& places_;
  const EstimateSettings& settings_;
  std::unordered_map<std::int64_t, Part> parts_;
};

}  // namespace

StepEstimate estimate_step(const HloModule& module, const HloCounts& counts,
                           const hw::Target& target, const Places& places,
                           const EstimateSettings& settings) {
  Walk walk(module, counts, target, places, settings);
  const Part part = walk.run(module.entry);
  StepEstimate estimate;
  estimate.seconds = part.total();
  estimate.compute_s = part.compute_s;
  estimate.kernels_s = part.kernels_s;
  estimate.exposed_s = part.exposed_s;
  estimate.collectives_s = part.collectives_s;
  std::vector<std::string>& lines = estimate.assumptions;
  lines.push_back(fmt::format(
      "fusions and copies take the compiler's estimated cycles at {:.2f} GHz; "
      "those without take their bytes at {:.0f} GB/s of HBM",
      target.clock_hz / 1e9, target.hbm_bytes_per_s / 1e9));
  lines.push_back(fmt::format(
      "loops take their trip count; a link carries {:.0f} GB/s one way, a "
      "permutation over several links takes as many times as long, other "
      "collectives use all links of their group; {:.0f} us a hop",
      target.link_bytes_per_s / 1e9, kHopLatency_s * 1e6));
  std::set<std::string> names;
  for (const KernelRow& kernel : kernels(module, counts)) {
    const Utilisation utilisation = utilisation_of(kernel.name, settings);
    lines.push_back(fmt::format(
        "{} does the FLOPs of its cost estimate at {:.0f}% of {:.0f} TFLOP/s "
        "({})",
        kernel.name, 100 * utilisation.share, target.peak_bf16_flops / 1e12,
        utilisation.source));
    names.insert(kernel.name);
  }
  for (const auto& [name, share] : settings.given_utilisation) {
    if (names.contains(name)) continue;
    lines.push_back(
        fmt::format("kernel_utilization={}:{}: this program has no such kernel",
                    name, share));
  }
  if (!settings.hidden_sends) {
    lines.push_back("the ring's sends are waited for (hidden_sends=false)");
  }
  if (!counts.unknown_loops().empty()) {
    lines.push_back(fmt::format(
        "{} loops whose passes are known at run time only count once, so the "
        "estimate is a lower bound (the first: {})",
        counts.unknown_loops().size(), counts.unknown_loops().front()));
  }
  lines.push_back(
      "all devices run alike; hosts, data and the start of a step take "
      "nothing");
  return estimate;
}

}  // namespace ringmax::analysis
