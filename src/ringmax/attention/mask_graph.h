// A mask inside a program: laws on positions that are data.
//
// Every law says, for a query, between which positions the keys that it sees
// lie, so a mask becomes a union of intervals a row: vectors made once a shard,
// and two comparisons a pair where a block needs them. Classifying blocks works
// on the same vectors, so it holds for any layout, shift and device.
#ifndef RINGMAX_ATTENTION_MASK_GRAPH_H_
#define RINGMAX_ATTENTION_MASK_GRAPH_H_

#include <cstdint>
#include <vector>

#include "ringmax/attention/mask.h"
#include "ringmax/graph/graph.h"

namespace ringmax::attention {

// Above every position; positions in programs are int32 below 2^30.
inline constexpr std::int64_t kBeyondPositions = std::int64_t{1} << 30;

// Query s sees the keys at positions low[s] .. high[s], both included; none
// when high < low. int32 [S].
struct RowIntervals {
  graph::Value low_S;
  graph::Value high_S;
};

// The mask, as a union, for queries at `positions` (int32 [S], -1 is padding
// and sees nothing). No interval reaches below 0, so that keys at -1 are never
// seen. Throws kInternal for a mask with a dense part: that is a tile's job.
std::vector<RowIntervals> row_intervals(const Mask& mask,
                                        graph::Value positions_S);

// bool [T, S]: which queries see which keys; kv_positions int32 [T].
graph::Value seen_TS(const std::vector<RowIntervals>& rows,
                     graph::Value kv_positions_T);

}  // namespace ringmax::attention

#endif  // RINGMAX_ATTENTION_MASK_GRAPH_H_
