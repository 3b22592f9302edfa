// What the splash kernels are built from: sizes and blocks. A plain value.
#ifndef RINGMAX_ATTENTION_SPLASH_KERNEL_SPEC_H_
#define RINGMAX_ATTENTION_SPLASH_KERNEL_SPEC_H_

#include <cstdint>

#include "ringmax/base/dtype.h"

namespace ringmax::attention::splash {

// Lengths are padded to blocks already.
struct KernelSpec {
  std::int64_t intervals = 1;  // of keys that a query may see
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
  double visible_share = 1;  // of all pairs, for the cost estimate
  // Multiples of 128 that divide the lengths. A step sees `window_parts` key
  // blocks; within a block, keys are taken in runs of `keys_at_once`, on the
  // diagonal in tiles of `triangle_keys_at_once`. Code for `keys_unrolled` keys
  // of a full block stands in a line; the rest is a loop.
  std::int64_t block_q = 0;
  std::int64_t block_kv = 0;
  std::int64_t window_parts = 1;
  std::int64_t keys_at_once = 0;
  std::int64_t keys_unrolled = 0;
  std::int64_t triangle_keys_at_once = 0;
  std::int64_t vmem_limit_bytes = 0;
  // Kinds of blocks that the list may hold: code for others is left out.
  bool full = true;
  bool partial = true;
  bool triangular = true;

  double visible_pairs() const {
    return visible_share * static_cast<double>(heads()) *
           static_cast<double>(queries) * static_cast<double>(keys);
  }
  std::int64_t heads() const { return batch * kv_heads * groups; }
  std::int64_t query_blocks() const { return queries / block_q; }
  std::int64_t window() const { return block_kv * window_parts; }
  std::int64_t windows() const { return keys / window(); }
  // Lists differ from batch row to batch row where segments do.
  std::int64_t lists() const { return segments ? batch : 1; }
  std::int64_t list_length() const { return query_blocks() * windows(); }
};

}  // namespace ringmax::attention::splash

#endif  // RINGMAX_ATTENTION_SPLASH_KERNEL_SPEC_H_
