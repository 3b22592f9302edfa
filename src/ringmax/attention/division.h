// Whole-number division of positions, which may be negative, by what is above
// zero: rounded down and rounded up.
#ifndef RINGMAX_ATTENTION_DIVISION_H_
#define RINGMAX_ATTENTION_DIVISION_H_

#include <cstdint>

namespace ringmax::attention {

inline std::int64_t floor_div(std::int64_t a, std::int64_t b) {
  return a / b - (a % b < 0 ? 1 : 0);
}
inline std::int64_t ceil_div(std::int64_t a, std::int64_t b) {
  return -floor_div(-a, b);
}

}  // namespace ringmax::attention

#endif  // RINGMAX_ATTENTION_DIVISION_H_
