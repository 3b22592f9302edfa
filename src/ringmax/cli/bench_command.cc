// `ringmax bench step`: times the training step of any `train` settings.
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "ringmax/base/error.h"
#include "ringmax/base/file.h"
#include "ringmax/cli/arguments.h"
#include "ringmax/cli/commands.h"
#include "ringmax/config/config.h"
#include "ringmax/train/setup.h"

namespace ringmax::cli {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Takes `repeats=N` out of the settings, which know no such key.
std::int64_t take_repeats(std::vector<std::string>& settings) {
  std::int64_t repeats = 5;
  std::erase_if(settings, [&](const std::string& word) {
    constexpr std::string_view kKey = "repeats=";
    if (word.rfind(kKey, 0) != 0) return false;
    const std::string value = word.substr(kKey.size());
    std::size_t used = 0;
    try {
      repeats = std::stoll(value, &used);
    } catch (const std::exception&) {
      used = 0;
    }
    if (used == 0 || used != value.size() || repeats < 1) {
      fail_invalid("repeats={}: valid are whole numbers from 1", value);
    }
    return true;
  });
  return repeats;
}

std::int64_t peak_rss_bytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<std::int64_t>(usage.ru_maxrss) * 1024;
}

}  // namespace

int run_bench(Args args) {
  const auto start = Clock::now();
  const Arguments arguments = read_arguments(
      "bench", "Measures. `bench step` times the training step.",
      "step [FILE.yml ...] key=value ... repeats=N",
      {{"--json", "write the result to this file as well", "FILE"}}, args);
  if (arguments.helped) return 0;
  std::vector<std::string> settings = arguments.settings;
  if (settings.empty() || settings.front() != "step") {
    fail_invalid("bench {}: what to measure is missing; valid is step",
                 settings.empty() ? "" : settings.front());
  }
  settings.erase(settings.begin());
  const std::int64_t repeats = take_repeats(settings);
  const config::Config config = config::load(settings);
  train::check_hardware(config);
  train::check_host_memory(config);
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
  for (std::int64_t r = 1; r <= repeats; ++r) {
    const auto begin = Clock::now();
    train::run_step(session, config, state, batch(r), r);
    times.push_back(seconds_since(begin));
  }
  std::sort(times.begin(), times.end());
  const double median = times[times.size() / 2];
  const nlohmann::json result = {
      {"compile_s", session.compile_s},
      {"step_s",
       {{"min", times.front()}, {"median", median}, {"max", times.back()}}},
      {"tokens_per_s", static_cast<double>(config.tokens_per_step) / median},
      {"peak_rss_bytes", peak_rss_bytes()},
      {"first_step_wall_s", first_step_wall_s}};
  const std::string text = result.dump(2) + "\n";
  if (const auto file = arguments.option("--json")) atomic_write(*file, text);
  std::fputs(text.c_str(), stdout);
  return 0;
}

}  // namespace ringmax::cli
