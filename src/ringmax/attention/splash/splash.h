// Splash attention in the kernel language, as two backends of one source:
// "mosaic" for TPUs, "mosaic_twin" on any plugin, the proof of the former.
//
// This file fits a request to the kernels: pads slots to blocks (position -1),
// lists the active blocks, calls, and cuts the padding off again.
#ifndef RINGMAX_ATTENTION_SPLASH_SPLASH_H_
#define RINGMAX_ATTENTION_SPLASH_SPLASH_H_

#include <functional>

#include "ringmax/attention/backend.h"
#include "ringmax/kernel/call.h"

namespace ringmax::attention::splash {

// How a kernel is called: by a lowering, or by a test's interpreter.
using Caller = std::function<graph::Values(const kernel::Kernel&,
                                           const graph::Values& operands)>;

KernelPartial splash_forward(const KernelRequest& request,
                             const KernelOperands& operands,
                             const Caller& caller);

// Returns `so_far` plus this pair of shards' part; see Backend::backward().
KernelGradients splash_backward(const KernelRequest& request,
                                const KernelOperands& operands,
                                graph::Value dout_BKGSV, graph::Value lse_BKGS,
                                graph::Value delta_BKGS,
                                const KernelGradients& so_far,
                                const Caller& caller);

}  // namespace ringmax::attention::splash

#endif  // RINGMAX_ATTENTION_SPLASH_SPLASH_H_
