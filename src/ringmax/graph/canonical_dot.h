// Plans how a contraction reaches XLA: as few dimensions as its meaning allows.
//
// XLA:CPU has a fast path for two-dimensional dots only; a leading batch
// dimension of size 1 doubles the time of a whole training step. The plan is
// reshape operands -> smaller dot -> reshape result, all of them bitcasts. It
// never transposes, and it says nothing about text.
#ifndef RINGMAX_GRAPH_CANONICAL_DOT_H_
#define RINGMAX_GRAPH_CANONICAL_DOT_H_

#include "ringmax/base/shape.h"
#include "ringmax/graph/op.h"

namespace ringmax::graph {

struct DotPlan {
  Dims lhs, rhs;  // operand shapes of the dot
  DotAttr attr;
  Dims result;  // of the dot: batch, lhs free, rhs free
};

// Drops dimensions of size 1. With `merge`, also makes one dimension of
// neighbours of one kind: free ones of an operand, and batch or contracted ones
// that are neighbours in the same order in both operands. Merging hides a
// dimension from the partitioner, so it is for whole (unpartitioned) tensors.
DotPlan plan_dot(const Dims& lhs, const Dims& rhs, const DotAttr& attr,
                 bool merge);

}  // namespace ringmax::graph

#endif  // RINGMAX_GRAPH_CANONICAL_DOT_H_
