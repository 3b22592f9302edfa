#include "ringmax/base/dtype.h"

#include <array>
#include <bit>

#include "ringmax/base/error.h"

namespace ringmax {
namespace {

struct Entry {
  DType dtype;
  std::size_t size;
  std::string_view name;
  std::string_view mlir;
  std::string_view safetensors;
};

constexpr std::array<Entry, 13> kTable = {{
    {DType::kBool, 1, "bool", "i1", "BOOL"},
    {DType::kI8, 1, "int8", "i8", "I8"},
    {DType::kU8, 1, "uint8", "ui8", "U8"},
    {DType::kI16, 2, "int16", "i16", "I16"},
    {DType::kU16, 2, "uint16", "ui16", "U16"},
    {DType::kI32, 4, "int32", "i32", "I32"},
    {DType::kU32, 4, "uint32", "ui32", "U32"},
    {DType::kI64, 8, "int64", "i64", "I64"},
    {DType::kU64, 8, "uint64", "ui64", "U64"},
    {DType::kF16, 2, "float16", "f16", "F16"},
    {DType::kBF16, 2, "bfloat16", "bf16", "BF16"},
    {DType::kF32, 4, "float32", "f32", "F32"},
    {DType::kF64, 8, "float64", "f64", "F64"},
}};

const Entry& entry(DType dtype) {
  const Entry& e = kTable.at(static_cast<std::size_t>(dtype));
  RINGMAX_CHECK(e.dtype == dtype);
  return e;
}

}  // namespace

std::size_t dtype_size(DType dtype) { return entry(dtype).size; }
std::string_view dtype_name(DType dtype) { return entry(dtype).name; }
std::string_view dtype_mlir_name(DType dtype) { return entry(dtype).mlir; }
std::string_view dtype_safetensors_name(DType dtype) {
  return entry(dtype).safetensors;
}

std::optional<DType> parse_dtype(std::string_view name) {
  for (const Entry& e : kTable) {
    if (e.name == name) return e.dtype;
  }
  return std::nullopt;
}

std::optional<DType> parse_safetensors_dtype(std::string_view name) {
  for (const Entry& e : kTable) {
    if (e.safetensors == name) return e.dtype;
  }
  return std::nullopt;
}

bool is_float(DType dtype) { return dtype >= DType::kF16; }

bool is_signed_int(DType dtype) {
  return dtype == DType::kI8 || dtype == DType::kI16 || dtype == DType::kI32 ||
         dtype == DType::kI64;
}

bool is_unsigned_int(DType dtype) {
  return dtype == DType::kU8 || dtype == DType::kU16 || dtype == DType::kU32 ||
         dtype == DType::kU64;
}

std::uint16_t float_to_bf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) {
    // Keep the sign and make the NaN quiet; rounding could carry it to inf.
    return static_cast<std::uint16_t>((bits >> 16) | 0x0040u);
  }
  const std::uint32_t rounding = 0x7fffu + ((bits >> 16) & 1u);
  return static_cast<std::uint16_t>((bits + rounding) >> 16);
}

float bf16_to_float(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

}  // namespace ringmax
