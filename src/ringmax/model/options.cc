#include "ringmax/model/options.h"

#include <fmt/ranges.h>

namespace ringmax::model {

void declare_options(OptionSet& set, ModelOptions& options) {
  constexpr IntRange size = {.min = 1, .max = 2147483647};
  set.section("Model");
  set.text("model_name", &options.model_name,
           "preset of the model's sizes, from configs/models; default: none");
  set.flag("override_model_config", &options.override_model_config,
           "lets files and key=value change what the preset sets");
  set.choice("decoder_block", &options.decoder_block, kDecoderBlocks,
             "kind of decoder layer",
             {"default", "llama4", "mistral", "mixtral", "deepseek", "gemma",
              "gemma2", "gemma3", "gemma4", "qwen2", "qwen3", "qwen3_moe",
              "gpt3", "gpt_oss", "simple", "simple_mlp", "olmo3"});
  set.integer("base_emb_dim", &options.base_emb_dim,
              "width of the residual stream", size);
  set.integer("base_num_query_heads", &options.base_num_query_heads,
              "query heads", size);
  set.integer("base_num_kv_heads", &options.base_num_kv_heads,
              "key and value heads; they divide the query heads", size);
  set.integer("base_mlp_dim", &options.base_mlp_dim,
              "width inside the feed-forward block", size);
  set.integer("base_num_decoder_layers", &options.base_num_decoder_layers,
              "decoder layers", {.min = 1, .max = 100000});
  set.integer("head_dim", &options.head_dim,
              "width of one attention head; even, for RoPE", size);
  set.integer("vocab_size", &options.vocab_size, "tokens of the vocabulary",
              {.min = 2, .max = 2147483647});
  set.list("mlp_activations", &options.mlp_activations,
           "activations of the feed-forward block; [silu, linear] is SwiGLU");
  set.number("normalization_layer_epsilon",
             &options.normalization_layer_epsilon, "epsilon of RMSNorm",
             {.min = 0, .above_min = true});
  set.flag("logits_via_embedding", &options.logits_via_embedding,
           "the embedding table is the output head too (tied)");
  set.flag("normalize_embedding_logits", &options.normalize_embedding_logits,
           "scale tied logits by 1/sqrt(base_emb_dim)");

  constexpr IntRange window = {.min = 0, .max = 2147483647};
  set.choice("attention_type", &options.attention_type, kAttentionTypes,
             "keys a query sees: all before it, a sliding window, its chunk",
             {"mla", "full", "compressed", "block_diffusion"});
  set.integer("sliding_window_size", &options.sliding_window_size,
              "tokens of the window of attention_type local_sliding, the "
              "query's own among them",
              window);
  set.integer("chunk_attn_window_size", &options.chunk_attn_window_size,
              "tokens of a chunk of attention_type chunk", window);
  set.flag("attention_sink", &options.attention_sink,
           "a learned logit per query head that takes part in the softmax");
  set.number("attn_logits_soft_cap", &options.attn_logits_soft_cap,
             "cap of attention logits, cap * tanh(logit / cap); 0: none",
             {.min = 0, .max = 1e30});

  set.section("Positions");
  set.choice("rope_type", &options.rope_type, kRopeTypes,
             "rotary position embedding", {"yarn"});
  set.flag("rope_use_scale", &options.rope_use_scale,
           "with rope_type llama3.1: scale the frequencies");
  set.number("rope_max_timescale", &options.rope_max_timescale,
             "base of the rotary frequencies (theta)", {.min = 1});
  set.number("rope_llama3_factor", &options.rope_llama3_factor,
             "Llama 3.1 scaling: how much low frequencies slow down",
             {.min = 1});
  set.number("rope_llama3_low_freq_factor",
             &options.rope_llama3_low_freq_factor,
             "Llama 3.1 scaling: longest wavelength left between, as a part of "
             "the original length",
             {.min = 0, .above_min = true});
  set.number("rope_llama3_high_freq_factor",
             &options.rope_llama3_high_freq_factor,
             "Llama 3.1 scaling: shortest wavelength changed, as a part of the "
             "original length",
             {.min = 0, .above_min = true});
  set.integer("rope_llama3_original_length",
              &options.rope_llama3_original_length,
              "Llama 3.1 scaling: context length before scaling, in tokens",
              {.min = 1});

  set.section("Numerics and memory");
  set.dtype("dtype", &options.dtype, {DType::kBF16, DType::kF32},
            "dtype of activations", {"float16"});
  set.dtype("weight_dtype", &options.weight_dtype, {DType::kF32},
            "dtype of parameters and optimizer state", {"bfloat16", "float16"});
  set.choice("matmul_precision", &options.matmul_precision, kMatmulPrecisions,
             "precision of matrix products on hardware that has several",
             {"bfloat16", "float32"});
  set.choice(
      "remat_policy", &options.remat_policy, kRematPolicies,
      "what a layer computes again in the backward pass",
      {"minimal", "minimal_with_context", "minimal_offloaded",
       "save_dot_with_context_except_mlp", "save_dot_except_mlpwi",
       "save_dot_except_mlp", "qkv_proj_offloaded", "custom", "save_out_proj"});
  set.flag("scan_layers", &options.scan_layers,
           "layers, and pieces of the loss, are loops in the program; false: "
           "each is written out, which compiles longer and stacks nothing");
  set.integer("num_vocab_tiling", &options.num_vocab_tiling,
              "chunks of the vocabulary loss; 1: chosen by RingMax",
              {.min = 1});
  set.integer(
      "num_mlp_tiling", &options.num_mlp_tiling,
      "pieces of the hidden dimension in which an MLP is done, one after "
      "the other, to save memory; 0: chosen by RingMax",
      {.min = 0});
}

namespace {

// A window belongs to its attention_type, and the type needs its window.
void validate_window(std::string_view setting, std::int64_t tokens,
                     std::string_view type, bool chosen, Problems& problems) {
  if (chosen && tokens < 1) {
    problems.add(
        "{}={}: attention_type={} needs it; valid is a whole number >= 1",
        setting, tokens, type);
  } else if (!chosen && tokens > 0) {
    problems.add(
        "{}={}: only attention_type={} has such a window; valid is 0, or that "
        "attention_type",
        setting, tokens, type);
  }
}

}  // namespace

void validate(const ModelOptions& options, Problems& problems) {
  validate_window(
      "sliding_window_size", options.sliding_window_size, "local_sliding",
      options.attention_type == AttentionType::kLocalSliding, problems);
  validate_window("chunk_attn_window_size", options.chunk_attn_window_size,
                  "chunk", options.attention_type == AttentionType::kChunk,
                  problems);
  if (options.base_num_query_heads % options.base_num_kv_heads != 0) {
    problems.add("base_num_kv_heads={}: it must divide base_num_query_heads={}",
                 options.base_num_kv_heads, options.base_num_query_heads);
  }
  if (options.head_dim % 2 != 0) {
    problems.add("head_dim={}: valid is an even number (RoPE turns pairs)",
                 options.head_dim);
  }
  if (options.mlp_activations != std::vector<std::string>{"silu", "linear"}) {
    problems.add("mlp_activations=[{}]: not there yet; valid is [silu, linear]",
                 fmt::join(options.mlp_activations, ", "));
  }
  if (options.rope_scaling() && options.rope_llama3_high_freq_factor <=
                                    options.rope_llama3_low_freq_factor) {
    problems.add(
        "rope_llama3_high_freq_factor={}: it must be above "
        "rope_llama3_low_freq_factor={}",
        options.rope_llama3_high_freq_factor,
        options.rope_llama3_low_freq_factor);
  }
}

}  // namespace ringmax::model
