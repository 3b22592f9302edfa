// Learning rate: linear warm-up, then half a cosine, then constant.
#ifndef RINGMAX_TRAIN_SCHEDULE_H_
#define RINGMAX_TRAIN_SCHEDULE_H_

#include <cstdint>

#include "ringmax/train/options.h"

namespace ringmax::train {

// At step `step` (0 is the first). Warm-up takes warmup_steps_fraction of the
// schedule and reaches the peak; the cosine ends at
// learning_rate_final_fraction of it and stays there.
double learning_rate_at(std::int64_t step, const TrainOptions& options);

}  // namespace ringmax::train

#endif  // RINGMAX_TRAIN_SCHEDULE_H_
