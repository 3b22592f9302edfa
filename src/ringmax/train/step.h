// The programs of a training run: initial state, and one training step.
#ifndef RINGMAX_TRAIN_STEP_H_
#define RINGMAX_TRAIN_STEP_H_

#include <memory>
#include <vector>

#include "ringmax/attention/options.h"
#include "ringmax/graph/graph.h"
#include "ringmax/hw/target.h"
#include "ringmax/mesh/mesh.h"
#include "ringmax/model/options.h"
#include "ringmax/model/parameters.h"
#include "ringmax/train/options.h"

namespace ringmax::train {

struct StepSettings {
  const model::ModelOptions& model;
  const attention::AttentionOptions& attention;
  const TrainOptions& train;
  const mesh::Mesh& mesh;
  std::int64_t batch;   // sequences of the global batch
  std::int64_t length;  // tokens of a sequence
  attention::ContextPlan plan = {};
  // Rows hold several documents, or padding: there are segment ids.
  bool segments = false;
  hw::Target target = {};
};

// Results: parameters, first moments, second moments (zeros), each in the order
// of model::parameters().
std::unique_ptr<graph::Graph> init_program(const StepSettings& settings);

// Parameters: the state in init_program's order (donated), then tokens,
// targets, positions (int32 [B, S]), weights (float32 [B, S]), with `segments`
// segment_ids (int32 [B, S]), all in the order of the plan's layout, then
// float32 scalars learning_rate, 1 - b1^t and 1 - b2^t. Results: the new state,
// with record_max_logits the largest attention logit of every layer [L], then
// loss, gradient norm (before clipping), valid tokens.
std::unique_ptr<graph::Graph> step_program(const StepSettings& settings);

// How the data inputs are sharded, [B, S].
mesh::PartitionSpec batch_spec(const mesh::Mesh& mesh);

}  // namespace ringmax::train

#endif  // RINGMAX_TRAIN_STEP_H_
