#include "ringmax/model/cpu/product.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <vector>

#include "ringmax/attention/cpu/targets.h"

// The sources below are compiled once for each instruction set.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ringmax/model/cpu/product.cc"
#include <hwy/foreach_target.h>  // must come before highway.h
#include <hwy/highway.h>

#include "ringmax/model/cpu/product-inl.h"

#if HWY_ONCE
namespace ringmax::model::cpu {

HWY_EXPORT(multiply_columns);
HWY_EXPORT(turn);

void to_groups(const float* from, std::int64_t rows, std::int64_t columns,
               float* to) {
  for (std::int64_t g = 0; g < groups(columns); ++g) {
    const std::int64_t begin = g * kGroup;
    const std::int64_t here = std::min(kGroup, columns - begin);
    const float* at = from + begin;
    if (here == kGroup) {
      for (std::int64_t r = 0; r < rows; ++r, at += columns, to += kGroup) {
        std::memcpy(to, at, kGroup * sizeof(float));
      }
      continue;
    }
    for (std::int64_t r = 0; r < rows; ++r, at += columns, to += kGroup) {
      std::copy_n(at, here, to);
      std::fill_n(to + here, kGroup - here, 0.0f);
    }
  }
}

void to_turned_groups(const float* from, std::int64_t rows,
                      std::int64_t columns, float* to) {
  for (std::int64_t r = 0; r < rows; r += kGroup) {
    const std::int64_t here = std::min(kGroup, rows - r);
    if (here < kGroup) std::fill_n(to, columns * kGroup, 0.0f);
    HWY_DYNAMIC_DISPATCH(turn)(from + r * columns, columns, here, columns, to);
    to += columns * kGroup;
  }
}

void to_panels(const float* from, std::int64_t rows, std::int64_t columns,
               float* to) {
  // Rows by bands, so that a line that two panels share is read once.
  constexpr std::int64_t kBand = 8;
  const std::int64_t size = panel_floats(rows);
  for (std::int64_t begin = 0; begin < rows; begin += kBand) {
    const std::int64_t end = std::min(rows, begin + kBand);
    for (std::int64_t p = 0; p < panels(columns); ++p) {
      const std::int64_t here = std::min(kPanel, columns - p * kPanel);
      const float* at = from + begin * columns + p * kPanel;
      float* out = to + p * size + begin * kPanel;
      for (std::int64_t r = begin; r < end; ++r, at += columns, out += kPanel) {
        if (here == kPanel) {
          std::memcpy(out, at, kPanel * sizeof(float));
        } else {
          std::copy_n(at, here, out);
          std::fill_n(out + here, kPanel - here, 0.0f);
        }
      }
    }
  }
}

void multiply(const Product& product, const attention::cpu::Workers& workers) {
  // A task is a strip of columns.
  const std::int64_t width =
      HWY_DYNAMIC_DISPATCH(multiply_columns)(product, -1);
  workers.run((product.columns + width - 1) / width, [&](std::int64_t i) {
    HWY_DYNAMIC_DISPATCH(multiply_columns)(product, i);
  });
}

}  // namespace ringmax::model::cpu
#endif
