// The kernel of attention/cpu as a Backend: FFI calls in the program.
#ifndef RINGMAX_ATTENTION_NATIVE_H_
#define RINGMAX_ATTENTION_NATIVE_H_

#include "ringmax/attention/backend.h"

namespace ringmax::attention {

// Needs a CPU target whose plugin takes FFI kernels, and that they are
// registered (train/native_kernels.h).
const Backend& native_backend();

}  // namespace ringmax::attention

#endif  // RINGMAX_ATTENTION_NATIVE_H_
