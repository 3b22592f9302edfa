// Element types of tensors, with the names used by config files ("bfloat16"),
// by MLIR ("bf16") and by safetensors ("BF16").
#ifndef RINGMAX_BASE_DTYPE_H_
#define RINGMAX_BASE_DTYPE_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace ringmax {

enum class DType : std::uint8_t {
  kBool,
  kI8,
  kU8,
  kI16,
  kU16,
  kI32,
  kU32,
  kI64,
  kU64,
  kF16,
  kBF16,
  kF32,
  kF64,
};

// Bytes of one element on the host; kBool takes one byte.
std::size_t dtype_size(DType dtype);
// "float32", "bfloat16", "int32", "bool".
std::string_view dtype_name(DType dtype);
// "f32", "bf16", "i32", "ui32", "i1".
std::string_view dtype_mlir_name(DType dtype);
// "F32", "BF16", "I32", "BOOL".
std::string_view dtype_safetensors_name(DType dtype);
// Accepts dtype_name spellings; nullopt when unknown.
std::optional<DType> parse_dtype(std::string_view name);
std::optional<DType> parse_safetensors_dtype(std::string_view name);

bool is_float(DType dtype);
bool is_signed_int(DType dtype);
bool is_unsigned_int(DType dtype);
inline bool is_integer(DType dtype) {
  return is_signed_int(dtype) || is_unsigned_int(dtype);
}

// bfloat16 as raw bits: round to nearest even, NaN stays NaN.
std::uint16_t float_to_bf16(float value);
float bf16_to_float(std::uint16_t bits);

// The DType of a C++ element type. bfloat16 has no C++ type here: use
// std::uint16_t storage with the two functions above.
template <typename T>
constexpr DType dtype_of();
template <>
constexpr DType dtype_of<bool>() {
  return DType::kBool;
}
template <>
constexpr DType dtype_of<std::int8_t>() {
  return DType::kI8;
}
template <>
constexpr DType dtype_of<std::uint8_t>() {
  return DType::kU8;
}
template <>
constexpr DType dtype_of<std::int32_t>() {
  return DType::kI32;
}
template <>
constexpr DType dtype_of<std::uint32_t>() {
  return DType::kU32;
}
template <>
constexpr DType dtype_of<std::int64_t>() {
  return DType::kI64;
}
template <>
constexpr DType dtype_of<std::uint64_t>() {
  return DType::kU64;
}
template <>
constexpr DType dtype_of<float>() {
  return DType::kF32;
}
template <>
constexpr DType dtype_of<double>() {
  return DType::kF64;
}

}  // namespace ringmax

#endif  // RINGMAX_BASE_DTYPE_H_
