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

// Register blocks. 32 registers hold 8 x 3 sums, 3 vectors of B and one of A,
// or 6 x 4, or 12 x 2; 16 hold 6 x 2, 2 and one.
inline constexpr bool kManyRegisters =
    HWY_TARGET <= HWY_AVX3 || HWY_TARGET == HWY_NEON;
constexpr int block_rows(int vecs) {
  if (!kManyRegisters) return 6;
  return vecs == 4 ? 6 : vecs == 2 ? 12 : 8;
}
// Lanes of one panel of queries or keys.
inline constexpr int kPanelVecs = kManyRegisters ? 3 : 2;
inline constexpr std::ptrdiff_t kPanel = kPanelVecs * kLanes;
// Columns of a panel of what `product_add` takes as B.
inline constexpr int kWideVecs = kManyRegisters ? 4 : 2;
inline constexpr std::ptrdiff_t kWide = kWideVecs * kLanes;

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
// B cut into panels of kWide columns, each row-major with rows of kWide.
template <typename E>
struct Panels {
  const E* data;
  std::ptrdiff_t size;  // from one panel to the next
};
struct C {
  float* data;
  std::ptrdiff_t stride;
};

// One register block. What is there already is added last: had the sum begun
// with it, each of its terms would be rounded to that size.
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
      sum[i][j] = hn::Zero(d);
    }
  }
#pragma GCC unroll 2
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
      float* to = c + i * c_stride + j * kLanes;
      if constexpr (kStart == Start::kOld) {
        sum[i][j] = hn::Add(sum[i][j], hn::LoadU(d, to));
      } else if constexpr (kStart == Start::kScaled) {
        sum[i][j] = hn::MulAdd(hn::LoadU(d, to),
                               hn::LoadU(d, factor + j * kLanes), sum[i][j]);
      }
      hn::StoreU(sum[i][j], d, to);
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
    float sum = 0;
    for (std::ptrdiff_t k = 0; k < depth; ++k) {
      sum += (kOrder == Order::kRows ? a[k] : a[k * a_stride]) *
             b[k * b_stride + n];
    }
    c[n] += sum;
  }
#else
  const FloatTag d;
  const Truth lanes = hn::FirstN(d, static_cast<std::size_t>(columns));
  Vec sum = hn::Zero(d);
  for (std::ptrdiff_t k = 0; k < depth; ++k) {
    const Vec one =
        in_every_lane(kOrder == Order::kRows ? a[k] : a[k * a_stride]);
    sum = add_product(E{}, one, load_lanes(lanes, b + k * b_stride), sum);
  }
  hn::BlendedStore(hn::Add(sum, hn::MaskedLoad(lanes, d, c)), lanes, d, c);
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
  constexpr int kFull = block_rows(kVecs);
  // 8 rows as 4 + 4 rather than 6 + 2: fewer idle multipliers.
  // `go` counts rows down, which the check does not see.
  // NOLINTBEGIN(bugprone-infinite-loop)
  while (rows >= kFull && !(kFull == 6 && rows == 8)) {
    go.template operator()<kFull>();
  }
  while (rows >= 4) go.template operator()<4>();
  // NOLINTEND(bugprone-infinite-loop)
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
  if constexpr (kWideVecs == 4) {
    if (vecs == 4) return go.template operator()<4>();
    if (vecs == 3) return go.template operator()<3>();
  }
  if (vecs == 2) return go.template operator()<2>();
  go.template operator()<1>();
}

// The longest sum over D or V in one go. Each term is rounded to the size of
// the sum so far, so that the error grows with the length: with sums of 256
// gradients are half as far off again as with two of 128, added.
inline constexpr std::ptrdiff_t kLongestSum = 128;

// C of one panel from rows of A, as a sum of sums of at most `longest` terms.
// Pairs are summed in one go: they have lost more by being bfloat16.
template <typename E>
void product_in_parts(std::ptrdiff_t rows, std::ptrdiff_t vecs, A<E> a, B<E> b,
                      std::ptrdiff_t depth, std::ptrdiff_t longest, C c) {
  if (kPairs<E>) longest = depth;
  product_panel<Order::kRows, Start::kZero, E>(rows, vecs, a, b,
                                               std::min(depth, longest), c);
  for (std::ptrdiff_t k = longest; k < depth; k += longest) {
    product_panel<Order::kRows, Start::kOld, E>(
        rows, vecs, {a.data + k, a.stride}, {b.data + k * b.stride, b.stride},
        std::min(depth - k, longest), c);
  }
}

// C += A * B for any number of columns, nothing written past them.
template <Order kOrder, typename E>
void product_add(std::ptrdiff_t rows, std::ptrdiff_t columns, A<E> a,
                 Panels<E> b, std::ptrdiff_t depth, C c) {
  const std::ptrdiff_t a_row = kOrder == Order::kRows ? a.stride : 1;
  for (std::ptrdiff_t n = 0; n < columns; n += kWide) {
    const E* panel = b.data + n / kWide * b.size;
    const std::ptrdiff_t here = std::min(kWide, columns - n);
    const std::ptrdiff_t vecs = here / kLanes;
    const std::ptrdiff_t left = here - vecs * kLanes;
    if (vecs > 0) {
      product_panel<kOrder, Start::kOld, E>(rows, vecs, a, {panel, kWide},
                                            depth, {c.data + n, c.stride});
    }
    if (left == 0) continue;
    for (std::ptrdiff_t i = 0; i < rows; ++i) {
      product_tail<kOrder>(a.data + i * a_row, a.stride, panel + vecs * kLanes,
                           kWide, depth,
                           c.data + i * c.stride + n + vecs * kLanes, left);
    }
  }
}

}  // namespace ringmax::attention::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
