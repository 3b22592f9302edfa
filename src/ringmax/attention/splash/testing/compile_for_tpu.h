// For tests: compiles both splash kernels of a request for a TPU that is not
// here.
#ifndef RINGMAX_ATTENTION_SPLASH_TESTING_COMPILE_FOR_TPU_H_
#define RINGMAX_ATTENTION_SPLASH_TESTING_COMPILE_FOR_TPU_H_

#include <string>

#include "ringmax/attention/backend.h"

namespace ringmax::attention::splash::testing {

// Causal, grouped heads, lengths that are no multiple of a block.
KernelRequest splash_request(DType dtype, std::int64_t head_dim);

// The compiler's complaint; empty when it accepts forward and backward.
// `topology` is libtpu's name.
std::string compile_for_tpu(const std::string& topology,
                            const KernelRequest& request);

}  // namespace ringmax::attention::splash::testing

#endif  // RINGMAX_ATTENTION_SPLASH_TESTING_COMPILE_FOR_TPU_H_
