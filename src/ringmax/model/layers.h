// Layers of the Llama family as graph builders. Shape letters: B batch, S
// sequence, E emb_dim, H heads, D head_dim, F mlp_dim.
#ifndef RINGMAX_MODEL_LAYERS_H_
#define RINGMAX_MODEL_LAYERS_H_

#include "ringmax/graph/graph.h"
#include "ringmax/model/options.h"

namespace ringmax::model {

// x / sqrt(mean(x^2) + epsilon) * scale, computed in float32, in x's dtype.
graph::Value rms_norm(graph::Value x_BSE, graph::Value scale_E, double epsilon);

struct RotaryAngles {
  graph::Value sine_BSD;  // float32, the half-width angles twice
  graph::Value cosine_BSD;
};

// Angles of rotary embedding at `positions` (int32 [B, S]); frequencies are
// scaled as Llama 3.1 does when the options ask for it.
RotaryAngles rotary_angles(graph::Value positions_BS,
                           const ModelOptions& options);

// Rotates pairs (i, i + D/2) of the last dimension, Hugging Face's order;
// float32 inside, x's dtype out.
graph::Value apply_rotary(graph::Value x_BSHD, const RotaryAngles& angles);

}  // namespace ringmax::model

#endif  // RINGMAX_MODEL_LAYERS_H_
