#include "ringmax/analysis/hlo_collectives.h"

#include <algorithm>
#include <array>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

namespace ringmax::analysis {
namespace {

constexpr std::string_view kRingSend = "ring_send";
constexpr std::string_view kMosaicTarget = "tpu_custom_call";
constexpr std::string_view kPallasCall = "/pallas_call";

bool ends_with(std::string_view text, std::string_view end) {
  return text.size() >= end.size() &&
         text.substr(text.size() - end.size()) == end;
}

std::optional<std::string> plain_kind(std::string_view opcode) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 6>
      kKinds = {{{"all-gather", "all_gather"},
                 {"all-reduce", "all_reduce"},
                 {"reduce-scatter", "reduce_scatter"},
                 {"all-to-all", "all_to_all"},
                 {"ragged-all-to-all", "ragged_all_to_all"},
                 {"collective-permute", "collective_permute"}}};
  if (ends_with(opcode, "-done")) return std::nullopt;
  if (ends_with(opcode, "-start")) opcode.remove_suffix(6);
  for (const auto& [name, kind] : kKinds) {
    if (opcode == name) return std::string(kind);
  }
  return std::nullopt;
}

// The collective inside of an async-start; null when there is none.
const HloInstruction* wrapped(const HloModule& module,
                              const HloInstruction& start) {
  if (start.opcode != "async-start") return nullptr;
  for (const std::int64_t called : start.called) {
    for (const HloInstruction& i : module.at(called).instructions) {
      if (plain_kind(i.opcode)) return &i;
    }
  }
  return nullptr;
}

std::set<std::int64_t> async_computations(const HloModule& module) {
  std::set<std::int64_t> ids;
  for (const HloComputation& computation : module.computations) {
    for (const HloInstruction& i : computation.instructions) {
      if (i.opcode == "async-start")
        ids.insert(i.called.begin(), i.called.end());
    }
  }
  return ids;
}

std::int64_t operand_bytes(const HloComputation& where,
                           const HloInstruction& i) {
  std::int64_t sum = 0;
  for (std::size_t n = 0; n < i.operands.size(); ++n) {
    sum += where.operand(i, n).shape.bytes();
  }
  return sum;
}

// Without the number that makes names unique.
std::string stem(const std::string& name) {
  const std::size_t dot = name.find('.');
  return dot == std::string::npos ? name : name.substr(0, dot);
}

std::string last_part(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  return slash == std::string::npos ? path : path.substr(slash + 1);
}

// A kernel in the computations that an instruction calls, however deep.
std::optional<std::string> kernel_inside(const HloModule& module,
                                         const HloInstruction& i) {
  for (const std::int64_t called : i.called) {
    for (const HloInstruction& inner : module.at(called).instructions) {
      if (inner.custom_call_target == kMosaicTarget) return kernel_name(inner);
      if (inner.opcode != "while" && inner.opcode != "call" &&
          inner.opcode != "conditional") {
        continue;
      }
      if (auto name = kernel_inside(module, inner)) return name;
    }
  }
  return std::nullopt;
}

// What of an instruction can hide a send: a Mosaic kernel, itself or in a
// loop; where a program has none, a loop of attention.
std::optional<std::string> hiding_kernel(const HloModule& module, bool mosaic,
                                         const HloInstruction& i) {
  if (!mosaic || i.custom_call_target == kMosaicTarget) return kernel_name(i);
  if (i.opcode != "while" && i.opcode != "call" && i.opcode != "conditional") {
    return std::nullopt;
  }
  return kernel_inside(module, i);
}

bool has_mosaic_kernels(const HloModule& module) {
  for (const HloComputation& computation : module.computations) {
    for (const HloInstruction& i : computation.instructions) {
      if (i.custom_call_target == kMosaicTarget) return true;
    }
  }
  return false;
}

std::optional<std::string> hidden_behind(const HloModule& module, bool mosaic,
                                         const HloComputation& where,
                                         std::size_t start) {
  const HloInstruction& send = where.instructions[start];
  std::optional<std::string> name;
  for (std::size_t i = start + 1; i < where.instructions.size(); ++i) {
    const HloInstruction& other = where.instructions[i];
    if (other.opcode == "collective-permute-done" && !other.operands.empty() &&
        other.operands[0] == send.id) {
      return name;
    }
    if (!name) name = hiding_kernel(module, mosaic, other);
  }
  return std::nullopt;
}

}  // namespace

bool is_ring_send(const HloInstruction& i) {
  return (i.opcode == "collective-permute" ||
          i.opcode == "collective-permute-start") &&
         i.op_name.find(kRingSend) != std::string::npos;
}

std::optional<std::string> collective_kind(const HloModule& module,
                                           const HloInstruction& instruction) {
  if (const auto kind = plain_kind(instruction.opcode)) return kind;
  const HloInstruction* inner = wrapped(module, instruction);
  return inner == nullptr ? std::nullopt : plain_kind(inner->opcode);
}

std::int64_t collective_bytes(const HloModule& module,
                              const HloComputation& where,
                              const HloInstruction& instruction) {
  const std::int64_t in = operand_bytes(where, instruction);
  if (collective_kind(module, instruction) != "all_gather") return in;
  // A start's result is a tuple of its operands and its results.
  const std::int64_t out = instruction.shape.bytes();
  return ends_with(instruction.opcode, "-start") ? out - in : out;
}

