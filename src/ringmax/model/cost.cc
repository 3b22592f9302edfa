#include "ringmax/model/cost.h"

#include "ringmax/model/attention.h"
#include "ringmax/model/parameters.h"

namespace ringmax::model {
namespace {

// Parameters and two moments of AdamW.
constexpr std::int64_t kStateCopies = 3;

}  // namespace

std::int64_t parameter_count(const ModelOptions& options) {
  std::int64_t count = 0;
  for (const ParameterInfo& info : parameters(options, mesh::Mesh())) {
    count += info.shape.elements();
  }
  return count;
}

std::int64_t attention_flops(const ModelOptions& o, std::int64_t batch,
                             std::int64_t length) {
  const attention::PositionRun row{0, 1, length};
  const std::int64_t pairs = attention_mask(o).count(row, row);
  const std::int64_t forward = 4 * o.head_dim * o.base_num_query_heads * pairs *
                               o.base_num_decoder_layers * batch;
  return 3 * forward;
}

std::int64_t model_flops(const ModelOptions& o, std::int64_t batch,
                         std::int64_t length) {
  std::int64_t weights = parameter_count(o);
  // A look-up multiplies nothing; a tied table multiplies as the head.
  if (!o.logits_via_embedding) weights -= o.vocab_size * o.base_emb_dim;
  return 6 * weights * batch * length + attention_flops(o, batch, length);
}

StepMemory step_memory(const ModelOptions& o, const mesh::Mesh& mesh,
                       std::int64_t batch, std::int64_t length) {
  const std::int64_t tokens = batch * length;
  const auto activation = static_cast<std::int64_t>(dtype_size(o.dtype));
  StepMemory m;
  m.state = state_bytes_per_device(o, mesh) * mesh.device_count();
  m.gradients = m.state / kStateCopies;
  const std::int64_t layer_width =
      5 * o.base_emb_dim + 3 * o.base_mlp_dim +
      2 * (o.base_num_query_heads + o.base_num_kv_heads) * o.head_dim;
  const bool all = o.remat_policy == RematPolicy::kNone;
  const bool shared = mesh.device_count() > 1 && o.dtype == DType::kF32 &&
                      o.weight_dtype == DType::kF32 && o.num_mlp_tiling <= 1;
  const std::int64_t saved_width = all ? layer_width : o.base_emb_dim;
  m.saved = o.base_num_decoder_layers * tokens * saved_width * activation;
  // Weights in two orders, where devices may share them (keep_weights.h).
  if (all && shared) m.saved += 2 * m.gradients;
  m.working = 2 * tokens * layer_width * activation;
  return m;
}

std::int64_t state_bytes_per_device(const ModelOptions& options,
                                    const mesh::Mesh& mesh) {
  std::int64_t bytes = 0;
  for (const ParameterInfo& info : parameters(options, mesh)) {
    const Shape local(info.shape.dtype,
                      mesh::shard_dims(info.shape.dims, info.spec, mesh));
    bytes += local.bytes();
  }
  return bytes * kStateCopies;
}

}  // namespace ringmax::model
