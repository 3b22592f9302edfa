// Which blocks a walk visits, computed inside the program: from positions,
// segments and a dense tile, for any device, layout and ring step.
//
// A pair of blocks is classified by the ranges of its positions, so a block may
// be called partial that is in truth empty or full, never the other way round.
#ifndef RINGMAX_ATTENTION_SPLASH_BLOCK_LIST_H_
#define RINGMAX_ATTENTION_SPLASH_BLOCK_LIST_H_

#include <cstdint>
#include <vector>

#include "ringmax/attention/mask_graph.h"
#include "ringmax/graph/graph.h"

namespace ringmax::attention::splash {

// int32 arrays over padded slots; see backend.h and mask_graph.h.
struct SlotData {
  std::vector<RowIntervals> rows;  // of queries
  graph::Value kv_positions_T;     // -1 is padding
  graph::Value q_segments_BS;      // invalid without segments
  graph::Value kv_segments_BT;     // invalid without segments
  graph::Value tile_ST;            // int32, invalid without a tile
};

struct BlockList {
  // [lists * groups * S / block_q * windows], packed as kernel_math.h says;
  // what is beyond a list's length does nothing and stays in its last row.
  // Every query block has at least one entry, so that its output is written.
  graph::Value works, places;
  graph::Value length;  // scalar: the longest list
};

// For a walk over `groups` query heads one after the other, whose query blocks
// count on from head to head.
BlockList block_list(const SlotData& slots, std::int64_t block_q,
                     std::int64_t block_kv, std::int64_t window_parts,
                     std::int64_t groups);

}  // namespace ringmax::attention::splash

#endif  // RINGMAX_ATTENTION_SPLASH_BLOCK_LIST_H_
