// The forward splash kernel: one query shard against one key/value shard.
//
// Grid: heads in parallel, then a walk over the active (query block, key block)
// pairs, rows of query blocks one after the other. Scratch carries the running
// maximum, the sums and the output of a row (online softmax, Milakov and
// Gimelshein 2018). Scores are in base 2 inside; sums are kept lane by lane and
// meet at the end of a row.
#ifndef RINGMAX_ATTENTION_SPLASH_FORWARD_KERNEL_H_
#define RINGMAX_ATTENTION_SPLASH_FORWARD_KERNEL_H_

#include <memory>

#include "ringmax/attention/splash/kernel_spec.h"
#include "ringmax/kernel/kernel.h"

namespace ringmax::attention::splash {

// Operands: walk length; works and places of the block list, [lists *
// list_length] each (see kernel_math.h); q [heads, S, D], k [B*K, T, D], v
// [B*K, T, V]; the intervals of keys that queries see, low and high in turn, [S
// / bq, 2 * intervals, bq], and kv positions [windows, 1, window], int32; with
// segments, q and kv segments [B, S / bq, 1, bq] and [B, windows, 1, window],
// int32; with a tile, int32 [S, T]. Results: out [heads, S, V] f32; sums of
// exp(logit - max) (0) and max logits (1), [heads, S / bq, 2, bq / 128, 128]
// f32.
std::unique_ptr<kernel::Kernel> forward_kernel(const KernelSpec& spec);

}  // namespace ringmax::attention::splash

#endif  // RINGMAX_ATTENTION_SPLASH_FORWARD_KERNEL_H_
