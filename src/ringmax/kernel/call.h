// Calls a kernel from a graph, by either lowering.
#ifndef RINGMAX_KERNEL_CALL_H_
#define RINGMAX_KERNEL_CALL_H_

#include "ringmax/graph/control.h"
#include "ringmax/kernel/kernel.h"

namespace ringmax::kernel {

enum class Lowering {
  kMosaic,  // a custom call that a TPU's compiler reads
  kTwin,    // plain StableHLO
};

// Operands: the walk's length (an i32 scalar) if that is dynamic, prefetched
// arrays, inputs, in the order of declaration. Results: the outputs. Throws
// kInvalidArgument when shapes do not fit.
graph::Values call(const Kernel& kernel, Lowering lowering,
                   const graph::Values& operands);

}  // namespace ringmax::kernel

#endif  // RINGMAX_KERNEL_CALL_H_
