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

// Operands: walk length; block list [lists * list_length] (see kernel_math.h);
// q [heads, S, D], k [B*K, T, D], v [B*K, T, V]; q positions [S / bq, 1, bq]
// and kv positions [T / bkv, 1, bkv], int32; with segments, q and kv segments
// [B, S / bq, 1, bq] and [B, T / bkv, 1, bkv], int32; with a tile, int32 [S,
// T]. Results: out [heads, S, V] f32; lse and max logits in rows 0 and 1 of
// [heads, 2, S], f32, natural log.
std::unique_ptr<kernel::Kernel> forward_kernel(const KernelSpec& spec);

}  // namespace ringmax::attention::splash

#endif  // RINGMAX_ATTENTION_SPLASH_FORWARD_KERNEL_H_
