// Rows of the caller's arrays, as the kernels read and write them.
// Included once per instruction set; no include guard in the usual sense.
#if defined(RINGMAX_ATTENTION_CPU_ROWS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef RINGMAX_ATTENTION_CPU_ROWS_INL_H_
#undef RINGMAX_ATTENTION_CPU_ROWS_INL_H_
#else
#define RINGMAX_ATTENTION_CPU_ROWS_INL_H_
#endif

#include <hwy/highway.h>

#include <cstdint>

#include "ringmax/attention/cpu/kernel.h"
#include "ringmax/attention/cpu/math-inl.h"
#include "ringmax/attention/cpu/product-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ringmax::attention::cpu::HWY_NAMESPACE {

// Logits are kept in base 2.
inline constexpr double kLog2E = 1.4426950408889634;
inline constexpr double kLn2 = 0.6931471805599453;

template <typename T>
const T* row_at(const ConstRows& x, std::int64_t batch, std::int64_t head,
                std::int64_t row) {
  return static_cast<const T*>(x.data) + batch * x.batch + head * x.head +
         row * x.row;
}

inline float* row_at(const FloatRows& x, std::int64_t batch, std::int64_t head,
                     std::int64_t row) {
  return x.data + batch * x.batch + head * x.head + row * x.row;
}

}  // namespace ringmax::attention::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
