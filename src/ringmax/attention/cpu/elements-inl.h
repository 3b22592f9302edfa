// What the products of the attention kernels take as one element, and how rows
// of the caller's arrays become such elements.
//
// An element is a float32, or a pair of bfloat16: neighbours along the summed
// dimension of a product, for the processors whose dot products add both to a
// float32 sum (vdpbf16ps). Pairs come from rows in two ways: neighbours of one
// row, which lie together already, or two rows, one element of each.
// Included once per instruction set; no include guard in the usual sense.
#if defined(RINGMAX_ATTENTION_CPU_ELEMENTS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef RINGMAX_ATTENTION_CPU_ELEMENTS_INL_H_
#undef RINGMAX_ATTENTION_CPU_ELEMENTS_INL_H_
#else
#define RINGMAX_ATTENTION_CPU_ELEMENTS_INL_H_
#endif

#include <hwy/highway.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "ringmax/attention/cpu/math-inl.h"
#include "ringmax/base/dtype.h"

// Whether products of pairs are compiled for this instruction set.
#undef RINGMAX_ATTENTION_CPU_PAIRS
#if HWY_TARGET == HWY_AVX3
#define RINGMAX_ATTENTION_CPU_PAIRS 1
#else
#define RINGMAX_ATTENTION_CPU_PAIRS 0
#endif

HWY_BEFORE_NAMESPACE();
namespace ringmax::attention::cpu::HWY_NAMESPACE {

// The first one in the low half.
enum class Bf16Pair : std::uint32_t {};

template <typename E>
inline constexpr bool kPairs = std::is_same_v<E, Bf16Pair>;
// Elements that hold n neighbours along a summed dimension.
template <typename E>
constexpr std::ptrdiff_t elements(std::ptrdiff_t n) {
  return kPairs<E> ? (n + 1) / 2 : n;
}

HWY_INLINE Vec load_lanes(const float* p) { return hn::LoadU(FloatTag(), p); }
HWY_INLINE Vec load_lanes(Truth lanes, const float* p) {
  return hn::MaskedLoad(lanes, FloatTag(), p);
}
HWY_INLINE Vec in_every_lane(float x) { return hn::Set(FloatTag(), x); }
HWY_INLINE Vec add_product(float, Vec a, Vec b, Vec sum) {
  return hn::MulAdd(a, b, sum);
}

// Pairs lie in the lanes of a vector of float32 as bits.
using BitsTag = hn::RebindToUnsigned<FloatTag>;
HWY_INLINE Vec load_lanes(const Bf16Pair* p) {
  return hn::BitCast(
      FloatTag(),
      hn::LoadU(BitsTag(), reinterpret_cast<const std::uint32_t*>(p)));
}
HWY_INLINE void store_lanes(Vec pairs, Bf16Pair* p) {
  hn::StoreU(hn::BitCast(BitsTag(), pairs), BitsTag(),
             reinterpret_cast<std::uint32_t*>(p));
}

#if RINGMAX_ATTENTION_CPU_PAIRS
HWY_INLINE Vec load_lanes(Truth lanes, const Bf16Pair* p) {
  const BitsTag d;
  return hn::BitCast(FloatTag(),
                     hn::MaskedLoad(hn::RebindMask(d, lanes), d,
                                    reinterpret_cast<const std::uint32_t*>(p)));
}
HWY_INLINE Vec in_every_lane(Bf16Pair x) {
  return hn::BitCast(FloatTag(),
                     hn::Set(BitsTag(), static_cast<std::uint32_t>(x)));
}
// Written as instructions: Highway 1.0 and this target's flags know neither.
HWY_INLINE Vec add_product(Bf16Pair, Vec a, Vec b, Vec sum) {
  asm("vdpbf16ps %2, %1, %0" : "+v"(sum.raw) : "v"(a.raw), "v"(b.raw));
  return sum;
}
// Both rounded to bfloat16: 16 of `first`, then 16 of `second`.
HWY_INLINE __m512i rounded(Vec first, Vec second) {
  __m512i both;
  asm("vcvtne2ps2bf16 %2, %1, %0"
      : "=v"(both)
      : "v"(second.raw), "v"(first.raw));
  return both;
}
// Lane by lane the pair of what `rounded` gave.
HWY_INLINE void store_paired(__m512i both, Bf16Pair* p) {
  const __m512i order = _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11,
                                         26, 10, 25, 9, 24, 8, 23, 7, 22, 6, 21,
                                         5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
  _mm512_storeu_si512(p, _mm512_permutexvar_epi16(order, both));
}

// Pairs of two rows' neighbours, lane by lane.
HWY_INLINE void store_pairs(Vec first, Vec second, Bf16Pair* p) {
  store_paired(rounded(first, second), p);
}
// The same, and each row by itself: pairs of its neighbours. Without `two` the
// second row is not stored.
HWY_INLINE void store_pairs_and_rows(Vec first, Vec second, bool two,
                                     Bf16Pair* p, Bf16Pair* first_row,
                                     Bf16Pair* second_row) {
  const __m512i both = rounded(first, second);
  store_paired(both, p);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(first_row),
                      _mm512_castsi512_si256(both));
  if (!two) return;
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(second_row),
                      _mm512_extracti64x4_epi64(both, 1));
}
#endif

