// Float32 matrix products whose operands lie in parts at several places, as
// when each device of a process owns a part of them:
//   C [rows, columns] = sum over parts p of A_p [rows, depth] * B_p [depth,
//   columns]
// B lies in groups of kGroup columns, each row-major; A in rows, or turned, in
// panels of kPanel. Sums have a fixed order, whatever the number of threads.
//
// Not for attention, whose products are attention/cpu's own.
#ifndef RINGMAX_MODEL_CPU_PRODUCT_H_
#define RINGMAX_MODEL_CPU_PRODUCT_H_

#include <cstdint>
#include <span>

#include "ringmax/attention/cpu/workers.h"

namespace ringmax::model::cpu {

// Columns of a group of B; the widest vectors have as many lanes.
inline constexpr std::int64_t kGroup = 16;
// Columns of a panel of A.
inline constexpr std::int64_t kPanel = 12;

constexpr std::int64_t groups(std::int64_t columns) {
  return (columns + kGroup - 1) / kGroup;
}
constexpr std::int64_t panels(std::int64_t columns) {
  return (columns + kPanel - 1) / kPanel;
}
constexpr std::int64_t group_floats(std::int64_t depth) {
  return depth * kGroup;
}
// A line more than it holds: panels a power of two apart would all lie in the
// same few lines of a cache.
constexpr std::int64_t panel_floats(std::int64_t depth) {
  return (depth * kPanel + 15) / 16 * 16 + 16;
}

// [rows, columns] -> groups(columns) x [rows, kGroup]; what is over is zeros.
void to_groups(const float* from, std::int64_t rows, std::int64_t columns,
               float* to);
// [rows, columns] -> groups(rows) x [columns, kGroup].
void to_turned_groups(const float* from, std::int64_t rows,
                      std::int64_t columns, float* to);
// [rows, columns] -> panels(columns) x [rows, kPanel], panel_floats(rows)
// apart; what is over is zeros.
void to_panels(const float* from, std::int64_t rows, std::int64_t columns,
               float* to);

struct Product {
  std::int64_t rows = 0, columns = 0;
  struct Part {
    const float* a;
    // In rows: from one row of A to the next; in panels: to the next panel.
    std::int64_t a_stride;
    std::int64_t depth;
  };
  std::span<const Part> a;
  // Not in rows of A but as to_panels has written its transpose.
  bool a_in_panels = false;
  // [parts, groups(columns)]: where the group of that part begins.
  std::span<const float* const> b;
  float* c = nullptr;  // [rows, columns] without gaps
};
void multiply(const Product& product,
              const attention::cpu::Workers& workers = {});

}  // namespace ringmax::model::cpu

#endif  // RINGMAX_MODEL_CPU_PRODUCT_H_
