#include "ringmax/model/hugging_face.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <iterator>
#include <set>
#include <string_view>

#include "ringmax/base/error.h"
#include "ringmax/mesh/mesh.h"
#include "ringmax/model/parameters.h"

namespace ringmax::model {
namespace {

// Rows [layer] of a stacked array as one array of shape `dims`.
HostArray layer_of(const HostArray& stacked, std::int64_t layer, Dims dims) {
  HostArray one(Shape(stacked.shape().dtype, std::move(dims)));
  const std::size_t size = one.bytes().size();
  std::memcpy(one.bytes().data(),
              stacked.bytes().data() + static_cast<std::size_t>(layer) * size,
              size);
  return one;
}

// [in, out] -> [out, in].
HostArray transposed(const HostArray& x) {
  const std::int64_t rows = x.shape().dims[0];
  const std::int64_t columns = x.shape().dims[1];
  HostArray result(Shape(x.shape().dtype, {columns, rows}));
  const std::size_t element = dtype_size(x.shape().dtype);
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t c = 0; c < columns; ++c) {
      std::memcpy(result.bytes().data() +
                      static_cast<std::size_t>(c * rows + r) * element,
                  x.bytes().data() +
                      static_cast<std::size_t>(r * columns + c) * element,
                  element);
    }
  }
  return result;
}

bool scaled_tied_head(const ModelOptions& o) {
  return o.logits_via_embedding && o.normalize_embedding_logits;
}

// float32 values times `factor`.
HostArray scaled(const HostArray& values, double factor) {
  HostArray result = values.clone();
  for (float& v : result.data<float>()) {
    v = static_cast<float>(double{v} * factor);
  }
  return result;
}

// Linear weights and scales; their files' names end in ".weight".
struct LayerName {
  std::string_view ours;
  std::string_view theirs;
  bool turned = false;  // ours is [in, out], theirs [out, in]
};
constexpr LayerName kLayerNames[] = {
    {"layers/pre_self_attention_norm/scale", "input_layernorm"},
    {"layers/self_attention/query", "self_attn.q_proj"},
    {"layers/self_attention/key", "self_attn.k_proj"},
    {"layers/self_attention/value", "self_attn.v_proj"},
    {"layers/self_attention/out", "self_attn.o_proj", true},
    {"layers/post_self_attention_norm/scale", "post_attention_layernorm"},
    {"layers/mlp/wi_0", "mlp.gate_proj"},
    {"layers/mlp/wi_1", "mlp.up_proj"},
    {"layers/mlp/wo", "mlp.down_proj", true},
};

std::string layer_tensor(std::int64_t layer, std::string_view theirs) {
  return fmt::format("model.layers.{}.{}.weight", layer, theirs);
}
std::string sinks_tensor(std::int64_t layer) {
  return fmt::format("model.layers.{}.self_attn.sinks", layer);
}

// The tensor of that name as [dims] of float32.
HostArray expect(const SafetensorsFile& file, const std::string& name,
                 const Dims& dims) {
  if (!file.contains(name)) {
    fail_invalid("{}: it has no tensor '{}', which its config.json asks for",
                 file.path(), name);
  }
  HostArray tensor = file.tensor(name);
  const Shape valid(DType::kF32, dims);
  if (tensor.shape() != valid) {
    fail_invalid("{}: tensor '{}' is {}; by its config.json it is {}",
                 file.path(), name, tensor.shape().to_string(),
                 valid.to_string());
  }
  return tensor;
}

// Throws for a tensor that the model has no place for: it would be computed
// without it. Of tied heads a file may hold a copy.
void refuse_strangers(const SafetensorsFile& file, const ModelOptions& o) {
  std::set<std::string> known = {"model.embed_tokens.weight",
                                 "model.norm.weight", "lm_head.weight"};
  for (std::int64_t l = 0; l < o.base_num_decoder_layers; ++l) {
    for (const LayerName& name : kLayerNames) {
      known.insert(layer_tensor(l, name.theirs));
    }
    if (o.attention_sink) known.insert(sinks_tensor(l));
  }
  for (const auto& [name, shape] : file.shapes()) {
    if (!known.contains(name)) {
      fail_invalid("{}: by its config.json it has no tensor '{}'", file.path(),
                   name);
    }
  }
}

