#include "ringmax/train/metrics.h"

#include <cmath>
#include <nlohmann/json.hpp>
#include <string_view>

#include "ringmax/base/error.h"
#include "ringmax/base/numerals.h"

namespace ringmax::train {
namespace {

// Two decimals, and more for small values, so that they do not read as 0.
std::string short_number(double value) {
  const double magnitude = std::abs(value);
  if (magnitude >= 0.1 || magnitude == 0 || !std::isfinite(value)) {
    return fmt::format("{:.2f}", value);
  }
  if (magnitude < 1e-6) return fmt::format("{:.1e}", value);
  const int decimals = 1 - static_cast<int>(std::floor(std::log10(magnitude)));
  return fmt::format("{:.{}f}", value, decimals);
}

// The lines of a metrics file for steps up to `last_step`. Lines that are not
// a step's object do not belong in the file and go too.
std::string lines_up_to(std::string_view text, std::int64_t last_step) {
  std::string kept;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    if (end == std::string_view::npos) break;  // half a line
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(end + 1);
    const auto json = nlohmann::json::parse(line, nullptr, false);
    if (!json.is_object() || !json.contains("step")) continue;
    const auto& step = json["step"];
    if (step.is_number_integer() && step.get<std::int64_t>() <= last_step) {
      kept += line;
      kept += '\n';
    }
  }
  return kept;
}

std::string prepare(const std::string& run_dir, std::int64_t resumed_step) {
  std::string path = join_path(run_dir, kMetricsFile);
  if (resumed_step > 0 && path_exists(path)) {
    const std::string text = read_file(path);
    const std::string kept = lines_up_to(text, resumed_step);
    if (kept != text) atomic_write(path, kept);
  }
  return path;
}

}  // namespace

std::string format_step_line(const StepMetrics& metrics,
                             std::int64_t total_steps, std::int64_t devices,
                             std::optional<double> mfu) {
  RINGMAX_CHECK(devices >= 1);
  return fmt::format(
      "step {}/{}  loss {:.4f}  grad_norm {}  lr {:.1e}  {:.0f} ms  {} tok/s  "
      "{} tok/s/device  {} TFLOP/s/device  MFU {}",
      metrics.step, total_steps, metrics.loss, short_number(metrics.grad_norm),
      metrics.learning_rate, metrics.step_time_s * 1e3,
      with_commas(metrics.tokens_per_s),
      with_commas(metrics.tokens_per_s / static_cast<double>(devices)),
      short_number(metrics.tflops_per_device),
      mfu ? fmt::format("{:.1f}%", *mfu * 100) : "n/a");
}

std::string metrics_json(const StepMetrics& metrics) {
  // dump() writes null for what is not finite.
  nlohmann::ordered_json json = {
      {"step", metrics.step},
      {"loss", metrics.loss},
      {"grad_norm", metrics.grad_norm},
      {"learning_rate", metrics.learning_rate},
      {"step_time_s", metrics.step_time_s},
      {"tokens_per_s", metrics.tokens_per_s},
      {"tflops_per_device", metrics.tflops_per_device},
      {"total_weights", metrics.total_weights}};
  if (!metrics.max_logits.empty()) json["max_logits"] = metrics.max_logits;
  return json.dump();
}

MetricsWriter::MetricsWriter(const std::string& run_dir,
                             std::int64_t resumed_step)
    : file_(prepare(run_dir, resumed_step), resumed_step > 0
                                                ? AppendFile::Mode::kKeep
                                                : AppendFile::Mode::kFresh) {}

void MetricsWriter::write(const StepMetrics& metrics) {
  file_.append_line(metrics_json(metrics));
}

}  // namespace ringmax::train
