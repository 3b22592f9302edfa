// Dense tensor shapes: a dtype and dimension sizes. No layout, no sharding.
#ifndef RINGMAX_BASE_SHAPE_H_
#define RINGMAX_BASE_SHAPE_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "ringmax/base/dtype.h"

namespace ringmax {

using Dims = std::vector<std::int64_t>;

// Product of the sizes; 1 for a scalar. Throws kInvalidArgument on a negative
// size or when the product does not fit in 63 bits.
std::int64_t element_count(const Dims& dims);
// "[2,3]".
std::string dims_string(const Dims& dims);

struct Shape {
  DType dtype = DType::kF32;
  Dims dims;

  Shape() = default;
  Shape(DType dtype_in, Dims dims_in)
      : dtype(dtype_in), dims(std::move(dims_in)) {}

  std::int64_t rank() const { return static_cast<std::int64_t>(dims.size()); }
  std::int64_t elements() const { return element_count(dims); }
  std::int64_t bytes() const;
  // "f32[2,3]".
  std::string to_string() const;

  friend bool operator==(const Shape&, const Shape&) = default;
};

}  // namespace ringmax

#endif  // RINGMAX_BASE_SHAPE_H_
