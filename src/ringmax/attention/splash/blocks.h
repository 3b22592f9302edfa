// Block sizes of the splash kernels: what a request asks for, or, where it
// leaves MaxText's default of 512, what measures best on TPUs; then smaller
// until windows and scratch fit the memory of the chip.
#ifndef RINGMAX_ATTENTION_SPLASH_BLOCKS_H_
#define RINGMAX_ATTENTION_SPLASH_BLOCKS_H_

#include "ringmax/attention/backend.h"
#include "ringmax/attention/splash/kernel_spec.h"

namespace ringmax::attention::splash {

// Throw kInvalidArgument, naming the settings and what would fit, when blocks
// that somebody asked for do not fit request.vmem_bytes; kResourceExhausted,
// with the figures, when not even the smallest do.
KernelSpec forward_spec(const KernelRequest& request);
// Its `keys` may be less than the request's: then the kernel is called in a
// loop, for one run of so many keys after the other, dq staying in place.
KernelSpec backward_spec(const KernelRequest& request);

}  // namespace ringmax::attention::splash

#endif  // RINGMAX_ATTENTION_SPLASH_BLOCKS_H_