// One element as float32; uint16_t holds bfloat16.
HWY_INLINE float load1(float x) { return x; }
HWY_INLINE float load1(std::uint16_t x) { return bf16_to_float(x); }

// Four neighbours of a row as float32.
#if HWY_TARGET != HWY_SCALAR
using Tag4 = hn::FixedTag<float, 4>;
HWY_INLINE hn::Vec<Tag4> load4(const float* p) { return hn::LoadU(Tag4(), p); }
HWY_INLINE hn::Vec<Tag4> load4(const Bf16Pair* p) {
  return hn::BitCast(Tag4(),
                     hn::LoadU(hn::FixedTag<std::uint32_t, 4>(),
                               reinterpret_cast<const std::uint32_t*>(p)));
}
HWY_INLINE hn::Vec<Tag4> load4(const std::uint16_t* p) {
  const hn::FixedTag<std::uint32_t, 4> du;
  const auto half = hn::LoadU(hn::Rebind<std::uint16_t, decltype(du)>(), p);
  return hn::BitCast(Tag4(), hn::ShiftLeft<16>(hn::PromoteTo(du, half)));
}
#endif

// to[c * to_row + r] = factor * from[r * from_row + c]; r < rows, c < columns.
// Pairs are moved as they are.
template <typename T, typename E>
HWY_NOINLINE void transpose(const T* HWY_RESTRICT from, std::ptrdiff_t from_row,
                            std::ptrdiff_t rows, std::ptrdiff_t columns,
                            float factor, E* HWY_RESTRICT to,
                            std::ptrdiff_t to_row) {
#if HWY_TARGET == HWY_SCALAR
  constexpr std::ptrdiff_t whole_rows = 0;
  constexpr std::ptrdiff_t whole_columns = 0;
#else
  const Tag4 d;
  const auto f = hn::Set(d, factor);
  const auto put = [&](hn::Vec<Tag4> v, E* at) HWY_ATTR {
    if constexpr (!kPairs<E>) v = hn::Mul(f, v);
    hn::StoreU(v, d, reinterpret_cast<float*>(at));
  };
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
      E* q = to + c * to_row + r;
      put(hn::InterleaveLower(d, ae, bg), q);
      put(hn::InterleaveUpper(d, ae, bg), q + to_row);
      put(hn::InterleaveLower(d, AE, BG), q + 2 * to_row);
      put(hn::InterleaveUpper(d, AE, BG), q + 3 * to_row);
    }
  }
