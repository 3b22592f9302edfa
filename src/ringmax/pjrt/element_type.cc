#include "ringmax/pjrt/element_type.h"

#include <utility>

#include "ringmax/base/error.h"

namespace ringmax::pjrt {
namespace {

constexpr std::pair<DType, PJRT_Buffer_Type> kTypes[] = {
    {DType::kBool, PJRT_Buffer_Type_PRED}, {DType::kI8, PJRT_Buffer_Type_S8},
    {DType::kU8, PJRT_Buffer_Type_U8},     {DType::kI16, PJRT_Buffer_Type_S16},
    {DType::kU16, PJRT_Buffer_Type_U16},   {DType::kI32, PJRT_Buffer_Type_S32},
    {DType::kU32, PJRT_Buffer_Type_U32},   {DType::kI64, PJRT_Buffer_Type_S64},
    {DType::kU64, PJRT_Buffer_Type_U64},   {DType::kF16, PJRT_Buffer_Type_F16},
    {DType::kBF16, PJRT_Buffer_Type_BF16}, {DType::kF32, PJRT_Buffer_Type_F32},
    {DType::kF64, PJRT_Buffer_Type_F64},
};

}  // namespace

PJRT_Buffer_Type to_element_type(DType dtype) {
  for (const auto& [ours, theirs] : kTypes) {
    if (ours == dtype) return theirs;
  }
  fail(ErrorCode::kInternal, "dtype {} has no PJRT element type",
       dtype_name(dtype));
}

DType from_element_type(PJRT_Buffer_Type type) {
  for (const auto& [ours, theirs] : kTypes) {
    if (theirs == type) return ours;
  }
  fail(ErrorCode::kUnimplemented,
       "a buffer has PJRT element type {}, which RingMax does not know",
       static_cast<int>(type));
}

}  // namespace ringmax::pjrt
