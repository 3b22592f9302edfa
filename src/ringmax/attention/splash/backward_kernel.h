// The backward splash kernel: gradients of one query shard against one
// key/value shard, five matmuls a pair of blocks.
//
// Grid: key/value heads in parallel, then a walk over all query heads of the
// group and, for each, the rows of query blocks. The gradient of a query block
// grows in its output window, those of keys and values of the whole shard in
// theirs, so that no partial sum ever goes to HBM. Scores are transposed
// (keys by queries): then the statistics of a query are a row, and only the
// product that makes dq has to turn an operand.
#ifndef RINGMAX_ATTENTION_SPLASH_BACKWARD_KERNEL_H_
#define RINGMAX_ATTENTION_SPLASH_BACKWARD_KERNEL_H_

#include <memory>

#include "ringmax/attention/splash/kernel_spec.h"
#include "ringmax/kernel/kernel.h"

namespace ringmax::attention::splash {

// Operands: walk length; works and places of the block list, [lists * groups *
// list_length] each, whose query blocks count through the group; q [B*K, G*S,
// D], k [B*K, T, D], v [B*K, T, V], dout [B*K, G*S, V]; rows (lse * log2(e),
// delta) [B*K, 2, G*S] f32; intervals [S / bq, 2 * intervals, bq] and kv
// positions [windows, 1, window]; with segments, [B, S / bq, 1, bq] and [B,
// windows, 1, window]; with a tile, int32 [T, S]; dq so far [B*K, G*S, D] f32.
// Results: dq [B*K, G*S, D] f32, in the buffer of the former; dk / scale
// [B*K, T, D] and dv [B*K, T, V] of this call alone, f32.
std::unique_ptr<kernel::Kernel> backward_kernel(const KernelSpec& spec);

}  // namespace ringmax::attention::splash

#endif  // RINGMAX_ATTENTION_SPLASH_BACKWARD_KERNEL_H_
