// Orders of attention tensors: [batch, sequence, heads, size], as models have
// them, and [batch, kv heads, query heads of one, sequence, size], as kernels
// take them; and the trade of sequence for heads along the ulysses axis.
#ifndef RINGMAX_ATTENTION_HEADS_H_
#define RINGMAX_ATTENTION_HEADS_H_

#include <cstdint>
#include <string>

#include "ringmax/graph/graph.h"

namespace ringmax::attention {

// [B, S, K*G, E] -> [B, K, G, S, E], [B, S, K*G] -> [B, K, G, S], and back.
graph::Value split_heads(graph::Value x_BSHE, std::int64_t kv_heads);
graph::Value join_heads(graph::Value x_BKGSE);
// [B, T, K, E] <-> [B, K, T, E].
graph::Value swap_heads(graph::Value x_BTKE);

// Inside a manual computation: [B, S, H, ...] -> [B, S * U, H / U, ...] along
// an axis of size U, shards of the sequence in the order of the axis; and back.
// Nothing for an axis "".
graph::Value to_heads(graph::Value x_BSH, const std::string& axis);
graph::Value to_sequence(graph::Value x_BSH, const std::string& axis);

// Every kv head `copies` times, neighbours, [B, T, K, E] -> [B, T, K * copies,
// E]; and the sum over the copies, its transpose.
graph::Value copy_heads(graph::Value x_BTKE, std::int64_t copies);
graph::Value sum_copies(graph::Value x_BTKE, std::int64_t copies);

}  // namespace ringmax::attention

#endif  // RINGMAX_ATTENTION_HEADS_H_
