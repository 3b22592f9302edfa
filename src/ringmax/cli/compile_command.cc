// `ringmax compile`: the training step for a TPU slice that is not here, and
// what the compiler made of it.
#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ringmax/analysis/compile_report.h"
#include "ringmax/attention/layout.h"
#include "ringmax/attention/options.h"
#include "ringmax/base/error.h"
#include "ringmax/base/file.h"
#include "ringmax/base/log.h"
#include "ringmax/cli/arguments.h"
#include "ringmax/cli/commands.h"
#include "ringmax/cli/compile_memory.h"
#include "ringmax/cli/compile_switches.h"
#include "ringmax/cli/measured_kernels.h"
#include "ringmax/cli/memory_probe.h"
#include "ringmax/cli/output_path.h"
#include "ringmax/cli/progress.h"
#include "ringmax/cli/scratch_folder.h"
#include "ringmax/config/config.h"
#include "ringmax/model/cost.h"
#include "ringmax/model/plan_attention.h"
#include "ringmax/train/ahead_of_time.h"
#include "ringmax/train/compile_options.h"

namespace ringmax::cli {
namespace {

struct Compiled {
  config::Config config;
  train::StepText text;
  pjrt::Executable executable;
  double compile_s = 0;
};

// One compilation of the settings. Throws kResourceExhausted, with what would
// help, when a device cannot hold it.
class Compiler {
 public:
  Compiler(std::vector<std::string> settings, std::optional<std::string> dump,
           std::string llo_directory)
      : settings_(std::move(settings)),
        dump_(std::move(dump)),
        llo_directory_(std::move(llo_directory)) {}

  config::Config load(const std::vector<std::string>& more = {}) {
    std::vector<std::string> words = settings_;
    words.insert(words.end(), more.begin(), more.end());
    return config::load(words, [this](const pjrt::RuntimeOptions& runtime) {
      if (!machine_) {
        machine_ = train::tpu_machine(runtime, llo_directory_);
      }
      return config::DeviceFacts{"tpu", machine_->target.devices()};
    });
  }
  const train::Machine& machine() const { return *machine_; }

  Compiled compile(config::Config config) {
    Compiled result{std::move(config), {}, {}, 0};
    result.text = train::step_text(result.config, *machine_);
    if (dump_) {
      make_directories(*dump_);
      atomic_write(join_path(*dump_, "program.mlir"), result.text.stablehlo);
      atomic_write(join_path(*dump_, "options.pb"),
                   result.text.options.serialize());
    }
    const Progress progress(fmt::format("compiling {} tokens for {}",
                                        result.config.data.max_target_length,
                                        machine_->target.topology_name));
    const auto start = std::chrono::steady_clock::now();
    try {
      result.executable = machine_->topology.compile(result.text.stablehlo,
                                                     result.text.options);
    } catch (const Error& error) {
      if (error.code() == ErrorCode::kResourceExhausted) {
        throw out_of_memory(error.message(), result.config, machine_->target);
      }
      train::blame_flags(result.config, error);
      throw;
    }
    result.compile_s =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start)
            .count();
    return result;
  }

  // The longest sequence that fits: found by probes, proven by compiling it.
  Compiled compile_longest(const config::Config& config,
                           std::vector<LengthTried>& tried) {
    const auto at_length = [&](std::int64_t length) {
      return load({fmt::format("max_target_length={}", length)});
    };
    const auto probe = [&](std::int64_t length) {
      // What is wrong with the settings at this length, it says itself.
      train::step_text(at_length(length), *machine_);
      std::vector<std::string> words = settings_;
      words.push_back(fmt::format("max_target_length={}", length));
      const Progress progress(
          fmt::format("memory of {} tokens, try {}", length, tried.size()));
      return probe_memory(words, config.runtime.compile_xla_flags);
    };
    const std::int64_t multiple =
        attention::sequence_shards(config.device_mesh) * kLengthStep;
    std::int64_t length =
        search_max_length(config.data.max_target_length, multiple,
                          machine_->target.hbm_bytes, probe, tried);
    while (true) {
      try {
        return compile(at_length(length));
      } catch (const Error& error) {
        if (error.code() != ErrorCode::kResourceExhausted ||
            length <= multiple) {
          throw;
        }
      }
      // Reports leave out little: code, and what the compiler keeps back.
      tried.push_back({length, std::nullopt, false});
      constexpr std::int64_t kStep = 50;
      length -= std::max(length / kStep / multiple, std::int64_t{1}) * multiple;
    }
  }

