// Settings of the model: its sizes, its numerics, what is rematerialised.
// Names, meaning and defaults are MaxText's where MaxText has the setting.
#ifndef RINGMAX_MODEL_OPTIONS_H_
#define RINGMAX_MODEL_OPTIONS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "ringmax/attention/options.h"
#include "ringmax/base/dtype.h"
#include "ringmax/base/option.h"
#include "ringmax/base/problems.h"
#include "ringmax/mesh/mesh.h"

namespace ringmax::model {

enum class DecoderBlock { kLlama2 };
inline constexpr Named<DecoderBlock> kDecoderBlocks[] = {
    {DecoderBlock::kLlama2, "llama2"},
};

// Which keys a query sees among those before it and itself.
enum class AttentionType {
  kGlobal,        // all
  kLocalSliding,  // the last sliding_window_size, itself among them
  kChunk,         // those of its own chunk of chunk_attn_window_size
};
inline constexpr Named<AttentionType> kAttentionTypes[] = {
    {AttentionType::kGlobal, "global"},
    {AttentionType::kLocalSliding, "local_sliding"},
    {AttentionType::kChunk, "chunk"},
};

// What a layer keeps from the forward pass for the backward one.
enum class RematPolicy {
  kFull,         // only the layer's input; all else is computed again
  kSaveQkvProj,  // also the projected queries, keys and values
  kNone,         // everything
};
inline constexpr Named<RematPolicy> kRematPolicies[] = {
    {RematPolicy::kFull, "full"},
    {RematPolicy::kSaveQkvProj, "save_qkv_proj"},
    {RematPolicy::kNone, "none"},
};

enum class RopeType { kDefault, kLlama31 };
inline constexpr Named<RopeType> kRopeTypes[] = {
    {RopeType::kDefault, "default"},
    {RopeType::kLlama31, "llama3.1"},
};

enum class MatmulPrecision { kDefault, kHigh, kHighest };
inline constexpr Named<MatmulPrecision> kMatmulPrecisions[] = {
    {MatmulPrecision::kDefault, "default"},
    {MatmulPrecision::kHigh, "high"},
    {MatmulPrecision::kHighest, "highest"},
};

struct ModelOptions {
  std::string model_name = "default";
  bool override_model_config = false;
  DecoderBlock decoder_block = DecoderBlock::kLlama2;
  std::int64_t base_emb_dim = 2048;
  std::int64_t base_num_query_heads = 16;
  std::int64_t base_num_kv_heads = 16;
  std::int64_t base_mlp_dim = 7168;
  std::int64_t base_num_decoder_layers = 16;
  std::int64_t head_dim = 128;
  std::int64_t vocab_size = 32000;
  std::vector<std::string> mlp_activations = {"silu", "linear"};
  double normalization_layer_epsilon = 1e-5;
  // Tied: the embedding table is the output head too.
  bool logits_via_embedding = false;
  bool normalize_embedding_logits = true;

  AttentionType attention_type = AttentionType::kGlobal;
  std::int64_t sliding_window_size = 0;     // tokens; 0: none
  std::int64_t chunk_attn_window_size = 0;  // tokens; 0: none
  // A learned logit per head that takes part in the softmax and has no value.
  bool attention_sink = false;
  double attn_logits_soft_cap = 0;  // cap * tanh(logit / cap); 0: none

  RopeType rope_type = RopeType::kDefault;
  bool rope_use_scale = true;
  double rope_max_timescale = 10000;
  // The frequency scaling of Llama 3.1, used when rope_type is llama3.1 and
  // rope_use_scale is true.
  double rope_llama3_factor = 8;
  double rope_llama3_low_freq_factor = 1;
  double rope_llama3_high_freq_factor = 4;
  std::int64_t rope_llama3_original_length = 8192;  // tokens

  DType dtype = DType::kBF16;        // activations
  DType weight_dtype = DType::kF32;  // parameters and optimizer state
  MatmulPrecision matmul_precision = MatmulPrecision::kDefault;
  RematPolicy remat_policy = RematPolicy::kFull;
  // One layer in a loop; else the program holds every layer.
  bool scan_layers = true;
  // Chunks of the vocabulary loss; 1 lets RingMax choose.
  std::int64_t num_vocab_tiling = 1;
  // Pieces of a layer's MLP, one after the other; 0 lets RingMax choose.
  std::int64_t num_mlp_tiling = 0;

  bool rope_scaling() const {
    return rope_type == RopeType::kLlama31 && rope_use_scale;
  }
};

void declare_options(OptionSet& set, ModelOptions& options);
// What the descriptors alone cannot see: settings that do not fit together.
void validate(const ModelOptions& options, Problems& problems);

// The global batch, as attention sees it.
struct SequenceShape {
  // 0: sizes do not fit the mesh, or are not known; then only the length is
  // looked at.
  std::int64_t batch = 1;
  std::int64_t length = 0;  // tokens of a row
  bool segments = false;    // rows hold several documents, or padding
};

// How the model's attention is spread over the mesh. What cannot be computed,
// and lengths that do not divide, become problems; the plan is then no more
// than a guess. `compile_topology` names the hardware; empty is this CPU.
attention::ContextPlan plan_context(const ModelOptions& model,
                                    const attention::AttentionOptions& options,
                                    const mesh::Mesh& mesh,
                                    const SequenceShape& shape,
                                    const std::string& compile_topology,
                                    Problems& problems);

}  // namespace ringmax::model

#endif  // RINGMAX_MODEL_OPTIONS_H_
