#include "ringmax/base/shape.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "ringmax/base/error.h"

namespace ringmax {

std::int64_t element_count(const Dims& dims) {
  std::int64_t product = 1;
  for (const std::int64_t d : dims) {
    if (d < 0) fail_invalid("shape {} has a negative size", dims_string(dims));
    if (__builtin_mul_overflow(product, d, &product)) {
      fail_invalid("shape {} has more than 2^63 elements", dims_string(dims));
    }
  }
  return product;
}

std::string dims_string(const Dims& dims) {
  return fmt::format("[{}]", fmt::join(dims, ","));
}

std::int64_t Shape::bytes() const {
  std::int64_t product = 0;
  if (__builtin_mul_overflow(
          elements(), static_cast<std::int64_t>(dtype_size(dtype)), &product)) {
    fail_invalid("shape {} has more than 2^63 bytes", to_string());
  }
  return product;
}

std::string Shape::to_string() const {
  return fmt::format("{}{}", dtype_mlir_name(dtype), dims_string(dims));
}

}  // namespace ringmax
