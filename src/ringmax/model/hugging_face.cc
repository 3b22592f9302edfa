#include "ringmax/model/hugging_face.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string_view>

#include "ringmax/base/error.h"
#include "ringmax/base/problems.h"
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

// A value of a config.json; `fallback` where the key is not there.
template <typename T>
T value_of(const nlohmann::json& config, const char* key, T fallback) {
  return config.contains(key) && !config.at(key).is_null()
             ? config.at(key).get<T>()
             : fallback;
}

void read_rope_scaling(const nlohmann::json& config, const std::string& path,
                       ModelOptions& o) {
  if (!config.contains("rope_scaling") || config.at("rope_scaling").is_null()) {
    return;
  }
  const nlohmann::json& scaling = config.at("rope_scaling");
  const auto type = scaling.at("rope_type").get<std::string>();
  if (type != "llama3") {
    fail_invalid("{}: rope_type \"{}\" is not there; valid is \"llama3\"", path,
                 type);
  }
  o.rope_type = RopeType::kLlama31;
  o.rope_llama3_factor = scaling.at("factor").get<double>();
  o.rope_llama3_low_freq_factor = scaling.at("low_freq_factor").get<double>();
  o.rope_llama3_high_freq_factor = scaling.at("high_freq_factor").get<double>();
  o.rope_llama3_original_length =
      scaling.at("original_max_position_embeddings").get<std::int64_t>();
}

ModelOptions read_options(const nlohmann::json& config,
                          const std::string& path) {
  const auto type = config.at("model_type").get<std::string>();
  if (type != "llama" && type != "mistral" && type != "ringmax") {
    fail_invalid(
        "{}: model_type \"{}\" is not there; valid are llama, mistral and "
        "ringmax",
        path, type);
  }
  ModelOptions o;
  o.model_name = type;
  o.dtype = DType::kF32;
  o.base_emb_dim = config.at("hidden_size").get<std::int64_t>();
  o.base_mlp_dim = config.at("intermediate_size").get<std::int64_t>();
  o.base_num_decoder_layers =
      config.at("num_hidden_layers").get<std::int64_t>();
  o.base_num_query_heads = config.at("num_attention_heads").get<std::int64_t>();
  o.base_num_kv_heads =
      value_of(config, "num_key_value_heads", o.base_num_query_heads);
  o.vocab_size = config.at("vocab_size").get<std::int64_t>();
  o.normalization_layer_epsilon = config.at("rms_norm_eps").get<double>();
  o.rope_max_timescale = value_of(config, "rope_theta", 10000.0);
  o.logits_via_embedding = value_of(config, "tie_word_embeddings", false);
  o.normalize_embedding_logits = false;
  for (const std::int64_t size :
       {o.base_emb_dim, o.base_mlp_dim, o.base_num_decoder_layers,
        o.base_num_query_heads, o.base_num_kv_heads, o.vocab_size}) {
    if (size < 1)
      fail_invalid("{}: a size of {}; valid is 1 or more", path, size);
  }
  o.head_dim =
      value_of(config, "head_dim", o.base_emb_dim / o.base_num_query_heads);
  o.sliding_window_size = value_of<std::int64_t>(config, "sliding_window", 0);
  o.chunk_attn_window_size =
      value_of<std::int64_t>(config, "attention_chunk_size", 0);
  if (o.sliding_window_size > 0) {
    o.attention_type = AttentionType::kLocalSliding;
  } else if (o.chunk_attn_window_size > 0) {
    o.attention_type = AttentionType::kChunk;
  }
  o.attention_sink = value_of(config, "attention_sink", false);
  o.attn_logits_soft_cap = value_of(config, "attn_logit_softcapping", 0.0);
  read_rope_scaling(config, path, o);
  return o;
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

std::string hugging_face_config(const ModelOptions& o) {
  nlohmann::json config = {
      {"architectures", {"LlamaForCausalLM"}},
      {"model_type", "llama"},
      {"hidden_act", "silu"},
      {"hidden_size", o.base_emb_dim},
      {"intermediate_size", o.base_mlp_dim},
      {"num_hidden_layers", o.base_num_decoder_layers},
      {"num_attention_heads", o.base_num_query_heads},
      {"num_key_value_heads", o.base_num_kv_heads},
      {"head_dim", o.head_dim},
      {"vocab_size", o.vocab_size},
      {"rms_norm_eps", o.normalization_layer_epsilon},
      {"rope_theta", o.rope_max_timescale},
      {"tie_word_embeddings",
       o.logits_via_embedding && !o.normalize_embedding_logits},
      {"attention_bias", false},
      {"mlp_bias", false},
      {"torch_dtype", std::string(dtype_name(o.weight_dtype))}};
  if (o.attention_type == AttentionType::kLocalSliding) {
    // The same weights and computation, and a window.
    config["architectures"] = {"MistralForCausalLM"};
    config["model_type"] = "mistral";
    config["sliding_window"] = o.sliding_window_size;
  }
  if (o.attention_type == AttentionType::kChunk || o.attention_sink ||
      o.attn_logits_soft_cap > 0) {
    // No model over there computes this. A name that it does not know keeps it
    // from loading the weights and leaving half of the model out.
    config["architectures"] = {"RingMaxForCausalLM"};
    config["model_type"] = "ringmax";
    config["attention_chunk_size"] = o.chunk_attn_window_size;
    config["attention_sink"] = o.attention_sink;
    config["attn_logit_softcapping"] = o.attn_logits_soft_cap;
  }
  if (o.rope_scaling()) {
    config["rope_scaling"] = {
        {"rope_type", "llama3"},
        {"factor", o.rope_llama3_factor},
        {"low_freq_factor", o.rope_llama3_low_freq_factor},
        {"high_freq_factor", o.rope_llama3_high_freq_factor},
        {"original_max_position_embeddings", o.rope_llama3_original_length}};
  }
  return config.dump(2) + "\n";
}

ModelOptions options_of_hugging_face(const std::string& text,
                                     const std::string& path) {
  ModelOptions options;
  try {
    options = read_options(nlohmann::json::parse(text), path);
  } catch (const nlohmann::json::exception& error) {
    fail_invalid("{}: not the config.json of a model: {}", path, error.what());
  }
  Problems problems;
  validate(options, problems);
  problems.throw_if_any();
  return options;
}

std::vector<HostArray> from_hugging_face(const SafetensorsFile& file,
                                         const ModelOptions& o) {
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
