// What one training step reports: a line for people and an object in
// metrics.jsonl for programs.
#ifndef RINGMAX_TRAIN_METRICS_H_
#define RINGMAX_TRAIN_METRICS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ringmax/base/file.h"

namespace ringmax::train {

inline constexpr char kMetricsFile[] = "metrics.jsonl";

struct StepMetrics {
  std::int64_t step = 0;  // steps completed with this one; from 1
  double loss = 0;        // mean over the pairs that count, in nats
  double grad_norm = 0;   // before clipping
  double learning_rate = 0;
  double step_time_s = 0;
  double tokens_per_s = 0;       // over all devices
  double tflops_per_device = 0;  // model FLOPs, 1e12 a second
  double total_weights = 0;      // pairs that count
  // The largest attention logit of every layer; empty when not recorded.
  std::vector<double> max_logits = {};
};

// "step 12/100  loss 2.3456  grad_norm 0.98  lr 3.0e-04  231 ms  17,716 tok/s
// 2,214 tok/s/device  0.12 TFLOP/s/device  MFU n/a", on one line. `mfu` is a
// fraction; none where the hardware's peak is unknown.
std::string format_step_line(const StepMetrics& metrics,
                             std::int64_t total_steps, std::int64_t devices,
                             std::optional<double> mfu);

// The JSON object of a step, on one line; what is not finite is null.
std::string metrics_json(const StepMetrics& metrics);

// Appends to RUN_DIR/metrics.jsonl, each step at once.
class MetricsWriter {
 public:
  // Starts a fresh file when `resumed_step` is 0. Otherwise keeps the lines of
  // steps up to it; later ones, which a run wrote after its last checkpoint,
  // will come again and are dropped.
  MetricsWriter(const std::string& run_dir, std::int64_t resumed_step);
  void write(const StepMetrics& metrics);

 private:
  AppendFile file_;
};

}  // namespace ringmax::train

#endif  // RINGMAX_TRAIN_METRICS_H_
