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

// Trains from step 0. Calls `print_line` with each step's line. Writes
// metrics.jsonl as it goes and, at the end or at a clean stop, the parameters
// with Hugging Face names. `stop` is asked after each step.
TrainResult run_training(
    const config::Config& config,
    const std::function<void(const std::string&)>& print_line,
    const std::function<bool()>& stop);

}  // namespace ringmax::train

#endif  // RINGMAX_TRAIN_LOOP_H_
