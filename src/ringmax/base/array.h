// Dense row-major arrays on the host. A HostArray is a shared handle: copies
// see the same bytes; clone() makes new ones.
#ifndef RINGMAX_BASE_ARRAY_H_
#define RINGMAX_BASE_ARRAY_H_

#include <cstddef>
#include <memory>
#include <span>

#include "ringmax/base/error.h"
#include "ringmax/base/shape.h"

namespace ringmax {

class HostArray {
 public:
  HostArray() = default;
  // Zero-filled, 64-byte aligned.
  explicit HostArray(Shape shape);
  // Views bytes owned by `owner` (an mmap, say); `bytes` must be
  // shape.bytes() long. The view is read-only by convention.
  HostArray(Shape shape, std::shared_ptr<std::byte> bytes);

  template <typename T>
  static HostArray from(Dims dims, std::span<const T> values) {
    HostArray array(Shape(dtype_of<T>(), std::move(dims)));
    std::span<T> to = array.data<T>();
    if (to.size() != values.size()) {
      fail_invalid("array of shape {} needs {} values, got {}",
                   array.shape().to_string(), to.size(), values.size());
    }
    std::copy(values.begin(), values.end(), to.begin());
    return array;
  }

  const Shape& shape() const { return shape_; }
  std::span<std::byte> bytes();
  std::span<const std::byte> bytes() const;

  // Typed view; throws kInvalidArgument when T is not the array's dtype.
  // bfloat16 is read with raw<std::uint16_t>().
  template <typename T>
  std::span<T> data() {
    check_dtype(dtype_of<T>());
    return raw<T>();
  }
  template <typename T>
  std::span<const T> data() const {
    check_dtype(dtype_of<T>());
    return raw<T>();
  }
  template <typename T>
  std::span<T> raw() {
    return {reinterpret_cast<T*>(bytes_.get()),
            static_cast<std::size_t>(shape_.bytes()) / sizeof(T)};
  }
  template <typename T>
  std::span<const T> raw() const {
    return {reinterpret_cast<const T*>(bytes_.get()),
            static_cast<std::size_t>(shape_.bytes()) / sizeof(T)};
  }

  HostArray clone() const;
  // Value-converted copy between float types and integers (not bool).
  HostArray convert(DType dtype) const;

 private:
  void check_dtype(DType dtype) const;

  Shape shape_;
  std::shared_ptr<std::byte> bytes_;
};

}  // namespace ringmax

#endif  // RINGMAX_BASE_ARRAY_H_
