// Lowers a kernel to Mosaic, the kernel dialect of the TPU compiler.
//
// The text is MLIR in generic form under the stable_mosaic prefix, which libtpu
// reads without any MLIR library on our side. Source: what the compiler accepts
// and prints; docs/kernels.md describes the main function and its attributes.
#ifndef RINGMAX_KERNEL_MOSAIC_H_
#define RINGMAX_KERNEL_MOSAIC_H_

#include <string>

#include "ringmax/graph/control.h"
#include "ringmax/kernel/kernel.h"

namespace ringmax::kernel {

// Version of the stable dialect that the text is written in.
inline constexpr int kMosaicVersion = 15;

// The module that the custom call carries.
std::string mosaic_text(const Kernel& kernel);
// The custom call's backend_config: JSON with the module in base64, the cost
// estimate and the VMEM limit.
std::string mosaic_config(const Kernel& kernel);
// Takes operands of the right shapes; see call().
graph::Values call_mosaic(const Kernel& kernel, const graph::Values& operands);

}  // namespace ringmax::kernel

#endif  // RINGMAX_KERNEL_MOSAIC_H_
