// Register-blocked products of operands in parts (product.h).
// Included once per instruction set; no include guard in the usual sense.
#if defined(RINGMAX_MODEL_CPU_PRODUCT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef RINGMAX_MODEL_CPU_PRODUCT_INL_H_
#undef RINGMAX_MODEL_CPU_PRODUCT_INL_H_
#else
#define RINGMAX_MODEL_CPU_PRODUCT_INL_H_
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <vector>

#include "ringmax/attention/cpu/elements-inl.h"
#include "ringmax/model/cpu/product.h"

HWY_BEFORE_NAMESPACE();
namespace ringmax::model::cpu::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
namespace blocks = attention::cpu::HWY_NAMESPACE;
using blocks::FloatTag;
using blocks::kLanes;
using blocks::Vec;

// 32 registers hold 6 x 4 sums, 4 vectors of B and one of A; 16 hold 6 x 2.
inline constexpr bool kManyRegisters =
    HWY_TARGET <= HWY_AVX3 || HWY_TARGET == HWY_NEON;
inline constexpr int kWideVecs = kManyRegisters ? 4 : 2;
// Columns of a strip.
inline constexpr std::ptrdiff_t kWide = kWideVecs * kLanes;
static_assert(kGroup % kLanes == 0);

enum class Order { kRows, kPanels };  // of A

// What a strip of columns multiplies in one go: part of a part.
struct Piece {
  const float* a;  // of row 0
  std::ptrdiff_t a_stride;
  // Where each vector of B's first row lies; rows are kGroup apart.
  std::array<const float*, kWideVecs> b;
  std::ptrdiff_t depth;
};

template <int kRows, int kVecs, Order kOrder>
HWY_NOINLINE void block(const Piece* pieces, std::size_t count,
                        std::ptrdiff_t first_row, bool add,
                        float* HWY_RESTRICT c, std::ptrdiff_t c_stride) {
  const FloatTag d;
  Vec sum[kRows][kVecs];
#pragma GCC unroll 16
  for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 16
    for (int j = 0; j < kVecs; ++j) sum[i][j] = hn::Zero(d);
  }
  for (std::size_t p = 0; p < count; ++p) {
    const std::ptrdiff_t a_stride = pieces[p].a_stride;
    const float* HWY_RESTRICT a =
        pieces[p].a + (kOrder == Order::kRows ? first_row * a_stride
                                              : first_row / kPanel * a_stride +
                                                    first_row % kPanel);
    const float* HWY_RESTRICT b[kVecs];
#pragma GCC unroll 16
    for (int j = 0; j < kVecs; ++j) b[j] = pieces[p].b[j];
    const std::ptrdiff_t depth = pieces[p].depth;
    for (std::ptrdiff_t k = 0; k < depth; ++k) {
      Vec row[kVecs];
#pragma GCC unroll 16
      for (int j = 0; j < kVecs; ++j) row[j] = hn::LoadU(d, b[j] + k * kGroup);
#pragma GCC unroll 16
      for (int i = 0; i < kRows; ++i) {
        const Vec one =
            hn::Set(d, kOrder == Order::kRows ? a[i * a_stride] : a[i]);
#pragma GCC unroll 16
        for (int j = 0; j < kVecs; ++j) {
          sum[i][j] = hn::MulAdd(one, row[j], sum[i][j]);
        }
      }
      a += kOrder == Order::kRows ? 1 : kPanel;
    }
  }
#pragma GCC unroll 16
  for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 16
    for (int j = 0; j < kVecs; ++j) {
      float* to = c + i * c_stride + j * kLanes;
      if (add) sum[i][j] = hn::Add(sum[i][j], hn::LoadU(d, to));
      hn::StoreU(sum[i][j], d, to);
    }
  }
}