 private:
  std::vector<std::string> settings_;
  std::optional<std::string> dump_;
  std::string llo_directory_;
  std::optional<train::Machine> machine_;
};

std::string lengths_table(const std::vector<LengthTried>& tried) {
  std::string text;
  for (const LengthTried& one : tried) {
    text += fmt::format("  {:>10} tokens", one.length);
    if (one.peak_bytes) {
      text += fmt::format("  {:.2f} GB",
                          static_cast<double>(*one.peak_bytes) / 1e9);
    }
    text += one.fits ? "\n" : "  does not fit\n";
  }
  return text;
}

std::string strategy_of(const config::Config& config) {
  if (attention::sequence_shards(config.device_mesh) == 1) return "single";
  return std::string(
      name_of(attention::kContextStrategies, config.plan.strategy));
}

analysis::HbmUse hbm_of(const pjrt::MemoryStats& stats,
                        const hw::Target& target) {
  analysis::HbmUse hbm;
  hbm.arguments = stats.arguments;
  hbm.outputs = stats.outputs;
  hbm.aliased = stats.aliased;
  hbm.temporaries = stats.temporaries;
  hbm.code = stats.code;
  hbm.peak = stats.peak;
  hbm.available = target.hbm_bytes;
  return hbm;
}

attention::AttendPlan plan_of(const config::Config& config,
                              const train::Machine& machine) {
  return model::plan_attention(
      config.model, config.attention, config.device_mesh,
      {config.global_batch, config.data.max_target_length,
       config.data.has_segments()},
      machine.target, config.plan);
}

// What the settings and the machine say; the program is the caller's.
analysis::CompileFacts facts_of(const config::Config& config,
                                const train::Machine& machine,
                                const CompileSwitches& switches) {
  analysis::CompileFacts facts;
  facts.estimate = switches.estimate;
  facts.topology = config.runtime.compile_topology;
  facts.target = machine.target;
  facts.mesh = config.device_mesh.to_string();
  facts.strategy = strategy_of(config);
  facts.layout = attention::layout_name(config.plan.layout);
  facts.attention = config.plan.summary;
  facts.model_flops = static_cast<double>(model::model_flops(
      config.model, config.global_batch, config.data.max_target_length));
  facts.attention_flops = static_cast<double>(model::attention_flops(
      config.model, config.global_batch, config.data.max_target_length));
  facts.tokens = config.tokens_per_step;
  facts.kernel_balance = plan_of(config, machine).balance;
  return facts;
}

analysis::CompileReport report_of(const Compiled& compiled,
                                  const train::Machine& machine,
                                  const CompileSwitches& switches,
                                  const std::string& optimized,
                                  const std::string& llo_directory) {
  analysis::CompileFacts facts = facts_of(compiled.config, machine, switches);
  facts.places = compiled.text.assignment.places;
  facts.build_s = compiled.text.build_s;
  facts.compile_s = compiled.compile_s;
  facts.program_bytes =
      static_cast<std::int64_t>(compiled.text.stablehlo.size());
  facts.hbm = hbm_of(compiled.executable.memory_stats(), machine.target);
  if (!llo_directory.empty()) {
    facts.measured = measured_kernels(plan_of(compiled.config, machine),
                                      machine.topology, llo_directory);
  }
  return analysis::make_compile_report(facts, optimized);
}

// Of a program that is there already: another framework's, or one dumped.
analysis::CompileReport report_of_file(const std::string& path,
                                       const config::Config& config,
                                       const train::Machine& machine,
                                       const CompileSwitches& switches) {
  const std::string optimized = read_file(path);
  analysis::CompileFacts facts = facts_of(config, machine, switches);
  try {
    facts.places = train::places_of(
        machine, analysis::decode_hlo(optimized).device_assignment);
  } catch (const Error& error) {
    fail_invalid("--read {}: not an optimized program (HLO): {}", path,
                 error.message());
  }
  return analysis::make_compile_report(facts, optimized);
}

void dump_result(const std::string& directory, const std::string& optimized,
                 const analysis::HbmUse& hbm) {
  atomic_write(join_path(directory, "optimized.hlo.pb"), optimized);
  atomic_write(join_path(directory, "optimized.hlo.txt"),
               analysis::hlo_text(analysis::decode_hlo(optimized)));
  atomic_write(join_path(directory, "memory.json"),
               analysis::to_json(hbm).dump(2) + "\n");
}

// What is written at the end is checked at the start: compiling takes long.
}  // namespace

