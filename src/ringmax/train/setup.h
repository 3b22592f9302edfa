// From a resolved config to something that can train: client, programs, data.
#ifndef RINGMAX_TRAIN_SETUP_H_
#define RINGMAX_TRAIN_SETUP_H_

#include <memory>
#include <string>
#include <string_view>

#include "ringmax/config/config.h"
#include "ringmax/data/dataset.h"
#include "ringmax/pjrt/client.h"
#include "ringmax/train/program.h"
#include "ringmax/train/step.h"

namespace ringmax::train {

// Throws kResourceExhausted, before anything is loaded, when the host cannot
// hold the step of its CPU devices: what it needs, what there is, what to do.
void check_host_memory(const config::Config& config);

// Throws kFailedPrecondition when devices may meet the collectives of a step in
// different orders, where a device waits in whichever it meets first
// (hw::Target::collectives_block). `optimized_program` is an HloModuleProto.
void check_collective_order(const config::Config& config,
                            std::string_view optimized_program);

std::shared_ptr<const data::Dataset> make_dataset(const config::Config& config);

// `target` is what the program is compiled for.
StepSettings step_settings(const config::Config& config,
                           const hw::Target& target);

// Everything a run executes.
struct Session {
  std::unique_ptr<pjrt::Client> client;
  PlacementPtr placement;
  std::unique_ptr<Program> init, step;
  double compile_s = 0;     // both programs, from text to loaded
  bool from_cache = false;  // both
};
Session make_session(const config::Config& config);

// The state of a run: parameters, first and second moments.
using State = std::vector<DeviceArray>;

struct StepOutput {
  double loss = 0;
  double grad_norm = 0;
  double total_weights = 0;
  std::vector<double> max_logits;  // per layer, with record_max_logits
};
// Runs one step (0 is the first) and waits for its loss. `state` is replaced.
StepOutput run_step(const Session& session, const config::Config& config,
                    State& state, const data::Batch& batch, std::int64_t step);

}  // namespace ringmax::train

#endif  // RINGMAX_TRAIN_SETUP_H_
