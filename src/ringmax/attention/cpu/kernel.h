// Splash attention on the vector units of this processor: one query shard with
// one key/value shard, forward and backward.
//
// Plain functions on arrays; no graph, no plugin (ffi.h has the door to XLA).
// Work is skipped by blocks that the mask, the positions or the segments rule
// out; there is no mask arithmetic where all of a block is visible. Nothing of
// size S x T exists; nothing is allocated per block. Results do not depend on
// the number of threads, bit for bit.
//
// Queries lie along the lanes of a vector in the forward pass, so that the
// statistics of a row need no reduction across lanes and keys and values are
// read where they are; keys do in the backward pass, where keys and values stay
// and queries pass by. Sums and statistics are float32. So are products, but
// where the processor multiplies pairs of bfloat16 by itself: there weights and
// their gradients are rounded to bfloat16 on their way into the next product.
//
// Shape letters: B batch, K kv heads, G query heads per kv head, S queries, T
// keys, D head_dim of query and key, V head_dim of value. (Dao 2023 for the
// algorithm; Goto and van de Geijn 2008 for register blocking.)
#ifndef RINGMAX_ATTENTION_CPU_KERNEL_H_
#define RINGMAX_ATTENTION_CPU_KERNEL_H_

#include <cstdint>

#include "ringmax/attention/cpu/workers.h"
#include "ringmax/attention/mask.h"
#include "ringmax/base/dtype.h"

namespace ringmax::attention::cpu {

// A [batch, head, row, column] array whose columns are neighbours; strides in
// elements. Query head k * G + g of [B, K, G, ...] arrays.
struct ConstRows {
  const void* data = nullptr;
  std::int64_t batch = 0, head = 0, row = 0;
};
struct FloatRows {
  float* data = nullptr;
  std::int64_t batch = 0, head = 0, row = 0;
};

struct Problem {
  std::int64_t batch = 1, kv_heads = 1, groups = 1, queries = 1, keys = 1,
               head_dim = 1, value_dim = 1;
  DType dtype = DType::kF32;  // of q, k, v and dout: kF32 or kBF16
  double scale = 1;
  double soft_cap = 0;  // 0: none
  Mask mask = Mask::full();
  // [S] and [T]: the position of every slot, -1 for padding.
  const std::int32_t* q_positions = nullptr;
  const std::int32_t* kv_positions = nullptr;
  // [B, S] and [B, T], or both null; 0 is padding.
  const std::int32_t* q_segments = nullptr;
  const std::int32_t* kv_segments = nullptr;
  // [S, T] or null: 0 hides a pair.
  const std::uint8_t* tile = nullptr;
  // Upper bounds on the lengths of blocks; 0 leaves them to the kernel.
  std::int64_t block_q = 0, block_kv = 0;
  ConstRows q, k, v;
};

struct ForwardResult {
  FloatRows out;         // normalised
  float* sum = nullptr;  // [B, K, G, S], of exp(logit - max)
  float* max = nullptr;  // [B, K, G, S], after scale and cap
};

// Rows that see nothing: out 0, sum 0, max -inf.
void forward(const Problem& problem, const ForwardResult& result,
             const Workers& workers);

struct BackwardInputs {
  ConstRows dout;
  const float* lse = nullptr;    // [B, K, G, S], global
  const float* delta = nullptr;  // [B, K, G, S], row sums of out * dout
  // Added to, or written where `fresh`.
  FloatRows dq, dk, dv;
  bool fresh = false;
};

void backward(const Problem& problem, const BackwardInputs& inputs,
              const Workers& workers);

// The instruction set that calls use on this machine: "AVX3", "AVX2", ..., or
// "AVX3_BF16" where bfloat16 products are the processor's own (bf16_dots.h).
const char* instruction_set();

}  // namespace ringmax::attention::cpu

#endif  // RINGMAX_ATTENTION_CPU_KERNEL_H_