int run_compile(Args args) {
  const Arguments arguments = read_arguments(
      "compile",
      "Compiles the training step for a TPU slice that is not here, and says "
      "what it needs and how it would run: memory, collectives, ring sends and "
      "what hides them, kernels, an estimate of the step's time. Takes the "
      "settings of `train` and its own.",
      "[FILE.yml ...] compile_topology=v5p-16 key=value ...",
      {{"--json", "write the report to this file as well", "FILE"},
       {"--dump", "write the program, before and after, into this folder",
        "DIR"},
       {"--read",
        "compile nothing and report on this optimized program, an "
        "HloModuleProto such as --dump's optimized.hlo.pb",
        "FILE"}},
      args, describe_switches());
  if (arguments.helped) return 0;
  std::vector<std::string> settings = arguments.settings;
  const CompileSwitches switches = take_switches(settings);
  const bool find_max_length = switches.find_max_length;
  const bool kernel_cycles = switches.kernel_cycles;
  const std::optional<std::string> dump = arguments.option("--dump");
  const std::optional<std::string> json_file = arguments.option("--json");
  if (json_file) check_output_path("--json", *json_file);
  if (dump) check_output_folder("--dump", *dump);
  const ScratchFolder llo("kernel_cycles=true", kernel_cycles);
  Compiler compiler(std::move(settings), dump, llo.path());
  config::Config config = compiler.load();
  for (const std::string& note : config.notes) log_info("note: {}", note);

  if (const auto file = arguments.option("--read")) {
    if (find_max_length || kernel_cycles || dump) {
      fail_invalid(
          "--read {}: nothing is compiled, so there is nothing for --dump, "
          "find_max_length and kernel_cycles",
          *file);
    }
    const analysis::CompileReport report =
        report_of_file(*file, config, compiler.machine(), switches);
    if (json_file) {
      atomic_write(*json_file, analysis::to_json(report).dump(2) + "\n");
    }
    std::fputs(analysis::to_text(report).c_str(), stdout);
    return 0;
  }

  std::vector<LengthTried> tried;
  const Compiled compiled = find_max_length
                                ? compiler.compile_longest(config, tried)
                                : compiler.compile(std::move(config));
  const std::string optimized = compiled.executable.optimized_program().code;
  const analysis::CompileReport report =
      report_of(compiled, compiler.machine(), switches, optimized, llo.path());
  if (dump) dump_result(*dump, optimized, report.facts.hbm);
  nlohmann::json json = analysis::to_json(report);
  std::string text = analysis::to_text(report);
  if (find_max_length) {
    json["max_target_length"] = compiled.config.data.max_target_length;
    text += fmt::format("longest      max_target_length={} fits\n",
                        compiled.config.data.max_target_length);
    text += lengths_table(tried);
  }
  if (json_file) atomic_write(*json_file, json.dump(2) + "\n");
  std::fputs(text.c_str(), stdout);
  return 0;
}

}  // namespace ringmax::cli
