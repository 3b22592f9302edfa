// Which (query block, key block) pairs of two shards a kernel walks, and which
// of them need no mask: a table made inside the program, from positions,
// segments and a dense tile, so it is right on every device and in every ring
// step, and documents of a packed row that do not meet are skipped.
//
// A pair of blocks whose bounds allow for a visible pair of slots is walked,
// though it may hold none; one is full only when every pair of slots in it is
// visible.
#ifndef RINGMAX_ATTENTION_BLOCK_TABLE_H_
#define RINGMAX_ATTENTION_BLOCK_TABLE_H_

#include <cstdint>
#include <vector>

#include "ringmax/attention/mask_graph.h"
#include "ringmax/graph/graph.h"

namespace ringmax::attention {

// A length in equal blocks; arrays are padded to count * size slots.
struct Blocks {
  std::int64_t size = 1;
  std::int64_t count = 1;
  std::int64_t padded() const { return size * count; }
};
// The fewest blocks of at most `wanted` slots, and then as small as they get.
Blocks blocks_of(std::int64_t length, std::int64_t wanted);

// All padded to blocks: rows [q.padded()], positions [kv.padded()], segments
// [B, ...] (0 in padding) or invalid, tile [q.padded(), kv.padded()] or
// invalid.
struct BlockTableInputs {
  Blocks q, kv;
  std::vector<RowIntervals> rows;
  graph::Value kv_positions_T;
  graph::Value q_segments_BS, kv_segments_BT;
  graph::Value tile_ST;
};

// Lists of key blocks in the form of jumps: entry [n, i, j] is the smallest key
// block >= j that is on the list of query block i, or kv.count for none; int32
// [N, q.count, kv.count + 1]. N is B with segments, else 1.
struct BlockTable {
  graph::Value full;     // all pairs visible
  graph::Value partial;  // some pairs may be
};
BlockTable make_block_table(const BlockTableInputs& inputs);

}  // namespace ringmax::attention

#endif  // RINGMAX_ATTENTION_BLOCK_TABLE_H_
