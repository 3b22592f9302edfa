// Vector helpers of the attention kernels: exp2, tanh, transposes.
// Included once per instruction set; no include guard in the usual sense.
#if defined(RINGMAX_ATTENTION_CPU_MATH_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef RINGMAX_ATTENTION_CPU_MATH_INL_H_
#undef RINGMAX_ATTENTION_CPU_MATH_INL_H_
#else
#define RINGMAX_ATTENTION_CPU_MATH_INL_H_
#endif

#include <hwy/highway.h>

#include <cstddef>
#include <cstdint>

#include "ringmax/base/dtype.h"

HWY_BEFORE_NAMESPACE();
namespace ringmax::attention::cpu::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using FloatTag = hn::ScalableTag<float>;
using IntTag = hn::RebindToSigned<FloatTag>;
using Vec = hn::Vec<FloatTag>;
using IntVec = hn::Vec<IntTag>;
using Truth = hn::Mask<FloatTag>;
inline constexpr std::ptrdiff_t kLanes = HWY_LANES(float);

// 2^x for x < 128; 0 below 2^-126, -inf included. Relative error at most 2^-22
// (2 ulp; a test walks the floats). x = n + f with |f| <= 1/2; n moves into
// the exponent, 2^f is the minimax polynomial of degree 5.
HWY_INLINE Vec exp2(Vec x) {
  const FloatTag d;
  const IntTag di;
  // Below this n would be less than -127; 2^-127 counts as 0.
  x = hn::Max(x, hn::Set(d, -127.0f));
  // Adding 1.5 * 2^23 rounds to an integer in the low bits; 127 is the bias.
  const Vec shift = hn::Set(d, 12582912.0f + 127.0f);
  const Vec moved = hn::Add(x, shift);
  const Vec f = hn::Sub(x, hn::Sub(moved, shift));
  Vec p = hn::Set(d, 0.0013264727f);
  p = hn::MulAdd(p, f, hn::Set(d, 0.0096715126f));
  p = hn::MulAdd(p, f, hn::Set(d, 0.055507337f));
  p = hn::MulAdd(p, f, hn::Set(d, 0.24022242f));
  p = hn::MulAdd(p, f, hn::Set(d, 0.69314698f));
  p = hn::MulAdd(p, f, hn::Set(d, 1.0f));
  const Vec power = hn::BitCast(d, hn::ShiftLeft<23>(hn::BitCast(di, moved)));
  return hn::Mul(p, power);
}

// Relative error at most 2^-21. Odd polynomial near 0, where 1 - 2/(e^2x + 1)
// would cancel.
HWY_INLINE Vec tanh(Vec x) {
  const FloatTag d;
  const Vec ax = hn::Min(hn::Abs(x), hn::Set(d, 20.0f));
  const Vec e = exp2(hn::Mul(ax, hn::Set(d, 2.8853900817779268f)));
  const Vec one = hn::Set(d, 1.0f);
  const Vec far = hn::Sub(one, hn::Div(hn::Set(d, 2.0f), hn::Add(e, one)));
  const Vec y = hn::Mul(ax, ax);
  Vec p = hn::Set(d, -0.0056669695f);
  p = hn::MulAdd(p, y, hn::Set(d, 0.020606170f));
  p = hn::MulAdd(p, y, hn::Set(d, -0.053730005f));
  p = hn::MulAdd(p, y, hn::Set(d, 0.13331331f));
  p = hn::MulAdd(p, y, hn::Set(d, -0.33333278f));
  const Vec near = hn::MulAdd(hn::Mul(p, y), ax, ax);
  const Vec size = hn::IfThenElse(hn::Lt(ax, hn::Set(d, 0.625f)), near, far);
  return hn::CopySign(size, x);
}

// One element as float32; uint16_t holds bfloat16.
HWY_INLINE float load1(float x) { return x; }
HWY_INLINE float load1(std::uint16_t x) { return bf16_to_float(x); }

