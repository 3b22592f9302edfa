#include "ringmax/model/parameters.h"

#include <cmath>
#include <span>

#include "ringmax/base/error.h"
#include "ringmax/graph/ops.h"
#include "ringmax/graph/parallel.h"
#include "ringmax/mesh/axis_rules.h"
#include "ringmax/model/philox.h"

namespace ringmax::model {

std::vector<ParameterInfo> parameters(const ModelOptions& o,
                                      const mesh::Mesh& mesh) {
  const std::int64_t l = o.base_num_decoder_layers;
  const std::int64_t e = o.base_emb_dim;
  const std::int64_t h = o.base_num_query_heads;
  const std::int64_t k = o.base_num_kv_heads;
  const std::int64_t d = o.head_dim;
  const std::int64_t f = o.base_mlp_dim;
  const std::int64_t v = o.vocab_size;
  const auto fan_in = [](std::int64_t n) {
    return 1 / std::sqrt(static_cast<double>(n));
  };
  std::vector<ParameterInfo> all;
  // All heads are one dimension, and embed is the last one everywhere: so the
  // compiler multiplies with the weights as they are, and copies no stack of
  // layers into another layout.
  const auto add = [&](std::string name, const Dims& dims,
                       std::vector<std::string_view> logical, double stddev) {
    ParameterInfo info;
    info.name = std::move(name);
    info.shape = Shape(o.weight_dtype, dims);
    info.logical = std::move(logical);
    info.init_stddev = stddev;
    // What is shared out among devices: heads are never split.
    Dims units = dims;
    for (std::size_t i = 0; i < units.size(); ++i) {
      const std::string_view axis = info.logical[i];
      if (info.name.ends_with("/sinks")) continue;
      if (axis == "q_heads" || axis == "kv_heads") units[i] /= d;
    }
    // A context axis that does not divide `embed` (an odd ring) leaves the
    // parameter whole along it.
    info.spec = mesh::even_spec(
        units,
        mesh::logical_to_spec(std::span<const std::string_view>(info.logical),
                              mesh::default_axis_rules(), mesh),
        mesh);
    std::vector<std::string_view> whole = info.logical;
    for (std::string_view& axis : whole) {
      if (axis == "embed") axis = "norm";
    }
    info.gathered =
        mesh::logical_to_spec(std::span<const std::string_view>(whole),
                              mesh::default_axis_rules(), mesh);
    all.push_back(std::move(info));
  };
  add("token_embedder/embedding", {v, e}, {"vocab", "embed"}, fan_in(e));
  add("layers/pre_self_attention_norm/scale", {l, e}, {"layers", "norm"}, 0);
  add("layers/self_attention/query", {l, h * d, e},
      {"layers", "q_heads", "embed"}, fan_in(e));
  add("layers/self_attention/key", {l, k * d, e},
      {"layers", "kv_heads", "embed"}, fan_in(e));
  add("layers/self_attention/value", {l, k * d, e},
      {"layers", "kv_heads", "embed"}, fan_in(e));
  add("layers/self_attention/out", {l, h * d, e},
      {"layers", "q_heads", "embed"}, fan_in(h * d));
  if (o.attention_sink) {
    add("layers/self_attention/sinks", {l, h}, {"layers", "q_heads"}, 0);
    all.back().init_constant = 0;
  }
  add("layers/post_self_attention_norm/scale", {l, e}, {"layers", "norm"}, 0);
  add("layers/mlp/wi_0", {l, f, e}, {"layers", "mlp", "embed"}, fan_in(e));
  add("layers/mlp/wi_1", {l, f, e}, {"layers", "mlp", "embed"}, fan_in(e));
  add("layers/mlp/wo", {l, f, e}, {"layers", "mlp", "embed"}, fan_in(f));
  add("decoder_norm/scale", {e}, {"norm"}, 0);
  if (!o.logits_via_embedding) {
    add("logits_dense/kernel", {v, e}, {"vocab", "embed"}, fan_in(e));
  }
  return all;
}

std::size_t parameter_index(const std::vector<ParameterInfo>& infos,
                            std::string_view name) {
  for (std::size_t i = 0; i < infos.size(); ++i) {
    if (infos[i].name == name) return i;
  }
  fail(ErrorCode::kInternal, "there is no parameter {}", name);
}

graph::Value initial_value(graph::Graph& graph, const ParameterInfo& info,
                           std::size_t index, std::uint64_t seed) {
  const graph::Scope scope(graph, info.name);
  if (info.init_stddev == 0) {
    return graph::constant(graph, info.shape, info.init_constant);
  }
  return graph::constrain(
      graph::convert(
          approx_normal(graph, info.shape.dims, seed, index, info.init_stddev),
          info.shape.dtype),
      info.spec);
}

}  // namespace ringmax::model
