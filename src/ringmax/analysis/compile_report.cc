#include "ringmax/analysis/compile_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <tuple>

namespace ringmax::analysis {
namespace {

std::string size_text(double bytes) {
  if (bytes >= 1e8) return fmt::format("{:.2f} GB", bytes / 1e9);
  if (bytes >= 1e5) return fmt::format("{:.2f} MB", bytes / 1e6);
  return fmt::format("{:.2f} kB", bytes / 1e3);
}

std::string time_text(double seconds) {
  if (seconds >= 1) return fmt::format("{:.3f} s", seconds);
  if (seconds >= 1e-3) return fmt::format("{:.2f} ms", seconds * 1e3);
  return fmt::format("{:.1f} us", seconds * 1e6);
}

// Sends of one place in the program and one fate, as one line.
struct RotationGroup {
  std::size_t count = 0;
  double times = 0;
  std::int64_t bytes = 0;
  Hops hops;
};

void rotation_lines(const CompileReport& report, std::string& out) {
  using Key = std::tuple<std::string, std::string, std::string>;
  std::map<Key, RotationGroup> groups;
  for (const Rotation& rotation : report.rotations) {
    RotationGroup& group = groups[{rotation.computation, rotation.where,
                                   rotation.hidden_behind.value_or("")}];
    ++group.count;
    group.times += rotation.times;
    group.bytes = std::max(group.bytes, rotation.bytes);
    group.hops.max = std::max(group.hops.max, rotation.hops.max);
  }
  out += fmt::format("ring sends   {}, {} hidden behind a kernel\n",
                     report.rotations.size(), report.hidden_rotations());
  for (const auto& [key, group] : groups) {
    const auto& [computation, where, behind] = key;
    out += fmt::format(
        "  {:3} x {:>10}  {} hop{}  {:.0f} a step  {} (in {}): {}\n",
        group.count, size_text(static_cast<double>(group.bytes)),
        group.hops.max, group.hops.max == 1 ? "" : "s", group.times, where,
        computation, behind.empty() ? "not hidden" : "behind " + behind);
  }
}

void memory_lines(const CompileFacts& facts, std::string& out) {
  const HbmUse& hbm = facts.hbm;
  out += fmt::format(
      "time         {:.2f} s to build {:.1f} MB of program, {:.1f} s to "
      "compile\n",
      facts.build_s, static_cast<double>(facts.program_bytes) / 1e6,
      facts.compile_s);
  out += fmt::format(
      "memory       {} of {} a device ({:.0f}%) at the fullest moment; "
      "reserved "
      "for the step:\n",
      size_text(static_cast<double>(hbm.peak)),
      size_text(static_cast<double>(hbm.available)),
      100 * static_cast<double>(hbm.peak) / static_cast<double>(hbm.available));
  for (const auto& [name, bytes] :
       {std::pair("parameters, optimizer, batch", hbm.arguments),
        std::pair("results that reuse them", hbm.aliased),
        std::pair("results of their own", hbm.outputs - hbm.aliased),
        std::pair("temporaries", hbm.temporaries),
        std::pair("code", hbm.code)}) {
    out += fmt::format("  {:<30}{:>12}\n", name,
                       size_text(static_cast<double>(bytes)));
  }
}

const MeasuredKernel* measured(const CompileFacts& facts,
                               const std::string& kernel) {
  for (const MeasuredKernel& each : facts.measured) {
    if (each.work.kernel == kernel) return &each;
  }
  return nullptr;
}
const KernelCycles* cycles_of_kernel(const CompileFacts& facts,
                                     const std::string& kernel) {
  const MeasuredKernel* found = measured(facts, kernel);
  return found == nullptr ? nullptr : &found->cycles;
}
std::optional<double> useful_utilisation_of(const CompileFacts& facts,
                                            const std::string& kernel) {
  const MeasuredKernel* found = measured(facts, kernel);
  if (found == nullptr || !found->cycles.pieces) return std::nullopt;
  return useful_utilisation(*found->cycles.pieces, found->work, facts.target);
}

}  // namespace

std::size_t CompileReport::hidden_rotations() const {
  return static_cast<std::size_t>(std::count_if(
      rotations.begin(), rotations.end(),
      [](const Rotation& r) { return r.hidden_behind.has_value(); }));
}

CompileReport make_compile_report(const CompileFacts& facts,
                                  std::string_view optimized) {
  const HloModule module = decode_hlo(optimized);
  const HloCounts counts(module);
  const hw::Topology& topology = facts.target.topology;
  const auto devices = static_cast<double>(facts.target.devices());
  CompileReport report;
  report.facts = facts;
  report.collectives = collectives(module, counts, topology, facts.places);
  report.rotations = rotations(module, counts, topology, facts.places);
  report.kernels = kernels(module, counts);
  EstimateSettings settings = facts.estimate;
  for (const MeasuredKernel& kernel : facts.measured) {
    if (const auto useful = useful_utilisation_of(facts, kernel.work.kernel)) {
      settings.measured_utilisation[kernel.work.kernel] = *useful;
    }
  }
  double flops = counts.matmul_flops();
  for (const KernelRow& kernel : report.kernels) {
    flops += kernel.calls * kernel.flops * facts.kernel_balance;
  }
  report.executed_flops = devices * flops;
  report.estimate =
      estimate_step(module, counts, facts.target, facts.places, settings);
  report.estimated_mfu =
      facts.model_flops /
      (devices * facts.target.peak_bf16_flops * report.estimate.seconds);
  return report;
}

nlohmann::json to_json(const HbmUse& hbm) {
  return {{"arguments", hbm.arguments}, {"outputs", hbm.outputs},
          {"aliased", hbm.aliased},     {"temporaries", hbm.temporaries},
          {"code", hbm.code},           {"peak", hbm.peak},
          {"available", hbm.available}};
}

nlohmann::json to_json(const CompileReport& report) {
  const CompileFacts& facts = report.facts;
  nlohmann::json collectives = nlohmann::json::array();
  for (const CollectiveRow& row : report.collectives) {
    nlohmann::json entry = {{"kind", row.kind},
                            {"count", row.count},
                            {"bytes", row.bytes},
                            {"instructions", row.instructions}};
    if (row.hops.max > 0) {
      entry["max_hops"] = row.hops.max;
      entry["mean_hops"] = row.hops.mean;
    }
    collectives.push_back(std::move(entry));
  }
  nlohmann::json sends = nlohmann::json::array();
  for (const Rotation& rotation : report.rotations) {
    nlohmann::json entry = {
        {"where", rotation.where},   {"computation", rotation.computation},
        {"times", rotation.times},   {"bytes", rotation.bytes},
        {"hops", rotation.hops.max}, {"hidden_behind", nullptr}};
    if (rotation.hidden_behind) {
      entry["hidden_behind"] = *rotation.hidden_behind;
    }
    sends.push_back(std::move(entry));
  }
  nlohmann::json kernels = nlohmann::json::array();
  for (const KernelRow& row : report.kernels) {
    nlohmann::json entry = {{"name", row.name},
                            {"calls", row.calls},
                            {"flops_per_call", row.flops},
                            {"bytes_per_call", row.bytes}};
    if (const KernelCycles* cycles = cycles_of_kernel(facts, row.name)) {
      entry["spills"] = cycles->spills;
      entry["fills"] = cycles->fills;
      entry["code_cycles"] = cycles->code;
      if (const auto& pieces = cycles->pieces) {
        entry["useful_mxu"] = *useful_utilisation_of(facts, row.name);
        entry["overhead_cycles_per_step"] = pieces->step;
        entry["cycles"] = {{"call", pieces->call},
                           {"program", pieces->program},
                           {"row", pieces->row},
                           {"step", pieces->step},
                           {"full_block", pieces->full},
                           {"partial_block", pieces->partial},
                           {"triangular_block", pieces->triangular}};
      }
    }
    kernels.push_back(std::move(entry));
  }
  return {
      {"topology", facts.topology},
      {"devices", facts.target.devices()},
      {"mesh", facts.mesh},
      {"strategy", facts.strategy},
      {"layout", facts.layout},
      {"build_time_s", facts.build_s},
      {"compile_time_s", facts.compile_s},
      {"program_bytes", facts.program_bytes},
      {"hbm_bytes", to_json(facts.hbm)},
      {"collectives", std::move(collectives)},
      {"rotations",
       {{"total", report.rotations.size()},
        {"hidden", report.hidden_rotations()},
        {"list", std::move(sends)}}},
      {"kernels", std::move(kernels)},
      {"model_flops_per_step", facts.model_flops},
      {"executed_flops_per_step", report.executed_flops},
      {"attention_flops_per_step", facts.attention_flops},
      {"estimated_step_s", report.estimate.seconds},
      {"estimated_parts_s",
       {{"compute", report.estimate.compute_s},
        {"kernels", report.estimate.kernels_s},
        {"exposed_collectives", report.estimate.exposed_s},
        {"all_collectives", report.estimate.collectives_s}}},
      {"estimated_mfu", report.estimated_mfu},
      {"assumptions", report.estimate.assumptions},
  };
}

std::string to_text(const CompileReport& report) {
  const CompileFacts& facts = report.facts;
  std::string out;
  out += fmt::format("machine      {} ({}), {} devices, mesh {}\n",
                     facts.topology, facts.target.topology_name,
                     facts.target.devices(), facts.mesh);
  out +=
      fmt::format("attention    {}, {} layout\n", facts.strategy, facts.layout);
  if (facts.compile_s > 0) memory_lines(facts, out);
  out += "collectives  a device and step\n";
  for (const CollectiveRow& row : report.collectives) {
    out += fmt::format("  {:<20}{:>8.0f} x{:>14}", row.kind, row.count,
                       size_text(row.bytes));
    if (row.hops.max > 0) {
      out += fmt::format("   {:.1f} hops, at most {}", row.hops.mean,
                         row.hops.max);
    }
    out += "\n";
  }
  if (!report.rotations.empty()) rotation_lines(report, out);
  if (!report.kernels.empty()) out += "kernels\n";
  for (const KernelRow& row : report.kernels) {
    out += fmt::format("  {:<24}{:>6.0f} calls  {:.3f} TFLOP a call", row.name,
                       row.calls, row.flops / 1e12);
    if (const KernelCycles* cycles = cycles_of_kernel(facts, row.name)) {
      if (const auto& pieces = cycles->pieces) {
        out += fmt::format(
            "  useful {:.1f}% of its static cycles, {} cycles a grid step "
            "beside its blocks,",
            100 * *useful_utilisation_of(facts, row.name), pieces->step);
      }
      out += fmt::format(" {} spills", cycles->spills);
    }
    out += "\n";
  }
  out += fmt::format(
      "work         {:.1f} TFLOP of the model a step (attention {:.1f}), "
      "{:.1f} "
      "executed\n",
      facts.model_flops / 1e12, facts.attention_flops / 1e12,
      report.executed_flops / 1e12);
  const StepEstimate& e = report.estimate;
  out += fmt::format(
      "estimate     {} a step, {:.0f} tokens/s, MFU {:.1f}%\n"
      "  {} fusions and copies, {} kernels, {} waiting for collectives ({} if "
      "none were hidden)\n",
      time_text(e.seconds), static_cast<double>(facts.tokens) / e.seconds,
      100 * report.estimated_mfu, time_text(e.compute_s),
      time_text(e.kernels_s), time_text(e.exposed_s),
      time_text(e.collectives_s));
  for (const std::string& line : e.assumptions) {
    out += "  assumed: " + line + "\n";
  }
  return out;
}

}  // namespace ringmax::analysis
