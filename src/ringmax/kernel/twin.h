// Lowers a kernel to StableHLO: its twin, which runs on any plugin.
//
// Not a fast kernel, but an honest model of the TPU's: steps run one after the
// other; scratch, windows and outputs begin as NaN (the lowest number where
// there is no NaN), scratch again at the start of every walk, because parallel
// steps may land on different cores; a matmul rounds its operands to bfloat16
// unless float32 is asked for. What a TPU would do wrong in silence turns every
// output to NaN: an output block revisited after the walk left it, a window
// outside of its array, and aliased windows at different blocks.
#ifndef RINGMAX_KERNEL_TWIN_H_
#define RINGMAX_KERNEL_TWIN_H_

#include "ringmax/graph/control.h"
#include "ringmax/kernel/kernel.h"

namespace ringmax::kernel {

// Takes operands of the right shapes; see call().
graph::Values call_twin(const Kernel& kernel, const graph::Values& operands);

}  // namespace ringmax::kernel

#endif  // RINGMAX_KERNEL_TWIN_H_
