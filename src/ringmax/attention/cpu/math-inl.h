// Vector functions of the attention kernels: exp2 and tanh.
// Included once per instruction set; no include guard in the usual sense.
#if defined(RINGMAX_ATTENTION_CPU_MATH_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef RINGMAX_ATTENTION_CPU_MATH_INL_H_
#undef RINGMAX_ATTENTION_CPU_MATH_INL_H_
#else
#define RINGMAX_ATTENTION_CPU_MATH_INL_H_
#endif

#include <hwy/highway.h>

#include <cstddef>

HWY_BEFORE_NAMESPACE();
namespace ringmax::attention::cpu::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using FloatTag = hn::ScalableTag<float>;
using IntTag = hn::RebindToSigned<FloatTag>;
using Vec = hn::Vec<FloatTag>;
using IntVec = hn::Vec<IntTag>;
using Truth = hn::Mask<FloatTag>;
inline constexpr std::ptrdiff_t kLanes = HWY_LANES(float);

// 2^x for x < 128; 0 below 2^-126, -inf included. Relative error at most 2^-23
// (1 ulp; a test walks the floats). x = n + f with |f| <= 1/2; n moves into
// the exponent, 2^f is the minimax polynomial of degree 6.
HWY_INLINE Vec exp2(Vec x) {
  const FloatTag d;
  const IntTag di;
  // Below this n would be less than -127; 2^-127 counts as 0.
  x = hn::Max(x, hn::Set(d, -127.0f));
  // Adding 1.5 * 2^23 rounds to an integer in the low bits; 127 is the bias.
  const Vec shift = hn::Set(d, 12582912.0f + 127.0f);
  const Vec moved = hn::Add(x, shift);
  const Vec f = hn::Sub(x, hn::Sub(moved, shift));
  Vec p = hn::Set(d, 1.5353362e-4f);
  p = hn::MulAdd(p, f, hn::Set(d, 0.0013398875f));
  p = hn::MulAdd(p, f, hn::Set(d, 0.0096184369f));
  p = hn::MulAdd(p, f, hn::Set(d, 0.055503324f));
  p = hn::MulAdd(p, f, hn::Set(d, 0.24022648f));
  p = hn::MulAdd(p, f, hn::Set(d, 0.69314718f));
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

}  // namespace ringmax::attention::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
