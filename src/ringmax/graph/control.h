// Loops, branches, custom gradients and opaque calls.
//
// Bodies are C++ functions called once, while a nested block is open; they may
// name values of enclosing blocks freely (they are captured).
#ifndef RINGMAX_GRAPH_CONTROL_H_
#define RINGMAX_GRAPH_CONTROL_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "ringmax/graph/graph.h"

namespace ringmax::graph {

using Values = std::vector<Value>;

struct ScanOptions {
  std::int64_t length = 0;
  bool reverse = false;  // walks xs and fills stacked from the back
  // The program holds the body `length` times instead of a loop, backward too.
  bool unroll = false;
  RematPolicy remat;
};
// What a scan's body returns, and what a scan returns.
struct ScanValues {
  Values carry;
  Values stacked;  // in the result with a leading dimension of `length`
};
// body(index, carry, x): `index` is an int32 scalar 0..length-1 in walking
// order of the data (reverse counts down), `x` the slices xs[i][index].
ScanValues scan(Graph& graph, const Values& init, const Values& xs,
                const ScanOptions& options,
                const std::function<ScanValues(Value index, const Values& carry,
                                               const Values& x)>& body);

// Runs body once under a remat policy: its intermediates are computed again in
// the backward pass unless the policy keeps them.
Values checkpoint(Graph& graph, const Values& inputs, const RematPolicy& remat,
                  const std::function<Values(const Values&)>& body);

// Runs `body` while `condition` (a bool scalar) holds. Has no gradient.
Values while_loop(Graph& graph, const Values& init,
                  const std::function<Value(const Values&)>& condition,
                  const std::function<Values(const Values&)>& body);

// Both branches return the same shapes. Collectives may not stand in a branch.
Values cond(Graph& graph, Value predicate,
            const std::function<Values()>& on_true,
            const std::function<Values()>& on_false);

struct CustomVjpForward {
  Values outputs;
  Values residuals;
  // One name per residual (may be empty), for remat policies.
  std::vector<std::string> residual_names;
};
// outputs = forward(inputs); the gradient calls `backward(residuals, cotangents
// of outputs)`, which returns one cotangent per input, an invalid Value for
// inputs without one (integers, or not differentiated). Both functions must use
// only what they are given (and constants). The cotangent of an output that
// nobody uses is zeros.
Values custom_vjp(
    Graph& graph, const Values& inputs,
    const std::function<CustomVjpForward(const Values& inputs)>& forward,
    const std::function<Values(const Values& residuals,
                               const Values& cotangents)>& backward);

// An opaque kernel call (FFI on CPU, Mosaic on TPU). No gradient of its own.
Values custom_call(Graph& graph, const Values& operands,
                   std::vector<Shape> results, CustomCallAttr attr);

}  // namespace ringmax::graph

#endif  // RINGMAX_GRAPH_CONTROL_H_