// Layers' tensors, `tensor(layer)` by name, one after the other as one array of
// `shape`; `turned` as in LayerName.
template <typename NameOf>
HostArray stack(const SafetensorsFile& file, const Shape& shape,
                const NameOf& tensor, bool turned = false) {
  HostArray stacked(shape);
  Dims dims(shape.dims.begin() + 1, shape.dims.end());
  if (turned) std::swap(dims[0], dims[1]);
  std::byte* to = stacked.bytes().data();
  for (std::int64_t l = 0; l < shape.dims[0]; ++l) {
    HostArray one = expect(file, tensor(l), dims);
    if (turned) one = transposed(one);
    std::memcpy(to, one.bytes().data(), one.bytes().size());
    to += one.bytes().size();
  }
  return stacked;
}

}  // namespace

std::vector<std::pair<std::string, HostArray>> to_hugging_face(
    const std::vector<HostArray>& weights, const ModelOptions& o) {
  const auto infos = parameters(o, mesh::Mesh());
  RINGMAX_CHECK(weights.size() == infos.size());
  const auto at = [&](std::string_view name) -> const HostArray& {
    return weights[parameter_index(infos, name)];
  };
  std::vector<std::pair<std::string, HostArray>> all;
  all.emplace_back("model.embed_tokens.weight", at("token_embedder/embedding"));
  all.emplace_back("model.norm.weight", at("decoder_norm/scale"));
  if (!o.logits_via_embedding) {
    all.emplace_back("lm_head.weight", at("logits_dense/kernel"));
  } else if (scaled_tied_head(o)) {
    all.emplace_back(
        "lm_head.weight",
        scaled(at("token_embedder/embedding"),
               1 / std::sqrt(static_cast<double>(o.base_emb_dim))));
  }
  for (std::int64_t l = 0; l < o.base_num_decoder_layers; ++l) {
    for (const LayerName& name : kLayerNames) {
      const HostArray& stacked = at(name.ours);
      const Dims& d = stacked.shape().dims;
      HostArray one = layer_of(stacked, l, Dims(d.begin() + 1, d.end()));
      if (name.turned) one = transposed(one);
      all.emplace_back(layer_tensor(l, name.theirs), std::move(one));
    }
    if (o.attention_sink) {
      all.emplace_back(sinks_tensor(l),
                       layer_of(at("layers/self_attention/sinks"), l,
                                {o.base_num_query_heads}));
    }
  }
  return all;
}

std::vector<HostArray> from_hugging_face(const SafetensorsFile& file,
                                         const ModelOptions& o) {
  refuse_strangers(file, o);
  std::vector<HostArray> weights;
  for (const ParameterInfo& info : parameters(o, mesh::Mesh())) {
    if (info.name == "token_embedder/embedding") {
      weights.push_back(
          expect(file, "model.embed_tokens.weight", info.shape.dims));
    } else if (info.name == "decoder_norm/scale") {
      weights.push_back(expect(file, "model.norm.weight", info.shape.dims));
    } else if (info.name == "logits_dense/kernel") {
      weights.push_back(expect(file, "lm_head.weight", info.shape.dims));
    } else if (info.name == "layers/self_attention/sinks") {
      weights.push_back(stack(file, info.shape, sinks_tensor));
    } else {
      const auto* name = std::find_if(
          std::begin(kLayerNames), std::end(kLayerNames),
          [&](const LayerName& each) { return each.ours == info.name; });
      RINGMAX_CHECK(name != std::end(kLayerNames));
      weights.push_back(stack(
          file, info.shape,
          [&](std::int64_t l) { return layer_tensor(l, name->theirs); },
          name->turned));
    }
  }
  return weights;
}

}  // namespace ringmax::model