// Four neighbours of a row as float32.
#if HWY_TARGET != HWY_SCALAR
using Tag4 = hn::FixedTag<float, 4>;
HWY_INLINE hn::Vec<Tag4> load4(const float* p) { return hn::LoadU(Tag4(), p); }
HWY_INLINE hn::Vec<Tag4> load4(const std::uint16_t* p) {
  const hn::FixedTag<std::uint32_t, 4> du;
  const auto half = hn::LoadU(hn::Rebind<std::uint16_t, decltype(du)>(), p);
  return hn::BitCast(Tag4(), hn::ShiftLeft<16>(hn::PromoteTo(du, half)));
}
#endif

// to[c * to_row + r] = factor * from[r * from_row + c]; r < rows, c < columns.
template <typename T>
HWY_NOINLINE void transpose(const T* HWY_RESTRICT from, std::ptrdiff_t from_row,
                            std::ptrdiff_t rows, std::ptrdiff_t columns,
                            float factor, float* HWY_RESTRICT to,
                            std::ptrdiff_t to_row) {
#if HWY_TARGET == HWY_SCALAR
  constexpr std::ptrdiff_t whole_rows = 0;
  constexpr std::ptrdiff_t whole_columns = 0;
#else
  const Tag4 d;
  const auto f = hn::Set(d, factor);
  const std::ptrdiff_t whole_rows = rows & ~std::ptrdiff_t{3};
  const std::ptrdiff_t whole_columns = columns & ~std::ptrdiff_t{3};
  for (std::ptrdiff_t r = 0; r < whole_rows; r += 4) {
    for (std::ptrdiff_t c = 0; c < whole_columns; c += 4) {
      const T* p = from + r * from_row + c;
      const auto a = load4(p);
      const auto b = load4(p + from_row);
      const auto e = load4(p + 2 * from_row);
      const auto g = load4(p + 3 * from_row);
      const auto ae = hn::InterleaveLower(d, a, e);
      const auto AE = hn::InterleaveUpper(d, a, e);
      const auto bg = hn::InterleaveLower(d, b, g);
      const auto BG = hn::InterleaveUpper(d, b, g);
      float* q = to + c * to_row + r;
      hn::StoreU(hn::Mul(f, hn::InterleaveLower(d, ae, bg)), d, q);
      hn::StoreU(hn::Mul(f, hn::InterleaveUpper(d, ae, bg)), d, q + to_row);
      hn::StoreU(hn::Mul(f, hn::InterleaveLower(d, AE, BG)), d, q + 2 * to_row);
      hn::StoreU(hn::Mul(f, hn::InterleaveUpper(d, AE, BG)), d, q + 3 * to_row);
    }
  }
#endif
  for (std::ptrdiff_t r = 0; r < rows; ++r) {
    const std::ptrdiff_t begin = r < whole_rows ? whole_columns : 0;
    for (std::ptrdiff_t c = begin; c < columns; ++c) {
      to[c * to_row + r] = factor * load1(from[r * from_row + c]);
    }
  }
}

// One vector of neighbours as float32.
HWY_INLINE Vec load_wide(const float* p) { return hn::LoadU(FloatTag(), p); }
HWY_INLINE Vec load_wide(const std::uint16_t* p) {
  const hn::RebindToUnsigned<FloatTag> du;
  const hn::Rebind<std::uint16_t, FloatTag> d16;
  return hn::BitCast(FloatTag(),
                     hn::ShiftLeft<16>(hn::PromoteTo(du, hn::LoadU(d16, p))));
}

// Rows as float32, without gaps.
template <typename T>
HWY_NOINLINE void widen(const T* HWY_RESTRICT from, std::ptrdiff_t from_row,
                        std::ptrdiff_t rows, std::ptrdiff_t columns,
                        float* HWY_RESTRICT to) {
  const FloatTag d;
  const std::ptrdiff_t whole = columns / kLanes * kLanes;
  for (std::ptrdiff_t r = 0; r < rows; ++r) {
    const T* p = from + r * from_row;
    float* q = to + r * columns;
    for (std::ptrdiff_t c = 0; c < whole; c += kLanes) {
      hn::StoreU(load_wide(p + c), d, q + c);
    }
    for (std::ptrdiff_t c = whole; c < columns; ++c) q[c] = load1(p[c]);
  }
}

}  // namespace ringmax::attention::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
