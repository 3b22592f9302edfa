#include "ringmax/base/array.h"

#include <cstdlib>
#include <cstring>
#include <utility>

namespace ringmax {
namespace {

constexpr std::size_t kAlignment = 64;

std::shared_ptr<std::byte> allocate(std::size_t size) {
  const std::size_t rounded = (size + kAlignment) / kAlignment * kAlignment;
  auto* p = static_cast<std::byte*>(std::aligned_alloc(kAlignment, rounded));
  if (p == nullptr) throw std::bad_alloc();
  std::memset(p, 0, rounded);
  return {p, [](std::byte* q) { std::free(q); }};
}

// Calls visit with a pointer of the element type that stores `dtype`, and
// functions between it and double.
double load(const std::byte* p, DType dtype) {
  const auto read = [p]<typename T>(T) {
    T value;
    std::memcpy(&value, p, sizeof(T));
    return value;
  };
  switch (dtype) {
    case DType::kBool:
    case DType::kU8:
      return read(std::uint8_t{});
    case DType::kI8:
      return read(std::int8_t{});
    case DType::kI16:
      return read(std::int16_t{});
    case DType::kU16:
      return read(std::uint16_t{});
    case DType::kI32:
      return read(std::int32_t{});
    case DType::kU32:
      return read(std::uint32_t{});
    case DType::kI64:
      return static_cast<double>(read(std::int64_t{}));
    case DType::kU64:
      return static_cast<double>(read(std::uint64_t{}));
    case DType::kBF16:
      return bf16_to_float(read(std::uint16_t{}));
    case DType::kF32:
      return read(float{});
    case DType::kF64:
      return read(double{});
    case DType::kF16:
      break;
  }
  fail(ErrorCode::kUnimplemented, "converting {} arrays on the host",
       dtype_name(dtype));
}

void store(std::byte* p, DType dtype, double value) {
  const auto write = [p]<typename T>(T v) { std::memcpy(p, &v, sizeof(T)); };
  switch (dtype) {
    case DType::kBool:
      return write(static_cast<std::uint8_t>(value != 0));
    case DType::kU8:
      return write(static_cast<std::uint8_t>(value));
    case DType::kI8:
      return write(static_cast<std::int8_t>(value));
    case DType::kI16:
      return write(static_cast<std::int16_t>(value));
    case DType::kU16:
      return write(static_cast<std::uint16_t>(value));
    case DType::kI32:
      return write(static_cast<std::int32_t>(value));
    case DType::kU32:
      return write(static_cast<std::uint32_t>(value));
    case DType::kI64:
      return write(static_cast<std::int64_t>(value));
    case DType::kU64:
      return write(static_cast<std::uint64_t>(value));
    case DType::kBF16:
      return write(float_to_bf16(static_cast<float>(value)));
    case DType::kF32:
      return write(static_cast<float>(value));
    case DType::kF64:
      return write(value);
    case DType::kF16:
      break;
  }
  fail(ErrorCode::kUnimplemented, "converting to {} arrays on the host",
       dtype_name(dtype));
}

}  // namespace

HostArray::HostArray(Shape shape)
    : shape_(std::move(shape)),
      bytes_(allocate(static_cast<std::size_t>(shape_.bytes()))) {}

HostArray::HostArray(Shape shape, std::shared_ptr<std::byte> bytes)
    : shape_(std::move(shape)), bytes_(std::move(bytes)) {}

std::span<std::byte> HostArray::bytes() { return raw<std::byte>(); }
std::span<const std::byte> HostArray::bytes() const { return raw<std::byte>(); }

HostArray HostArray::clone() const {
  HostArray copy(shape_);
  std::memcpy(copy.bytes_.get(), bytes_.get(), bytes().size());
  return copy;
}

HostArray HostArray::convert(DType dtype) const {
  if (dtype == shape_.dtype) return clone();
  HostArray result(Shape(dtype, shape_.dims));
  const std::size_t from_size = dtype_size(shape_.dtype);
  const std::size_t to_size = dtype_size(dtype);
  const auto count = static_cast<std::size_t>(shape_.elements());
  for (std::size_t i = 0; i < count; ++i) {
    store(result.bytes_.get() + i * to_size, dtype,
          load(bytes_.get() + i * from_size, shape_.dtype));
  }
  return result;
}

void HostArray::check_dtype(DType dtype) const {
  if (dtype != shape_.dtype) {
    fail_invalid("array holds {}, read as {}", dtype_name(shape_.dtype),
                 dtype_name(dtype));
  }
}

}  // namespace ringmax
