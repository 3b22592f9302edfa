// Reverse-mode gradients of a graph, as more nodes of the same graph.
#ifndef RINGMAX_GRAPH_GRADIENT_H_
#define RINGMAX_GRAPH_GRADIENT_H_

#include <vector>

#include "ringmax/graph/control.h"
#include "ringmax/graph/graph.h"

namespace ringmax::graph {

// Gradients of the float scalar `loss` with respect to `wrt`, all of the
// current block; zeros where the loss does not depend on one. Throws
// kInvalidArgument when the path passes an op without a rule (naming the op and
// its scope).
Values gradient(Value loss, const Values& wrt);

// Vector-Jacobian product: cotangents of `wrt` given those of `outputs`.
Values vjp(const Values& outputs, const Values& cotangents, const Values& wrt);

}  // namespace ringmax::graph

#endif  // RINGMAX_GRAPH_GRADIENT_H_
