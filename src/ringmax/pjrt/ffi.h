// Registering native kernels that a program calls by name:
//   stablehlo.custom_call @name(...) {api_version = 4 : i32, ...}
//
// Source: xla/ffi/api/c_api.h and the FFI extension (type 5) of the PJRT C API.
#ifndef RINGMAX_PJRT_FFI_H_
#define RINGMAX_PJRT_FFI_H_

#include <string>

#include "ringmax/pjrt/plugin.h"

namespace ringmax::pjrt {

// Registers `handler`, an XLA_FFI_Handler*, for all clients of the plugin, on
// XLA's platform `platform` ("Host" is the CPU). It must live as long as the
// process. Throws kUnimplemented when the plugin has no FFI extension, and the
// plugin's error when the name is taken.
void register_ffi_handler(const Plugin& plugin, const std::string& name,
                          void* handler, const std::string& platform = "Host");

}  // namespace ringmax::pjrt

#endif  // RINGMAX_PJRT_FFI_H_
