#include "ringmax/model/keep_weights.h"

#include <string>
#include <string_view>

#include "ringmax/graph/ops.h"
#include "ringmax/model/loss.h"

namespace ringmax::model {

std::optional<KeptWeights> keep_weights(
    const ModelContext& c, const mesh::Mesh& mesh,
    const std::vector<graph::Value>& weights) {
  const std::optional<std::string> axis = sharing_axis(c, mesh);
  if (!axis || c.options.remat_policy != RematPolicy::kNone ||
      c.options.num_mlp_tiling > 1) {
    return std::nullopt;
  }
  const auto stack = [&](std::string_view name) {
    return weights[parameter_index(c.infos, name)];
  };
  const graph::Value head = output_head(c, weights);
  const std::int64_t chunks =
      vocabulary_chunks(head.dim(0), c.options.num_vocab_tiling);
  std::vector<std::vector<graph::Value>> groups(5);
  groups[kQueryKeyValue] = {stack("layers/self_attention/query"),
                            stack("layers/self_attention/key"),
                            stack("layers/self_attention/value")};
  groups[kAttentionOut] = {stack("layers/self_attention/out")};
  groups[kGateUp] = {stack("layers/mlp/wi_0"), stack("layers/mlp/wi_1")};
  groups[kDown] = {stack("layers/mlp/wo")};
  groups[kHead] = {
      graph::reshape(head, {chunks, head.dim(0) / chunks, head.dim(1)})};
  return KeptWeights(groups, *axis);
}

}  // namespace ringmax::model