// All rows of one strip of kVecs vectors.
template <int kVecs, Order kOrder>
void strip_rows(const Product& p, const std::vector<Piece>& pieces, bool add,
                float* c, std::ptrdiff_t c_stride) {
  std::ptrdiff_t i = 0;
  const auto go = [&]<int kRows>() HWY_ATTR {
    block<kRows, kVecs, kOrder>(pieces.data(), pieces.size(), i, add,
                                c + i * c_stride, c_stride);
    i += kRows;
  };
  // A block of rows stays within a panel.
  constexpr int kFull = !kManyRegisters || kVecs > 2 ? 6 : 12;
  static_assert(kPanel % kFull == 0);
  while (p.rows - i >= kFull) go.template operator()<kFull>();
  if (p.rows - i >= 8) go.template operator()<4>();
  if (p.rows - i >= 4) go.template operator()<4>();
  while (p.rows - i >= 2) go.template operator()<2>();
  if (p.rows - i >= 1) go.template operator()<1>();
}

template <Order kOrder>
void strip(const Product& p, std::ptrdiff_t vecs,
           const std::vector<Piece>& pieces, bool add, float* c,
           std::ptrdiff_t c_stride) {
  const auto go = [&]<int kVecs>() {
    strip_rows<kVecs, kOrder>(p, pieces, add, c, c_stride);
  };
  if constexpr (kWideVecs == 4) {
    if (vecs == 4) return go.template operator()<4>();
    if (vecs == 3) return go.template operator()<3>();
  }
  if (vecs == 2) return go.template operator()<2>();
  go.template operator()<1>();
}

// Strip `index` of the product; with index -1 nothing. The columns of a strip.
inline std::int64_t multiply_columns(const Product& p, std::int64_t index) {
  if (index < 0) return kWide;
  // Rows of B that are multiplied before the next strip of rows of A: as many
  // as stay in a near cache.
  constexpr std::ptrdiff_t kDeep = 512;
  const std::ptrdiff_t n = index * kWide;
  const std::ptrdiff_t columns = std::min<std::ptrdiff_t>(kWide, p.columns - n);
  const std::ptrdiff_t vecs = (columns + kLanes - 1) / kLanes;
  // Whole vectors are written: at an odd end beside the result first.
  const bool odd = columns % kLanes != 0;
  std::vector<float> beside(
      odd ? static_cast<std::size_t>(p.rows * vecs * kLanes) : 0);
  float* c = odd ? beside.data() : p.c + n;
  const std::ptrdiff_t c_stride = odd ? vecs * kLanes : p.columns;
  const auto all = static_cast<std::size_t>(groups(p.columns));
  std::vector<Piece> pieces;
  std::ptrdiff_t deep = 0;
  bool add = false;
  const auto flush = [&] {
    if (p.a_in_panels) {
      strip<Order::kPanels>(p, vecs, pieces, add, c, c_stride);
    } else {
      strip<Order::kRows>(p, vecs, pieces, add, c, c_stride);
    }
    pieces.clear();
    deep = 0;
    add = true;
  };
  for (std::size_t part = 0; part < p.a.size(); ++part) {
    const Product::Part& of = p.a[part];
    for (std::ptrdiff_t k = 0; k < of.depth;) {
      const std::ptrdiff_t here =
          std::min<std::ptrdiff_t>(kDeep - deep, of.depth - k);
      Piece piece{};
      piece.a = of.a + (p.a_in_panels ? k * kPanel : k);
      piece.a_stride = of.a_stride;
      for (std::ptrdiff_t v = 0; v < vecs; ++v) {
        const std::ptrdiff_t column = n + v * kLanes;
        piece.b[static_cast<std::size_t>(v)] =
            p.b[part * all + static_cast<std::size_t>(column / kGroup)] +
            column % kGroup + k * kGroup;
      }
      piece.depth = here;
      pieces.push_back(piece);
      k += here;
      deep += here;
      if (deep == kDeep) flush();
    }
  }
  if (!pieces.empty() || !add) flush();
  if (odd) {
    for (std::int64_t i = 0; i < p.rows; ++i) {
      std::copy_n(c + i * c_stride, columns, p.c + i * p.columns + n);
    }
  }
  return kWide;
}

inline void turn(const float* from, std::int64_t from_row, std::int64_t rows,
                 std::int64_t columns, float* to) {
  blocks::transpose(from, from_row, rows, columns, 1.0f, to, kGroup);
}

}  // namespace ringmax::model::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
