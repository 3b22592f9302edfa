#include "ringmax/train/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace ringmax::train {

double learning_rate_at(std::int64_t step, const TrainOptions& options) {
  const auto total = static_cast<double>(options.schedule_steps());
  const double warmup = std::floor(total * options.warmup_steps_fraction);
  const auto at = static_cast<double>(step);
  // The first step already learns: it is one of the warm-up's equal rises.
  if (at < warmup) return options.learning_rate * (at + 1) / warmup;
  const double progress =
      std::min(1.0, (at - warmup) / std::max(1.0, total - warmup));
  const double cosine = 0.5 * (1 + std::cos(std::numbers::pi * progress));
  const double floor = options.learning_rate_final_fraction;
  return options.learning_rate * (floor + (1 - floor) * cosine);
}

}  // namespace ringmax::train
