// Register-blocked matrix products of the attention kernels:
//   C[i][n] = start + sum over k of A(i, k) * B[k][n]
// with C and B row-major along n, the lanes of vectors, and A read one element
// at a time in either order. So no operand is packed for the product's sake.
// An element is a float32, or a pair of bfloat16 (elements-inl.h): two
// neighbours along k, whose products one instruction adds to a float32 sum.
// Included once per instruction set; no include guard in the usual sense.
#if defined(RINGMAX_ATTENTION_CPU_PRODUCT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef RINGMAX_ATTENTION_CPU_PRODUCT_INL_H_
#undef RINGMAX_ATTENTION_CPU_PRODUCT_INL_H_
#else
#define RINGMAX_ATTENTION_CPU_PRODUCT_INL_H_
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <cstddef>
#include <type_traits>

#include "ringmax/attention/cpu/elements-inl.h"
#include "ringmax/attention/cpu/math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ringmax::attention::cpu::HWY_NAMESPACE {

// Rows and vectors of a register block. 32 registers hold 8 x 3 sums, 3 of B
// and one of A; 16 hold 6 x 2, 2 and one.
inline constexpr bool kManyRegisters =
    HWY_TARGET <= HWY_AVX3 || HWY_TARGET == HWY_NEON;
inline constexpr int kBlockRows = kManyRegisters ? 8 : 6;
inline constexpr int kBlockVecs = kManyRegisters ? 3 : 2;
// Lanes of one panel of queries or keys.
inline constexpr std::ptrdiff_t kPanel = kBlockVecs * kLanes;

// How A(i, k) lies in memory: a[i * stride + k] or a[k * stride + i].
enum class Order { kRows, kColumns };
// Where C starts: at zero, at its old value, or at that times a factor a lane.
enum class Start { kZero, kOld, kScaled };

template <typename E>
struct A {
  const E* data;
  std::ptrdiff_t stride;
};
template <typename E>
struct B {
  const E* data;
  std::ptrdiff_t stride;
};
struct C {
  float* data;
  std::ptrdiff_t stride;
};

// One register block.
template <int kRows, int kVecs, Order kOrder, Start kStart, typename E>
HWY_NOINLINE void product_block(const E* HWY_RESTRICT a,
                                std::ptrdiff_t a_stride,
                                const E* HWY_RESTRICT b,
                                std::ptrdiff_t b_stride, std::ptrdiff_t depth,
                                float* HWY_RESTRICT c, std::ptrdiff_t c_stride,
                                const float* HWY_RESTRICT factor) {
  const FloatTag d;
  Vec sum[kRows][kVecs];
#pragma GCC unroll 16
  for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 16
    for (int j = 0; j < kVecs; ++j) {
      if constexpr (kStart == Start::kZero) {
        sum[i][j] = hn::Zero(d);
      } else {
        sum[i][j] = hn::LoadU(d, c + i * c_stride + j * kLanes);
        if constexpr (kStart == Start::kScaled) {
          sum[i][j] = hn::Mul(sum[i][j], hn::LoadU(d, factor + j * kLanes));
        }
      }
    }
  }
  for (std::ptrdiff_t k = 0; k < depth; ++k) {
    Vec row[kVecs];
#pragma GCC unroll 16
    for (int j = 0; j < kVecs; ++j) row[j] = load_lanes(b + j * kLanes);
#pragma GCC unroll 16
    for (int i = 0; i < kRows; ++i) {
      const Vec one =
          in_every_lane(kOrder == Order::kRows ? a[i * a_stride] : a[i]);
#pragma GCC unroll 16
      for (int j = 0; j < kVecs; ++j) {
        sum[i][j] = add_product(E{}, one, row[j], sum[i][j]);
      }
    }
    a += kOrder == Order::kRows ? 1 : a_stride;
    b += b_stride;
  }
#pragma GCC unroll 16
  for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 16
    for (int j = 0; j < kVecs; ++j) {
      hn::StoreU(sum[i][j], d, c + i * c_stride + j * kLanes);
    }
  }
}

