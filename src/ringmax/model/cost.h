// What a training step costs by counting: FLOPs and bytes, from shapes alone.
#ifndef RINGMAX_MODEL_COST_H_
#define RINGMAX_MODEL_COST_H_

#include <cstdint>

#include "ringmax/mesh/mesh.h"
#include "ringmax/model/options.h"

namespace ringmax::model {

std::int64_t parameter_count(const ModelOptions& options);

// Forward and backward (counted as twice the forward) of attention, pairs of
// the model's mask only (rows of one document): 12 * head_dim a pair, head and
// layer.
std::int64_t attention_flops(const ModelOptions& options, std::int64_t batch,
                             std::int64_t length);

// 3 x forward of one step: matrix multiplications of the weights (6 a parameter
// and token, the embedding table left out) and attention.
std::int64_t model_flops(const ModelOptions& options, std::int64_t batch,
                         std::int64_t length);

// Bytes of a step, all devices together.
struct StepMemory {
  std::int64_t state = 0;  // parameters and both moments
  std::int64_t gradients = 0;
  std::int64_t saved = 0;    // what is kept for the backward pass
  std::int64_t working = 0;  // one layer's intermediates and the loss
  std::int64_t total() const { return state + gradients + saved + working; }
};
StepMemory step_memory(const ModelOptions& options, const mesh::Mesh& mesh,
                       std::int64_t batch, std::int64_t length);

// Bytes of the state that one device holds, from shapes and shardings.
std::int64_t state_bytes_per_device(const ModelOptions& options,
                                    const mesh::Mesh& mesh);

}  // namespace ringmax::model

#endif  // RINGMAX_MODEL_COST_H_
