// The decoder: token embedding, scanned layers, final norm, and the loss.
#ifndef RINGMAX_MODEL_DECODER_H_
#define RINGMAX_MODEL_DECODER_H_

#include <vector>

#include "ringmax/attention/options.h"
#include "ringmax/graph/graph.h"
#include "ringmax/hw/target.h"
#include "ringmax/model/options.h"
#include "ringmax/model/parameters.h"

namespace ringmax::model {

class KeptWeights;

// Everything a model builder needs besides values.
struct ModelContext {
  const ModelOptions& options;
  const attention::AttentionOptions& attention;
  const std::vector<ParameterInfo>& infos;
  attention::ContextPlan plan = {};
  hw::Target target = {};
  // Products' weights, where they are shared for a whole step (keep_weights.h).
  const KeptWeights* kept = nullptr;
};

// What a row of the batch is, slot by slot, in the order of the plan's layout;
// int32 [B, S].
struct SequenceInputs {
  graph::Value tokens_BS;
  graph::Value positions_BS;  // for RoPE; restart with each document
  // Documents: a token sees its own one's alone, and 0 is padding. Invalid: a
  // row is one document.
  graph::Value segment_ids_BS;
};

struct DecoderOutput {
  graph::Value hidden_BSE;  // after the final norm, in the activation dtype
  // float32: the largest attention logit of every layer; no gradient flows into
  // it. Invalid unless record_max_logits.
  graph::Value max_logits_L;
};

// `weights` are in the order of `infos`.
DecoderOutput decoder(const ModelContext& context,
                      const std::vector<graph::Value>& weights,
                      const SequenceInputs& inputs);

// The output head [V, E] as it is kept (sharded), in the activation dtype.
graph::Value output_head(const ModelContext& context,
                         const std::vector<graph::Value>& weights);

// Pieces of its hidden dimension in which a layer's MLP is done, one after the
// other, so that only one piece's activations and gathered weights are there at
// a time: num_mlp_tiling, or, when that is 0, the fewest of 1, 2, 4, 8 that
// keep an activation of a device at 128 MiB. `x_BSE` are the global sizes.
std::int64_t mlp_pieces(const ModelOptions& options, const mesh::Mesh& mesh,
                        const Dims& x_BSE);

// The attention layer alone: projections, RoPE, attention, output projection.
// `layer` holds the weights of one layer, those of all heads as one dimension;
// `inputs` need no tokens.
struct AttentionWeights {
  graph::Value query_PE, key_PE, value_PE, out_PE;
  graph::Value sinks_H = {};  // invalid unless attention_sink
};
graph::Value attention_layer(const ModelContext& context, graph::Value x_BSE,
                             const SequenceInputs& inputs,
                             const AttentionWeights& layer);

}  // namespace ringmax::model

#endif  // RINGMAX_MODEL_DECODER_H_
