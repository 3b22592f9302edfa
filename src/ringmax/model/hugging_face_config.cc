#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <span>
#include <string_view>

#include "ringmax/base/error.h"
#include "ringmax/base/option.h"
#include "ringmax/base/problems.h"
#include "ringmax/model/hugging_face.h"

namespace ringmax::model {
namespace {

using nlohmann::json;

// A key of a config.json and the setting that it is.
struct Key {
  const char* theirs;
  std::string_view ours;
  bool needed = false;
};
constexpr Key kKeys[] = {
    {"hidden_size", "base_emb_dim", true},
    {"intermediate_size", "base_mlp_dim", true},
    {"num_hidden_layers", "base_num_decoder_layers", true},
    {"num_attention_heads", "base_num_query_heads", true},
    {"num_key_value_heads", "base_num_kv_heads"},
    {"head_dim", "head_dim"},
    {"vocab_size", "vocab_size", true},
    {"rms_norm_eps", "normalization_layer_epsilon", true},
    {"rope_theta", "rope_max_timescale"},
    {"tie_word_embeddings", "logits_via_embedding"},
    {"sliding_window", "sliding_window_size"},
    {"attention_chunk_size", "chunk_attn_window_size"},
    {"attention_sink", "attention_sink"},
    {"attn_logit_softcapping", "attn_logits_soft_cap"},
};
constexpr Key kScalingKeys[] = {
    {"factor", "rope_llama3_factor", true},
    {"low_freq_factor", "rope_llama3_low_freq_factor", true},
    {"high_freq_factor", "rope_llama3_high_freq_factor", true},
    {"original_max_position_embeddings", "rope_llama3_original_length", true},
};

bool has(const json& object, const char* key) {
  return object.contains(key) && !object.at(key).is_null();
}

// Reads a config.json by the ranges that settings have, and collects what is
// wrong with it.
class Reader {
 public:
  explicit Reader(const std::string& path) : path_(path) {}

  ModelOptions read(const std::string& text) {
    const json config = json::parse(text, nullptr, /*allow_exceptions=*/false);
    if (!config.is_object()) {
      fail_invalid(
          "{}: not the config.json of a model: {}", path_,
          config.is_discarded() ? "it is no JSON" : "it is no JSON object");
    }
    read_type(config);
    ModelOptions o;
    // What is left out has the value that Hugging Face gives it.
    o.dtype = DType::kF32;
    o.normalize_embedding_logits = false;
    read_keys(config, kKeys, o);
    if (!has(config, "num_key_value_heads")) {
      o.base_num_kv_heads = o.base_num_query_heads;
    }
    if (!has(config, "head_dim")) {
      o.head_dim = o.base_emb_dim / o.base_num_query_heads;
    }
    if (o.sliding_window_size > 0) {
      o.attention_type = AttentionType::kLocalSliding;
    } else if (o.chunk_attn_window_size > 0) {
      o.attention_type = AttentionType::kChunk;
    }
    expect(config, "hidden_act", "silu");
    expect(config, "attention_bias", false);
    expect(config, "mlp_bias", false);
    if (has(config, "rope_scaling")) read_rope_scaling(config, o);
    problems_.throw_if_any();
    Problems unfit;
    validate(o, unfit);
    for (const std::string& each : unfit.messages()) add("{}", each);
    problems_.throw_if_any();
    return o;
  }

 private:
  template <typename... Args>
  void add(fmt::format_string<Args...> format, Args&&... args) {
    problems_.add("{}: {}", path_,
                  fmt::format(format, std::forward<Args>(args)...));
  }

  // Another kind of model has other keys: nothing else is worth saying then.
  void read_type(const json& config) {
    const json type = has(config, "model_type") ? config.at("model_type") : "";
    if (type != "llama" && type != "mistral" && type != "ringmax") {
      fail_invalid(
          "{}: model_type {} is not there; valid are llama, mistral and "
          "ringmax",
          path_, type.dump());
    }
  }

  void read_keys(const json& object, std::span<const Key> keys,
                 ModelOptions& o) {
    OptionSet set;
    declare_options(set, o);
    for (const Key& key : keys) {
      if (!has(object, key.theirs)) {
        if (key.needed) add("{} is missing", key.theirs);
        continue;
      }
      const json& value = object.at(key.theirs);
      const bool plain = value.is_number() || value.is_boolean();
      const std::string wrong = set.find(key.ours)->set(
          RawValue::scalar(value.dump(), /*quoted=*/!plain));
      if (!wrong.empty()) add("{}={}: {}", key.theirs, value.dump(), wrong);
    }
  }

  // What RingMax's layers have in one way only.
  void expect(const json& config, const char* key, const json& valid) {
    if (has(config, key) && config.at(key) != valid) {
      add("{}={}: not there yet; valid is {}", key, config.at(key).dump(),
          valid.dump());
    }
  }

  void read_rope_scaling(const json& config, ModelOptions& o) {
    const json& scaling = config.at("rope_scaling");
    if (!scaling.is_object() || !has(scaling, "rope_type") ||
        scaling.at("rope_type") != "llama3") {
      add("rope_scaling={}: not there yet; valid is rope_type \"llama3\"",
          scaling.dump());
      return;
    }
    o.rope_type = RopeType::kLlama31;
    read_keys(scaling, kScalingKeys, o);
  }

  const std::string& path_;
  Problems problems_;
};

}  // namespace

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
  return Reader(path).read(text);
}

}  // namespace ringmax::model
