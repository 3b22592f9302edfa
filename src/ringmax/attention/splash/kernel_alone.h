// A splash kernel as a program of its own, for the compiler to show what it
// makes of one: without what surrounds it, in seconds.
#ifndef RINGMAX_ATTENTION_SPLASH_KERNEL_ALONE_H_
#define RINGMAX_ATTENTION_SPLASH_KERNEL_ALONE_H_

#include <string>

#include "ringmax/attention/splash/kernel_spec.h"

namespace ringmax::attention::splash {

// StableHLO for one device, of splash_forward or splash_backward; operands are
// parameters, results results. The compiler names the instruction
// kernel_alone.1.
std::string kernel_alone(const KernelSpec& spec, bool backward);

}  // namespace ringmax::attention::splash

#endif  // RINGMAX_ATTENTION_SPLASH_KERNEL_ALONE_H_
