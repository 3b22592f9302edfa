// PJRT's element types and ours; for the sources of this room only.
#ifndef RINGMAX_PJRT_ELEMENT_TYPE_H_
#define RINGMAX_PJRT_ELEMENT_TYPE_H_

#include <pjrt_c_api.h>

#include <string_view>

#include "ringmax/base/dtype.h"

namespace ringmax::pjrt {

inline constexpr std::string_view kMlirFormat = "mlir";

PJRT_Buffer_Type to_element_type(DType dtype);
// Throws kUnimplemented for types that RingMax does not know (complex, fp8).
DType from_element_type(PJRT_Buffer_Type type);

}  // namespace ringmax::pjrt

#endif  // RINGMAX_PJRT_ELEMENT_TYPE_H_
