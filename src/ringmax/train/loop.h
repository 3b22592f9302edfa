// The training loop.
#ifndef RINGMAX_TRAIN_LOOP_H_
#define RINGMAX_TRAIN_LOOP_H_

#include <functional>
#include <string>

#include "ringmax/config/config.h"

namespace ringmax::train {

struct TrainResult {
  std::int64_t steps_done = 0;
  double last_loss = 0;
  std::string parameters_path;  // model.safetensors
  std::string data_description;
  std::string sample_prompt;  // text data only
  std::string sample;
};

struct TrainHooks {
  // Once, when all is compiled and the first step is next. Until then nothing
  // is written, so that the process may end at any moment.
  std::function<void()> begins;
  std::function<void(const std::string&)> print_line;  // each step's line
  std::function<bool()> stop;                          // asked after each step
};

// Trains from step 0. Writes metrics.jsonl as it goes and, at the end or at a
// clean stop, the parameters with Hugging Face names. Errors whose exit code is
// 2 come before anything is written, all later ones are kIo or kInternal.
TrainResult run_training(const config::Config& config, const TrainHooks& hooks);

}  // namespace ringmax::train

#endif  // RINGMAX_TRAIN_LOOP_H_
