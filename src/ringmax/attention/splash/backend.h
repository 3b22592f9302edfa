// The two splash backends: "mosaic" compiles for TPUs alone, "mosaic_twin" runs
// the same kernels on any plugin, as the proof of the former.
#ifndef RINGMAX_ATTENTION_SPLASH_BACKEND_H_
#define RINGMAX_ATTENTION_SPLASH_BACKEND_H_

#include "ringmax/attention/backend.h"

namespace ringmax::attention::splash {

const Backend& mosaic_backend();
const Backend& mosaic_twin_backend();

}  // namespace ringmax::attention::splash

#endif  // RINGMAX_ATTENTION_SPLASH_BACKEND_H_
