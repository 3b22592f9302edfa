// Settings of training: the loop, the optimizer, its schedule, where a run
// writes. Names, meaning and defaults are MaxText's unless docs/config.md says
// otherwise.
#ifndef RINGMAX_TRAIN_OPTIONS_H_
#define RINGMAX_TRAIN_OPTIONS_H_

#include <cstdint>
#include <string>

#include "ringmax/base/directory_lock.h"
#include "ringmax/base/dtype.h"
#include "ringmax/base/option.h"
#include "ringmax/base/problems.h"

namespace ringmax::train {

struct TrainOptions {
  std::int64_t steps = 10;
  std::int64_t init_weights_seed = 0;

  double learning_rate = 3e-5;  // the peak
  double warmup_steps_fraction = 0.1;
  std::int64_t learning_rate_schedule_steps = -1;  // -1: steps
  double learning_rate_final_fraction = 0.1;       // end of the cosine

  double adam_b1 = 0.9;
  double adam_b2 = 0.95;
  double adam_eps = 1e-8;
  double adam_eps_root = 0;
  double adam_weight_decay = 0.1;
  double gradient_clipping_threshold = 1.0;  // of the global norm; 0: none
  // Of gradients between the backward pass and the optimizer, which computes in
  // float32 either way.
  DType grad_dtype = DType::kF32;

  bool enable_checkpointing = true;
  std::string base_output_directory;  // "": runs, in the current directory
  std::string run_name;               // "": the model's name

  std::int64_t schedule_steps() const {
    return learning_rate_schedule_steps < 0 ? steps
                                            : learning_rate_schedule_steps;
  }
};

void declare_options(OptionSet& set, TrainOptions& options);
void validate(const TrainOptions& options, Problems& problems);

// The directory of a run: base_output_directory/run_name, with the fallbacks
// above. `model_name` is a name, not a path.
std::string run_directory(const TrainOptions& options,
                          const std::string& model_name);

// Refuses a run directory that cannot be written, or that holds something
// else than a run (anything, but no metrics.jsonl), or that another run is
// writing into. Leaves nothing written.
void check_run_directory(const std::string& directory, Problems& problems);
// Makes it, with the directories above, and takes it for this run while the
// lock lives. Throws kFailedPrecondition with the system's reason or when
// another run has it; nothing should have been started or written before.
DirectoryLock make_run_directory(const std::string& directory);

}  // namespace ringmax::train

#endif  // RINGMAX_TRAIN_OPTIONS_H_