Hops permute_hops(const HloInstruction& instruction,
                  const hw::Topology& topology, const Places& places) {
  Hops hops;
  std::int64_t sum = 0;
  for (const auto& [from, to] : instruction.source_target_pairs) {
    const auto count = static_cast<std::int64_t>(places.size());
    if (from < 0 || to < 0 || from >= count || to >= count) return {};
    const std::int64_t links =
        topology.distance(places[static_cast<std::size_t>(from)],
                          places[static_cast<std::size_t>(to)]);
    hops.max = std::max(hops.max, links);
    sum += links;
  }
  if (!instruction.source_target_pairs.empty()) {
    hops.mean = static_cast<double>(sum) /
                static_cast<double>(instruction.source_target_pairs.size());
  }
  return hops;
}

std::vector<CollectiveRow> collectives(const HloModule& module,
                                       const HloCounts& counts,
                                       const hw::Topology& topology,
                                       const Places& places) {
  std::map<std::string, CollectiveRow> rows;
  const std::set<std::int64_t> wrappers = async_computations(module);
  for (const HloComputation& computation : module.computations) {
    const double times = counts.executions(computation.id);
    // What an async-start wraps is counted with its start.
    if (times == 0 || wrappers.count(computation.id) > 0) continue;
    for (const HloInstruction& i : computation.instructions) {
      const auto kind = collective_kind(module, i);
      if (!kind) continue;
      CollectiveRow& row = rows[*kind];
      row.kind = *kind;
      ++row.instructions;
      row.count += times;
      row.bytes +=
          times * static_cast<double>(collective_bytes(module, computation, i));
      const Hops hops = permute_hops(i, topology, places);
      row.hops.max = std::max(row.hops.max, hops.max);
      row.hops.mean += times * hops.mean;
    }
  }
  std::vector<CollectiveRow> result;
  for (auto& [kind, row] : rows) {
    row.hops.mean /= row.count;
    result.push_back(std::move(row));
  }
  return result;
}

std::optional<std::string> kernel_name(const HloInstruction& i) {
  if (i.opcode == "custom-call" && i.custom_call_target == kMosaicTarget) {
    const std::string name = stem(i.name);
    if (name != "custom-call" && name != kMosaicTarget) return name;
    // The last scope, which JAX ends with the name of its primitive.
    std::string scope = i.op_name;
    if (ends_with(scope, kPallasCall)) {
      scope.resize(scope.size() - kPallasCall.size());
    }
    return scope.empty() ? name : last_part(scope);
  }
  if (i.opcode == "while" && i.op_name.find("attention") != std::string::npos) {
    return "loop of " + i.op_name;
  }
  return std::nullopt;
}

std::vector<Rotation> rotations(const HloModule& module,
                                const HloCounts& counts,
                                const hw::Topology& topology,
                                const Places& places) {
  std::vector<Rotation> result;
  const bool mosaic = has_mosaic_kernels(module);
  for (const HloComputation& computation : module.computations) {
    const double times = counts.executions(computation.id);
    if (times == 0) continue;
    for (std::size_t n = 0; n < computation.instructions.size(); ++n) {
      const HloInstruction& i = computation.instructions[n];
      if (!is_ring_send(i)) continue;
      Rotation& rotation = result.emplace_back();
      rotation.where = i.op_name.substr(0, i.op_name.find(kRingSend));
      while (ends_with(rotation.where, "/")) rotation.where.pop_back();
      rotation.computation = computation.name;
      rotation.times = times;
      rotation.bytes = operand_bytes(computation, i);
      rotation.hops = permute_hops(i, topology, places);
      if (ends_with(i.opcode, "-start")) {
        rotation.hidden_behind = hidden_behind(module, mosaic, computation, n);
      }
    }
  }
  return result;
}

KernelRow kernel_cost(const HloInstruction& call) {
  KernelRow row;
  row.name = kernel_name(call).value_or(call.name);
  const nlohmann::json config =
      nlohmann::json::parse(call.backend_config, nullptr, false);
  if (config.is_discarded()) return row;
  const auto number = [&](const char* key) {
    const nlohmann::json* at = &config;
    for (const char* step : {"custom_call_config", "cost_estimate", key}) {
      if (!at->is_object() || !at->contains(step)) return 0.0;
      at = &(*at)[step];
    }
    // Printed by protobuf, where 64-bit numbers are strings.
    if (at->is_string()) {
      return static_cast<double>(std::stoll(at->get<std::string>()));
    }
    return at->is_number() ? at->get<double>() : 0.0;
  };
  row.flops = number("flops");
  row.bytes = number("bytes_accessed");
  return row;
}

std::vector<KernelRow> kernels(const HloModule& module,
                               const HloCounts& counts) {
  std::map<std::string, KernelRow> rows;
  for (const HloComputation& computation : module.computations) {
    const double times = counts.executions(computation.id);
    if (times == 0) continue;
    for (const HloInstruction& i : computation.instructions) {
      if (i.custom_call_target != kMosaicTarget) continue;
      const KernelRow cost = kernel_cost(i);
      KernelRow& row = rows[cost.name];
      row.name = cost.name;
      // The mean over the calls of that name.
      row.flops =
          (row.flops * row.calls + cost.flops * times) / (row.calls + times);
      row.bytes =
          (row.bytes * row.calls + cost.bytes * times) / (row.calls + times);
      row.calls += times;
      row.instructions.push_back(i.name);
    }
  }
  std::vector<KernelRow> result;
  for (auto& [name, row] : rows) result.push_back(std::move(row));
  return result;
}

}  // namespace ringmax::analysis
