#include "ringmax/model/hugging_face.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "ringmax/base/error.h"
#include "ringmax/base/safetensors.h"
#include "ringmax/base/testing/temp_dir.h"
#include "ringmax/mesh/axis_rules.h"
#include "ringmax/model/parameters.h"
#include "ringmax/model/testing/small_options.h"

namespace ringmax::model {
namespace {

using ::testing::HasSubstr;

// Every dim another one.
ModelOptions unlike_dims() {
  ModelOptions o = small_options();
  o.base_emb_dim = 16;
  o.head_dim = 6;
  o.base_mlp_dim = 10;
  o.base_num_decoder_layers = 3;
  o.vocab_size = 7;
  return o;
}

// Parameters whose every element tells its parameter and place.
std::vector<HostArray> numbered(const ModelOptions& o) {
  std::vector<HostArray> weights;
  float first = 0;
  for (const ParameterInfo& info : parameters(o, mesh::Mesh())) {
    weights.emplace_back(info.shape);
    float next = first;
    for (float& v : weights.back().data<float>()) v = next++;
    first += 10000;
  }
  return weights;
}

std::map<std::string, HostArray> exported(const ModelOptions& o) {
  std::map<std::string, HostArray> all;
  for (auto& [name, array] : to_hugging_face(numbered(o), o)) {
    EXPECT_TRUE(all.emplace(name, std::move(array)).second) << name;
  }
  return all;
}

// The first element of parameter `name`, and so its number.
float first_of(const ModelOptions& o, std::string_view name) {
  return 10000.0f *
         static_cast<float>(parameter_index(parameters(o, mesh::Mesh()), name));
}

TEST(HuggingFace, NamesAndShapesAreThoseOfALlama) {
  const auto all = exported(unlike_dims());
  EXPECT_EQ(all.size(), 3u + 3u * 9u);
  const std::pair<const char*, Dims> expected[] = {
      {"model.embed_tokens.weight", {7, 16}},
      {"lm_head.weight", {7, 16}},
      {"model.norm.weight", {16}},
      {"model.layers.0.input_layernorm.weight", {16}},
      {"model.layers.1.self_attn.q_proj.weight", {24, 16}},
      {"model.layers.1.self_attn.k_proj.weight", {12, 16}},
      {"model.layers.1.self_attn.v_proj.weight", {12, 16}},
      {"model.layers.1.self_attn.o_proj.weight", {16, 24}},
      {"model.layers.2.post_attention_layernorm.weight", {16}},
      {"model.layers.2.mlp.gate_proj.weight", {10, 16}},
      {"model.layers.2.mlp.up_proj.weight", {10, 16}},
      {"model.layers.2.mlp.down_proj.weight", {16, 10}}};
  for (const auto& [name, dims] : expected) {
    ASSERT_TRUE(all.contains(name)) << name;
    EXPECT_EQ(all.at(name).shape().dims, dims) << name;
  }
}

TEST(HuggingFace, LinearWeightsAreTurnedLayerByLayer) {
  const ModelOptions o = unlike_dims();
  const auto all = exported(o);
  // query [layer, heads * head_dim, emb], as it is over there: element (layer
  // 2, h 1, d 4, e 3).
  const float q = first_of(o, "layers/self_attention/query") +
                  static_cast<float>((2 * 24 + 1 * 6 + 4) * 16 + 3);
  EXPECT_EQ(all.at("model.layers.2.self_attn.q_proj.weight")
                .data<float>()[(1 * 6 + 4) * 16 + 3],
            q);
  // out [layer, heads * head_dim, emb]: element (layer 1, h 3, d 5, e 9).
  const float out = first_of(o, "layers/self_attention/out") +
                    static_cast<float>(((1 * 4 + 3) * 6 + 5) * 16 + 9);
  EXPECT_EQ(all.at("model.layers.1.self_attn.o_proj.weight")
                .data<float>()[9 * 24 + 3 * 6 + 5],
            out);
  // Embeddings stay as they are.
  EXPECT_EQ(all.at("model.embed_tokens.weight").data<float>()[5 * 16 + 2],
            first_of(o, "token_embedder/embedding") + 5 * 16 + 2);
}

TEST(HuggingFace, TiedHeads) {
  ModelOptions o = unlike_dims();
  o.logits_via_embedding = true;
  o.normalize_embedding_logits = false;
  EXPECT_FALSE(exported(o).contains("lm_head.weight"));
  EXPECT_EQ(
      nlohmann::json::parse(hugging_face_config(o)).at("tie_word_embeddings"),
      true);
  // Scaled by 1/sqrt(16): a head of its own says so.
  o.normalize_embedding_logits = true;
  const auto all = exported(o);
  ASSERT_TRUE(all.contains("lm_head.weight"));
  EXPECT_EQ(all.at("lm_head.weight").data<float>()[37],
            all.at("model.embed_tokens.weight").data<float>()[37] / 4);
  EXPECT_EQ(
      nlohmann::json::parse(hugging_face_config(o)).at("tie_word_embeddings"),
      false);
}

TEST(HuggingFace, SinksAreOneVectorALayer) {
  ModelOptions o = unlike_dims();
  o.attention_sink = true;
  const auto all = exported(o);
  EXPECT_EQ(all.size(), 3u + 3u * 10u);
  const HostArray& sinks = all.at("model.layers.2.self_attn.sinks");
  EXPECT_EQ(sinks.shape().dims, Dims({4}));
  EXPECT_EQ(sinks.data<float>()[1],
            first_of(o, "layers/self_attention/sinks") + 2 * 4 + 1);
}

TEST(HuggingFace, AModelThatIsNoLlamaDoesNotSayItIsOne) {
  const auto config = [](auto change) {
    ModelOptions o = unlike_dims();
    change(o);
    return nlohmann::json::parse(hugging_face_config(o));
  };
  EXPECT_EQ(config([](ModelOptions&) {}).at("model_type"), "llama");
  const auto window = config([](ModelOptions& o) {
    o.attention_type = AttentionType::kLocalSliding;
    o.sliding_window_size = 5;
  });
  EXPECT_EQ(window.at("model_type"), "mistral");
  EXPECT_EQ(window.at("sliding_window"), 5);
  const auto chunks = config([](ModelOptions& o) {
    o.attention_type = AttentionType::kChunk;
    o.chunk_attn_window_size = 4;
  });
  EXPECT_EQ(chunks.at("model_type"), "ringmax");
  EXPECT_EQ(chunks.at("attention_chunk_size"), 4);
  EXPECT_EQ(
      config([](ModelOptions& o) { o.attention_sink = true; }).at("model_type"),
      "ringmax");
  EXPECT_EQ(config([](ModelOptions& o) {
              o.attn_logits_soft_cap = 50;
            }).at("attn_logit_softcapping"),
            50);
}

// Written and read again: the same model and the same bits.
void expect_round_trip(const ModelOptions& o) {
  const TempDir dir;
  const std::string path = dir.path() + "/model.safetensors";
  std::vector<TensorSource> tensors;
  for (auto& [name, array] : to_hugging_face(numbered(o), o)) {
    tensors.push_back(tensor_source(name, std::move(array)));
  }
  write_safetensors(path, std::move(tensors), {});
  const std::string text = hugging_face_config(o);
  const ModelOptions read = options_of_hugging_face(text, "config.json");
  EXPECT_EQ(hugging_face_config(read), text);
  const auto infos = parameters(read, mesh::Mesh());
  const auto weights = from_hugging_face(SafetensorsFile(path), read);
  const auto expected = numbered(o);
  const auto names = parameters(o, mesh::Mesh());
  ASSERT_EQ(weights.size(), infos.size());
  for (std::size_t i = 0; i < infos.size(); ++i) {
    if (infos[i].name == "logits_dense/kernel" && o.logits_via_embedding) {
      continue;  // the scaled head, which has no parameter of its own here
    }
    const HostArray& original = expected[parameter_index(names, infos[i].name)];
    ASSERT_EQ(weights[i].shape(), original.shape()) << infos[i].name;
    EXPECT_TRUE(std::ranges::equal(weights[i].bytes(), original.bytes()))
        << infos[i].name;
  }
}

TEST(HuggingFace, IsReadAsItWasWritten) {
  expect_round_trip(unlike_dims());
  ModelOptions o = unlike_dims();
  o.logits_via_embedding = true;
  o.normalize_embedding_logits = false;
  o.rope_type = RopeType::kLlama31;
  o.rope_llama3_factor = 32;
  o.rope_llama3_original_length = 4096;
  o.normalization_layer_epsilon = 1e-6;
  o.rope_max_timescale = 500000;
  expect_round_trip(o);
  o.normalize_embedding_logits = true;
  o.attention_type = AttentionType::kLocalSliding;
  o.sliding_window_size = 5;
  o.attn_logits_soft_cap = 30;
  expect_round_trip(o);
  o.attention_type = AttentionType::kChunk;
  o.sliding_window_size = 0;
  o.chunk_attn_window_size = 4;
  o.attention_sink = true;
  expect_round_trip(o);
}

TEST(HuggingFace, FilesOfAnotherModelAreRefused) {
  const auto refusal = [](const auto& read) -> std::string {
    try {
      read();
    } catch (const Error& error) {
      return error.message();
    }
    return "";
  };
  const auto options = [&](const std::string& text) {
    return refusal([&] { options_of_hugging_face(text, "a/config.json"); });
  };
  EXPECT_EQ(options("{"),
            "a/config.json: not the config.json of a model: it is no JSON");
  EXPECT_THAT(options("[1]"), HasSubstr("it is no JSON object"));
  EXPECT_THAT(options(R"({"model_type": "llama"})"),
              HasSubstr("a/config.json: hidden_size is missing"));
  EXPECT_THAT(options(R"({"model_type": "gpt2"})"),
              HasSubstr("valid are llama, mistral and ringmax"));
  const auto with = [&](const char* key, const nlohmann::json& value) {
    auto config = nlohmann::json::parse(hugging_face_config(unlike_dims()));
    config[key] = value;
    return options(config.dump());
  };
  EXPECT_EQ(with("head_dim", nullptr), "");  // 16 over 4 heads
  EXPECT_THAT(with("head_dim", 0), HasSubstr("head_dim=0: "));
  EXPECT_THAT(with("num_attention_heads", "four"),
              HasSubstr("num_attention_heads=\"four\": "));
  EXPECT_THAT(with("hidden_size", 16.5), HasSubstr("hidden_size=16.5: "));
  EXPECT_THAT(with("rms_norm_eps", -1), HasSubstr("rms_norm_eps=-1: "));
  EXPECT_THAT(with("rope_theta", 0), HasSubstr("rope_theta=0: "));
  EXPECT_THAT(with("num_key_value_heads", 3), HasSubstr("it must divide"));
  EXPECT_THAT(with("rope_scaling", 5), HasSubstr("rope_scaling=5: "));
  EXPECT_THAT(with("rope_scaling", {{"rope_type", "llama3"}}),
              HasSubstr("low_freq_factor is missing"));
  // Computed without these, another model would answer.
  EXPECT_THAT(with("attention_bias", true), HasSubstr("valid is false"));
  EXPECT_THAT(with("hidden_act", "gelu"), HasSubstr("valid is \"silu\""));

  const TempDir dir;
  const std::string path = dir.path() + "/model.safetensors";
  std::vector<TensorSource> tensors;
  for (auto& [name, array] :
       to_hugging_face(numbered(unlike_dims()), unlike_dims())) {
    tensors.push_back(tensor_source(name, std::move(array)));
  }
  write_safetensors(path, std::move(tensors), {});
  const auto weights = [&](auto change) {
    ModelOptions o = unlike_dims();
    change(o);
    return refusal([&] { from_hugging_face(SafetensorsFile(path), o); });
  };
  EXPECT_EQ(weights([](ModelOptions&) {}), "");
  EXPECT_THAT(weights([](ModelOptions& o) { o.base_num_decoder_layers = 4; }),
              HasSubstr("no tensor 'model.layers.3."));
  EXPECT_THAT(weights([](ModelOptions& o) { o.base_num_decoder_layers = 2; }),
              HasSubstr("it has no tensor 'model.layers.2."));
  EXPECT_THAT(weights([](ModelOptions& o) { o.vocab_size = 8; }),
              HasSubstr("'model.embed_tokens.weight' is "));
}

}  // namespace
}  // namespace ringmax::model
