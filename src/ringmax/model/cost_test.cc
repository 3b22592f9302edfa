#include "ringmax/model/cost.h"

#include <gtest/gtest.h>

#include "ringmax/mesh/axis_rules.h"

namespace ringmax::model {
namespace {

TEST(Cost, CausalAttentionFlopsOfTheKnownCase) {
  ModelOptions o;
  o.base_num_decoder_layers = 2;
  o.base_num_query_heads = 8;
  o.head_dim = 64;
  EXPECT_EQ(attention_flops(o, 1, 4096), 103'104'380'928);
}

TEST(Cost, AttentionFlopsCountTheMasksPairs) {
  ModelOptions o;
  o.base_num_decoder_layers = 1;
  o.base_num_query_heads = 1;
  o.head_dim = 1;
  constexpr std::int64_t kPerPair = 12;
  EXPECT_EQ(attention_flops(o, 2, 16), kPerPair * 2 * 136);
  o.attention_type = AttentionType::kLocalSliding;
  o.sliding_window_size = 6;  // rows of 1 to 5 keys, then of 6
  EXPECT_EQ(attention_flops(o, 2, 16), kPerPair * 2 * (15 + 11 * 6));
  o.attention_type = AttentionType::kChunk;
  o.chunk_attn_window_size = 5;  // three whole chunks and one token
  EXPECT_EQ(attention_flops(o, 2, 16), kPerPair * 2 * (3 * 15 + 1));
}

TEST(Cost, Llama8BOnEightDevicesHoldsItsShareOfTheState) {
  ModelOptions o;
  o.base_emb_dim = 4096;
  o.base_num_query_heads = 32;
  o.base_num_kv_heads = 8;
  o.base_mlp_dim = 14336;
  o.base_num_decoder_layers = 32;
  o.head_dim = 128;
  o.vocab_size = 128256;
  const auto bytes = static_cast<double>(
      state_bytes_per_device(o, mesh::make_mesh({{"context", 8}})));
  EXPECT_NEAR(bytes, 12.05e9, 0.01 * 12.05e9);
}

TEST(Cost, MemoryGrowsWithModelAndLength) {
  ModelOptions small;
  ModelOptions large = small;
  large.base_num_decoder_layers *= 2;
  const mesh::Mesh mesh = mesh::make_mesh({{"context", 8}});
  EXPECT_GT(step_memory(large, mesh, 1, 4096).total(),
            step_memory(small, mesh, 1, 4096).total());
  EXPECT_GT(step_memory(small, mesh, 1, 8192).total(),
            step_memory(small, mesh, 1, 4096).total());
}

TEST(Cost, WeightsThatAreKeptSharedAreThereTwiceMore) {
  ModelOptions o;
  o.remat_policy = RematPolicy::kNone;
  o.dtype = o.weight_dtype = DType::kF32;
  const auto memory = [&](std::int64_t devices) {
    return step_memory(o, mesh::make_mesh({{"context", devices}}), 1, 4096);
  };
  const auto saved = [&](std::int64_t devices) {
    return memory(devices).saved;
  };
  EXPECT_EQ(saved(8) - saved(1), 2 * memory(8).gradients);
  // Gathered as everywhere.
  o.dtype = DType::kBF16;
  EXPECT_EQ(saved(8), saved(1));
  o.dtype = DType::kF32;
  o.num_mlp_tiling = 2;
  EXPECT_EQ(saved(8), saved(1));
}

}  // namespace
}  // namespace ringmax::model
