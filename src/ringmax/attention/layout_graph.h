// Layouts inside a program: the positions of a stretch of slots.
#ifndef RINGMAX_ATTENTION_LAYOUT_GRAPH_H_
#define RINGMAX_ATTENTION_LAYOUT_GRAPH_H_

#include <cstdint>

#include "ringmax/attention/layout.h"
#include "ringmax/graph/graph.h"

namespace ringmax::attention {

// The positions of `count` slots from `first` on, where slots are counted shard
// after shard; -1 for padding. `first` is an int32 scalar; int32 [count].
graph::Value slot_positions(const Layout& layout, graph::Value first,
                            std::int64_t count);

}  // namespace ringmax::attention

#endif  // RINGMAX_ATTENTION_LAYOUT_GRAPH_H_
