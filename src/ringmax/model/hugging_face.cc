#include "ringmax/model/hugging_face.h"

#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>
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
      all.emplace_back(fmt::format("model.layers.{}.{}.weight", l, name.theirs),
                       std::move(one));
    }
    if (o.attention_sink) {
      all.emplace_back(fmt::format("model.layers.{}.self_attn.sinks", l),
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

}  // namespace ringmax::model
