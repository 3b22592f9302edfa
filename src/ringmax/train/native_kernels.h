// Makes the native attention kernel callable from programs of a plugin.
#ifndef RINGMAX_TRAIN_NATIVE_KERNELS_H_
#define RINGMAX_TRAIN_NATIVE_KERNELS_H_

#include "ringmax/pjrt/plugin.h"

namespace ringmax::train {

// Registers the kernels with the plugin, once a process; to be called before a
// program that names them is compiled or loaded. False, and a line in the log,
// when the plugin takes no FFI kernels: hw::Target::has_ffi has to say so.
bool register_native_kernels(const pjrt::Plugin& plugin);

}  // namespace ringmax::train

#endif  // RINGMAX_TRAIN_NATIVE_KERNELS_H_