// One row, fewer than kLanes columns: what is left of odd sizes.
template <Order kOrder, typename E>
HWY_NOINLINE void product_tail(const E* HWY_RESTRICT a, std::ptrdiff_t a_stride,
                               const E* HWY_RESTRICT b, std::ptrdiff_t b_stride,
                               std::ptrdiff_t depth, float* HWY_RESTRICT c,
                               std::ptrdiff_t columns) {
#if HWY_TARGET == HWY_SSE4 || HWY_TARGET == HWY_NEON || HWY_TARGET == HWY_SCALAR
  // Masked loads of these read whole vectors.
  static_assert(std::is_same_v<E, float>);
  for (std::ptrdiff_t n = 0; n < columns; ++n) {
    float sum = c[n];
    for (std::ptrdiff_t k = 0; k < depth; ++k) {
      sum += (kOrder == Order::kRows ? a[k] : a[k * a_stride]) *
             b[k * b_stride + n];
    }
    c[n] = sum;
  }
#else
  const FloatTag d;
  const Truth lanes = hn::FirstN(d, static_cast<std::size_t>(columns));
  Vec sum = hn::MaskedLoad(lanes, d, c);
  for (std::ptrdiff_t k = 0; k < depth; ++k) {
    const Vec one =
        in_every_lane(kOrder == Order::kRows ? a[k] : a[k * a_stride]);
    sum = add_product(E{}, one, load_lanes(lanes, b + k * b_stride), sum);
  }
  hn::BlendedStore(sum, lanes, d, c);
#endif
}

// `rows` rows of kVecs vectors.
template <int kVecs, Order kOrder, Start kStart, typename E>
HWY_INLINE void product_rows(std::ptrdiff_t rows, const E* a,
                             std::ptrdiff_t a_stride, const E* b,
                             std::ptrdiff_t b_stride, std::ptrdiff_t depth,
                             float* c, std::ptrdiff_t c_stride,
                             const float* factor) {
  const std::ptrdiff_t a_row = kOrder == Order::kRows ? a_stride : 1;
  const auto go = [&]<int kRows>() HWY_ATTR {
    product_block<kRows, kVecs, kOrder, kStart>(a, a_stride, b, b_stride, depth,
                                                c, c_stride, factor);
    a += kRows * a_row;
    c += kRows * c_stride;
    rows -= kRows;
  };
  // 8 rows as 4 + 4 rather than 6 + 2: fewer idle multipliers.
  // `go` counts rows down, which the check does not see.
  // NOLINTNEXTLINE(bugprone-infinite-loop)
  while (rows >= kBlockRows && !(kBlockRows == 6 && rows == 8)) {
    go.template operator()<kBlockRows>();
  }
  while (rows >= 4) go.template operator()<4>();
  if (rows >= 2) go.template operator()<2>();
  if (rows >= 1) go.template operator()<1>();
}

// C of one panel; B and C have at least vecs * kLanes columns.
template <Order kOrder, Start kStart, typename E>
HWY_NOINLINE void product_panel(std::ptrdiff_t rows, std::ptrdiff_t vecs,
                                A<E> a, B<E> b, std::ptrdiff_t depth, C c,
                                const float* factor = nullptr) {
  const auto go = [&]<int kVecs>() HWY_ATTR {
    product_rows<kVecs, kOrder, kStart>(rows, a.data, a.stride, b.data,
                                        b.stride, depth, c.data, c.stride,
                                        factor);
  };
  if (vecs == kBlockVecs) {
    go.template operator()<kBlockVecs>();
  } else if (vecs == 2) {
    go.template operator()<2>();
  } else {
    go.template operator()<1>();
  }
}

// C += A * B for any number of columns, nothing read or written past them.
template <Order kOrder, typename E>
HWY_INLINE void product_add(std::ptrdiff_t rows, std::ptrdiff_t columns, A<E> a,
                            B<E> b, std::ptrdiff_t depth, C c) {
  std::ptrdiff_t n = 0;
  while (columns - n >= kLanes) {
    const std::ptrdiff_t vecs =
        std::min<std::ptrdiff_t>(kBlockVecs, (columns - n) / kLanes);
    product_panel<kOrder, Start::kOld, E>(rows, vecs, a, {b.data + n, b.stride},
                                          depth, {c.data + n, c.stride});
    n += vecs * kLanes;
  }
  if (n == columns) return;
  const std::ptrdiff_t a_row = kOrder == Order::kRows ? a.stride : 1;
  for (std::ptrdiff_t i = 0; i < rows; ++i) {
    product_tail<kOrder>(a.data + i * a_row, a.stride, b.data + n, b.stride,
                         depth, c.data + i * c.stride + n, columns - n);
  }
}

}  // namespace ringmax::attention::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
