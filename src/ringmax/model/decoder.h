// The decoder: token embedding, scanned layers, final norm, and the loss.
#ifndef RINGMAX_MODEL_DECODER_H_
#define RINGMAX_MODEL_DECODER_H_

#include <vector>

#include "ringmax/attention/options.h"
#include "ringmax/graph/graph.h"
#include "ringmax/model/options.h"
#include "ringmax/model/parameters.h"

namespace ringmax::model {

// Everything a model builder needs besides values.
struct ModelContext {
  const ModelOptions& options;
  const attention::AttentionOptions& attention;
  const std::vector<ParameterInfo>& infos;
};

// Hidden states after the final norm: [B, S, E] in the activation dtype.
// `weights` are in the order of `infos`; tokens and positions int32 [B, S].
graph::Value decoder(const ModelContext& context,
                     const std::vector<graph::Value>& weights,
                     graph::Value tokens_BS, graph::Value positions_BS);

// The output head [E, V] as it is kept (sharded), in the activation dtype.
graph::Value output_head(const ModelContext& context,
                         const std::vector<graph::Value>& weights);

// The attention layer alone: projections, RoPE, attention, output projection.
// `layer` holds query, key, value and out of one layer.
struct AttentionWeights {
  graph::Value query_EHD, key_EKD, value_EKD, out_HDE;
};
graph::Value attention_layer(const ModelContext& context, graph::Value x_BSE,
                             graph::Value positions_BS,
                             const AttentionWeights& layer);

}  // namespace ringmax::model

#endif  // RINGMAX_MODEL_DECODER_H_
