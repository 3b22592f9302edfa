// Sets of token positions with a formula: consecutive ones and evenly spaced
// ones. Positions are global, from 0, at most 2^31 - 1; where one lives on the
// devices is a layout's business (layout.h).
#ifndef RINGMAX_ATTENTION_POSITION_H_
#define RINGMAX_ATTENTION_POSITION_H_

#include <cstdint>

namespace ringmax::attention {

// Consecutive positions [begin, end); empty when end <= begin.
struct PositionRange {
  std::int64_t begin = 0;
  std::int64_t end = 0;

  std::int64_t size() const { return end > begin ? end - begin : 0; }
  bool empty() const { return end <= begin; }
  friend bool operator==(const PositionRange&, const PositionRange&) = default;
};

// first, first + stride, ..., `count` of them; stride >= 1.
struct PositionRun {
  std::int64_t first = 0;
  std::int64_t stride = 1;
  std::int64_t count = 0;

  PositionRun() = default;
  PositionRun(std::int64_t first_, std::int64_t stride_, std::int64_t count_)
      : first(first_), stride(stride_), count(count_) {}
  // A range is a run of stride 1.
  PositionRun(const PositionRange& range)  // NOLINT: no information is lost
      : first(range.begin), count(range.size()) {}

  bool empty() const { return count <= 0; }
  std::int64_t at(std::int64_t i) const { return first + i * stride; }
  std::int64_t last() const { return at(count - 1); }
  // Elements [from, from + n) of the run, which must lie in it.
  PositionRun part(std::int64_t from, std::int64_t n) const {
    return {at(from), stride, n};
  }
  // Every `by`-th element from the one with index `from` on.
  PositionRun every(std::int64_t by, std::int64_t from) const {
    return {at(from), stride * by,
            from < count ? (count - from + by - 1) / by : 0};
  }
  // The elements before `end`.
  PositionRun below(std::int64_t end) const {
    if (first >= end) return {first, stride, 0};
    const std::int64_t n = (end - 1 - first) / stride + 1;
    return {first, stride, n < count ? n : count};
  }
  friend bool operator==(const PositionRun&, const PositionRun&) = default;
};

}  // namespace ringmax::attention

#endif  // RINGMAX_ATTENTION_POSITION_H_
