// The kernel of attention/cpu as a Backend: FFI calls in the program.
#ifndef RINGMAX_ATTENTION_NATIVE_H_
#define RINGMAX_ATTENTION_NATIVE_H_

#include <string>

#include "ringmax/attention/backend.h"

namespace ringmax::attention {

// Needs a CPU target whose plugin takes FFI kernels, and that they are
// registered (train/native_kernels.h).
const Backend& native_backend();

// The devices along a mesh axis make one call over all their queries and keys,
// where they lie (cpu/together.h); each passes its own shards and gets its own
// rows. Positions are those of the shards; a tile has the keys of all devices.
// Bits do not depend on their number, nor on the layout.
KernelPartial forward_together(const KernelRequest& request,
                               const KernelOperands& operands,
                               const std::string& axis);
KernelGradients backward_together(const KernelRequest& request,
                                  const KernelOperands& operands,
                                  graph::Value dout_BKGSV,
                                  graph::Value lse_BKGS,
                                  graph::Value delta_BKGS,
                                  const std::string& axis);

}  // namespace ringmax::attention

#endif  // RINGMAX_ATTENTION_NATIVE_H_
