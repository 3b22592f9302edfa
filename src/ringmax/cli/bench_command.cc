// `ringmax bench attention`: times one attention case (bench_attention.h).
// `ringmax bench kernel`: static cycles of one TPU kernel (bench_kernel.h).
// `ringmax bench step`: times the training step of any `train` settings.
// `ringmax bench text`: times the building of that step's program, which needs
// no device and no memory for the model, so any size will do.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ringmax/base/error.h"
#include "ringmax/base/file.h"
#include "ringmax/base/option.h"
#include "ringmax/cli/arguments.h"
#include "ringmax/cli/bench_attention.h"
#include "ringmax/cli/bench_kernel.h"
#include "ringmax/cli/commands.h"
#include "ringmax/cli/output_path.h"
#include "ringmax/config/config.h"
#include "ringmax/config/settings.h"
#include "ringmax/graph/print.h"
#include "ringmax/hw/host.h"
#include "ringmax/train/devices.h"
#include "ringmax/train/setup.h"
#include "ringmax/train/speed.h"

namespace ringmax::cli {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Takes `repeats=N` out of the settings, which know no such key.
std::int64_t take_repeats(std::vector<std::string>& settings) {
  std::int64_t repeats = 5;
  OptionSet set;
  set.integer("repeats", &repeats, "runs that count", {.min = 1});
  config::SplitWords words = config::split_words(set, settings);
  config::read_settings(set, words.own);
  settings = std::move(words.others);
  return repeats;
}

nlohmann::json bench_step(config::Config config, std::int64_t repeats,
                          Clock::time_point start) {
  train::check_host_memory(config);
  train::choose_for_speed(config, hw::host_memory().usable_bytes);
  const auto dataset = train::make_dataset(config);
  const train::Session session = train::make_session(config);
  train::State state = session.init->run({});
  const auto batch = [&](std::int64_t step) {
    return dataset->batch(step, {0, config.global_batch});
  };
  // The first step warms caches and pools; it is not counted.
  train::run_step(session, config, state, batch(0), 0);
  const double first_step_wall_s = seconds_since(start);
  std::vector<double> times;
  std::vector<double> processor_times;
  for (std::int64_t r = 1; r <= repeats; ++r) {
    const auto begin = Clock::now();
    const double used = processor_seconds();
    train::run_step(session, config, state, batch(r), r);
    processor_times.push_back(processor_seconds() - used);
    times.push_back(seconds_since(begin));
  }
  const nlohmann::json step_s = spread(std::move(times));
  return {{"compile_s", session.compile_s},
          {"step_s", step_s},
          {"processor_s", spread(std::move(processor_times))},
          {"tokens_per_s", static_cast<double>(config.tokens_per_step) /
                               step_s["median"].get<double>()},
          {"peak_rss_bytes", peak_rss_bytes()},
          {"first_step_wall_s", first_step_wall_s}};
}

nlohmann::json bench_text(const config::Config& config, std::int64_t repeats) {
  std::vector<double> times;
  std::size_t text_bytes = 0;
  for (std::int64_t r = 0; r < repeats; ++r) {
    const auto begin = Clock::now();
    const auto graph = train::step_program(
        train::step_settings(config, hw::cpu_target(config.device_count)));
    text_bytes = graph::print_stablehlo(*graph).size();
    times.push_back(seconds_since(begin));
  }
  return {{"text_s", spread(std::move(times))},
          {"text_bytes", text_bytes},
          {"peak_rss_bytes", peak_rss_bytes()}};
}

}  // namespace

int run_bench(Args args) {
  const auto start = Clock::now();
  const Arguments arguments = read_arguments(
      "bench",
      "Measures. `bench attention` times one attention case, `bench step` the "
      "training step, `bench text` the building of its program, `bench kernel` "
      "the static cycles of a TPU kernel.",
      "attention|step|text|kernel [FILE.yml ...] key=value ... repeats=N",
      {{"--json", "write the result to this file as well", "FILE"}}, args,
      "`bench step` and `bench text` take the settings of `train`, `bench "
      "attention` these:\n" +
          describe_attention_bench());
  if (arguments.helped) return 0;
  const std::optional<std::string> json = arguments.option("--json");
  if (json) check_output_path("--json", *json);
  std::vector<std::string> settings = arguments.settings;
  const std::string what = settings.empty() ? "" : settings.front();
  if (what != "attention" && what != "step" && what != "text" &&
      what != "kernel") {
    fail_invalid(
        "bench {}: what to measure is missing; valid are attention, step, text "
        "and kernel",
        what);
  }
  settings.erase(settings.begin());
  nlohmann::json result;
  if (what == "attention") {
    result = bench_attention(settings);
  } else if (what == "kernel") {
    result = bench_kernel(settings);
  } else {
    const std::int64_t repeats = take_repeats(settings);
    const config::Config config = config::load(settings, train::find_devices);
    result = what == "step" ? bench_step(config, repeats, start)
                            : bench_text(config, repeats);
  }
  const std::string text = result.dump(2) + "\n";
  if (json) atomic_write(*json, text);
  std::fputs(text.c_str(), stdout);
  return 0;
}

}  // namespace ringmax::cli
