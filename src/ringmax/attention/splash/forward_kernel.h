// The forward splash kernel: one query shard against one key/value shard.
//
// Grid: heads in parallel, then a walk over the active (query block, key block)
// pairs, rows of query blocks one after the other. Scratch carries the running
// maximum, the sums and the output of a row (online softmax, Milakov and
// Gimelshein 2018). Scores are in base 2 inside; sums are kept lane by lane and
// meet at the end of a row.
#ifndef RINGMAX_ATTENTION_SPLASH_FORWARD_KERNEL_H_
#define RINGMAX_ATTENTION_SPLASH_FORWARD_KERNEL_H_

#include <cstdint>
#include <memory>

#include "ringmax/attention/mask.h"
#include "ringmax/kernel/kernel.h"

namespace ringmax::attention::splash {

// What both kernels are built from. Lengths are padded to blocks already.
struct KernelSpec {
  Mask mask = Mask::full();
  double scale = 1;
  double soft_cap = 0;  // 0: none
  std::int64_t batch = 1;
  std::int64_t kv_heads = 1;
  std::int64_t groups = 1;
  std::int64_t queries = 0;
  std::int64_t keys = 0;
  std::int64_t head_dim = 128;
  std::int64_t value_dim = 128;
  DType dtype = DType::kBF16;
  bool segments = false;
  bool tile = false;
  // Multiples of 128 that divide the lengths; block_kv_compute divides
  // block_kv.
  std::int64_t block_q = 0;
  std::int64_t block_kv = 0;
  std::int64_t block_kv_compute = 0;
  std::int64_t vmem_limit_bytes = 0;

  std::int64_t heads() const { return batch * kv_heads * groups; }
  std::int64_t query_blocks() const { return queries / block_q; }
  std::int64_t key_blocks() const { return keys / block_kv; }
  // Lists differ from batch row to batch row where segments do.
  std::int64_t lists() const { return segments ? batch : 1; }
  std::int64_t list_length() const { return query_blocks() * key_blocks(); }
};

// Operands: walk length; block list [lists * list_length] (see kernel_math.h);
// q [heads, S, D], k [B*K, T, D], v [B*K, T, V]; q positions [S / bq, 1, bq]
// and kv positions [T / bkv, 1, bkv], int32; with segments, q and kv segments
// [B, S / bq, 1, bq] and [B, T / bkv, 1, bkv], int32; with a tile, int32 [S,
// T]. Results: out [heads, S, V] f32; lse and max logits in rows 0 and 1 of
// [heads, 2, S], f32, natural log.
std::unique_ptr<kernel::Kernel> forward_kernel(const KernelSpec& spec);

}  // namespace ringmax::attention::splash

#endif  // RINGMAX_ATTENTION_SPLASH_FORWARD_KERNEL_H_