#endif
  for (std::ptrdiff_t r = 0; r < rows; ++r) {
    const std::ptrdiff_t begin = r < whole_rows ? whole_columns : 0;
    for (std::ptrdiff_t c = begin; c < columns; ++c) {
      if constexpr (kPairs<E>) {
        to[c * to_row + r] = from[r * from_row + c];
      } else {
        to[c * to_row + r] = factor * load1(from[r * from_row + c]);
      }
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

// Rows [0, rows) times a factor as elements, without gaps: float32.
template <typename T>
HWY_NOINLINE void take_rows(const T* HWY_RESTRICT from, std::ptrdiff_t from_row,
                            std::ptrdiff_t rows, std::ptrdiff_t columns,
                            float factor, float* HWY_RESTRICT to) {
  const FloatTag d;
  const Vec f = hn::Set(d, factor);
  const std::ptrdiff_t whole = columns / kLanes * kLanes;
  for (std::ptrdiff_t r = 0; r < rows; ++r) {
    const T* p = from + r * from_row;
    float* q = to + r * columns;
    for (std::ptrdiff_t c = 0; c < whole; c += kLanes) {
      hn::StoreU(hn::Mul(f, load_wide(p + c)), d, q + c);
    }
    for (std::ptrdiff_t c = whole; c < columns; ++c)
      q[c] = factor * load1(p[c]);
  }
}
// Pairs of neighbours, as they are; an odd row ends with a zero.
inline void take_rows(const std::uint16_t* HWY_RESTRICT from,
                      std::ptrdiff_t from_row, std::ptrdiff_t rows,
                      std::ptrdiff_t columns, float /*factor*/,
                      Bf16Pair* HWY_RESTRICT to) {
  const std::ptrdiff_t row = elements<Bf16Pair>(columns);
  for (std::ptrdiff_t r = 0; r < rows; ++r) {
    to[r * row + row - 1] = Bf16Pair{};
    std::memcpy(to + r * row, from + r * from_row,
                static_cast<std::size_t>(columns) * sizeof(std::uint16_t));
  }
}

// Rows as elements along the number of rows: float32, or pairs of rows 2 i and
// 2 i + 1, where an odd number of rows ends with zeros. Cut into panels of
// `width` columns; element row i of a panel is at i * width, and the next panel
// begins `size` after it.
template <typename T>
HWY_NOINLINE void take_panels(const T* HWY_RESTRICT from,
                              std::ptrdiff_t from_row, std::ptrdiff_t rows,
                              std::ptrdiff_t columns, std::ptrdiff_t width,
                              std::ptrdiff_t size, float* HWY_RESTRICT to) {
  for (std::ptrdiff_t n = 0; n < columns; n += width, to += size) {
    const std::ptrdiff_t here = std::min(width, columns - n);
    const std::ptrdiff_t whole = here / kLanes * kLanes;
    for (std::ptrdiff_t r = 0; r < rows; ++r) {
      const T* p = from + r * from_row + n;
      float* q = to + r * width;
      for (std::ptrdiff_t c = 0; c < whole; c += kLanes) {
        hn::StoreU(load_wide(p + c), FloatTag(), q + c);
      }
      for (std::ptrdiff_t c = whole; c < here; ++c) q[c] = load1(p[c]);
    }
  }
}
inline void take_panels(const std::uint16_t* HWY_RESTRICT from,
                        std::ptrdiff_t from_row, std::ptrdiff_t rows,
                        std::ptrdiff_t columns, std::ptrdiff_t width,
                        std::ptrdiff_t size, Bf16Pair* HWY_RESTRICT to) {
  const BitsTag d;
  const hn::Rebind<std::uint16_t, BitsTag> d16;
  for (std::ptrdiff_t n = 0; n < columns; n += width, to += size) {
    const std::ptrdiff_t here = std::min(width, columns - n);
    const std::ptrdiff_t whole = here / kLanes * kLanes;
    for (std::ptrdiff_t r = 0; r < rows; r += 2) {
      const std::uint16_t* a = from + r * from_row + n;
      const std::uint16_t* b = r + 1 < rows ? a + from_row : nullptr;
      Bf16Pair* q = to + r / 2 * width;
      for (std::ptrdiff_t c = 0; c < whole; c += kLanes) {
        auto both = hn::PromoteTo(d, hn::LoadU(d16, a + c));
        if (b != nullptr) {
          const auto second = hn::PromoteTo(d, hn::LoadU(d16, b + c));
          both = hn::Or(both, hn::ShiftLeft<16>(second));
        }
        store_lanes(hn::BitCast(FloatTag(), both), q + c);
      }
      for (std::ptrdiff_t c = whole; c < here; ++c) {
        const std::uint32_t second = b != nullptr ? b[c] : 0;
        q[c] = static_cast<Bf16Pair>(second << 16 | a[c]);
      }
    }
  }
}

}  // namespace ringmax::attention::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
