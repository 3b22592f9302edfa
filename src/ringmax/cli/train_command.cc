// `ringmax train`: trains, and ends cleanly on SIGINT, SIGTERM and SIGHUP.
#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <string>

#include "ringmax/analysis/run_report.h"
#include "ringmax/base/log.h"
#include "ringmax/base/numerals.h"
#include "ringmax/base/problems.h"
#include "ringmax/cli/arguments.h"
#include "ringmax/cli/commands.h"
#include "ringmax/cli/stop_signals.h"
#include "ringmax/config/config.h"
#include "ringmax/model/cost.h"
#include "ringmax/train/devices.h"
#include "ringmax/train/loop.h"
#include "ringmax/train/options.h"

namespace ringmax::cli {
namespace {

void print_step_line(const std::string& line) {
  const bool printed =
      std::printf("%s\n", line.c_str()) >= 0 && std::fflush(stdout) == 0;
  if (printed || errno != EPIPE || stop_asked()) return;
  // `| head` has seen enough. Other faults, such as a full disk, pass by.
  log_warning("nobody reads standard output any more; stopping");
  ask_to_stop();
}

// What the report says beside the curves.
analysis::RunSummary summary_of(const config::Config& config,
                                const train::TrainResult& result) {
  analysis::RunSummary summary;
  summary.title = config.train.run_name.empty() ? config.model.model_name
                                                : config.train.run_name;
  summary.subtitle = result.data_description;
  const std::int64_t devices = attention::sequence_shards(config.device_mesh);
  summary.settings = {
      {"parameters",
       fmt::format(
           "{:.1f}M",
           static_cast<double>(model::parameter_count(config.model)) / 1e6)},
      {"mesh", config.device_mesh.to_string()},
      {"context strategy",
       devices == 1 ? "single: one device has the whole sequence"
                    : fmt::format("{} over {} devices",
                                  name_of(attention::kContextStrategies,
                                          config.plan.strategy),
                                  devices)},
      {"layout", std::string(attention::layout_name(config.plan.layout))},
      {"attention kernel", config.plan.kernel},
      {"tokens a step", with_commas(config.tokens_per_step)},
      {"sequence length", with_commas(config.data.max_target_length)},
      {"activations", std::string(dtype_name(config.model.dtype))},
      {"peak learning rate", fmt::format("{:g}", config.train.learning_rate)}};
  summary.sample_prompt = result.sample_prompt;
  summary.sample_text = result.sample;
  return summary;
}

}  // namespace

int run_train(Args args) {
  const Arguments arguments = read_arguments(
      "train",
      "Trains. Writes metrics, parameters and a report under "
      "BASE_OUTPUT_DIRECTORY/RUN_NAME.",
      "[FILE.yml ...] key=value ...", {}, args, kTrainSettingsHelp);
  if (arguments.helped) return 0;
  const config::Config config =
      config::load(arguments.settings, train::find_devices);
  // Before anything is loaded or compiled: a directory of something else is
  // never written into.
  Problems problems;
  train::check_run_directory(config.run_directory, problems);
  problems.throw_if_any();
  const train::TrainResult result = train::run_training(
      config, {catch_stop_signals, print_step_line, stop_asked});
  if (result.steps_done < config.train.steps) {
    log_info("stopped after step {} of {}", result.steps_done,
             config.train.steps);
  }
  const std::string report = analysis::write_run_report(
      config.run_directory, summary_of(config, result));
  if (!result.sample.empty()) {
    std::printf("sample: %s%s\n", result.sample_prompt.c_str(),
                result.sample.c_str());
  }
  std::printf("parameters: %s\nreport: %s\n", result.parameters_path.c_str(),
              report.c_str());
  return 0;
}

}  // namespace ringmax::cli
