#include "ringmax/attention/payload.h"

#include "ringmax/graph/ops.h"

namespace ringmax::attention {

using graph::Value;
using graph::Values;

Values Payload::tensors(std::int64_t begin, std::int64_t end) const {
  Values sent = {graph::slice_dim(home_.k_BKTD, 2, begin, end),
                 graph::slice_dim(home_.v_BKTV, 2, begin, end)};
  if (home_.segments_BT.valid()) {
    sent.push_back(graph::slice_dim(home_.segments_BT, 1, begin, end));
  }
  return sent;
}

KeyValues Payload::expand(const Values& tensors) const {
  return {tensors[0], tensors[1], tensors.size() > 2 ? tensors[2] : Value{}};
}

Values Payload::zero_gradients(std::int64_t slots) const {
  const auto zeros = [&](Value like) {
    Dims dims = like.dims();
    dims[2] = slots;
    return graph::constant(*like.graph, Shape(DType::kF32, std::move(dims)), 0);
  };
  return {zeros(home_.k_BKTD), zeros(home_.v_BKTV)};
}

KeyValueGradients Payload::expand_gradients(const Values& travelling) const {
  return {travelling[0], travelling[1]};
}

Values Payload::collect_gradients(const KeyValueGradients& gradients) const {
  return {gradients.dk_BKTD, gradients.dv_BKTV};
}

}  // namespace ringmax::attention
