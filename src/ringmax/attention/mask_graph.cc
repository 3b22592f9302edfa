#include "ringmax/attention/mask_graph.h"

#include <algorithm>
#include <utility>

#include "ringmax/base/error.h"
#include "ringmax/graph/ops.h"

namespace ringmax::attention {
namespace {

using graph::Value;

// Sums of a position and a distance must stay in int32.
double bounded(std::int64_t distance) {
  return static_cast<double>(
      std::clamp(distance, -kBeyondPositions, kBeyondPositions));
}

std::vector<RowIntervals> intervals_of(const Mask& mask, Value q);

std::vector<RowIntervals> any_of(const std::vector<Mask>& masks, Value q) {
  std::vector<RowIntervals> rows;
  for (const Mask& mask : masks) {
    const std::vector<RowIntervals> more = intervals_of(mask, q);
    rows.insert(rows.end(), more.begin(), more.end());
  }
  return rows;
}

// Every interval of one side with every one of the other.
std::vector<RowIntervals> all_of(const std::vector<Mask>& masks, Value q) {
  std::vector<RowIntervals> rows;
  for (const Mask& mask : masks) {
    const std::vector<RowIntervals> more = intervals_of(mask, q);
    if (rows.empty()) {
      rows = more;
      continue;
    }
    std::vector<RowIntervals> meets;
    for (const RowIntervals& a : rows) {
      for (const RowIntervals& b : more) {
        meets.push_back({graph::maximum(a.low_S, b.low_S),
                         graph::minimum(a.high_S, b.high_S)});
      }
    }
    rows = std::move(meets);
  }
  return rows;
}

std::vector<RowIntervals> intervals_of(const Mask& mask, Value q) {
  const Value first = graph::zeros_like(q);
  const Value last = graph::full_like(q, static_cast<double>(kBeyondPositions));
  switch (mask.kind()) {
    case Mask::Kind::kFull:
      return {{first, last}};
    case Mask::Kind::kCausal:
      return {{first, q + bounded(mask.offset())}};
    case Mask::Kind::kLocal:
      return {{q - bounded(mask.left()), q + bounded(mask.right())}};
    case Mask::Kind::kChunked: {
      const Value chunk = graph::full_like(q, bounded(mask.chunk()));
      return {{q - graph::remainder(q, chunk), q}};
    }
    case Mask::Kind::kAnd:
      return all_of(mask.operands(), q);
    case Mask::Kind::kOr:
      return any_of(mask.operands(), q);
    case Mask::Kind::kDense:
      break;
  }
  fail(ErrorCode::kInternal, "mask {} has no intervals", mask.to_string());
}

}  // namespace

std::vector<RowIntervals> row_intervals(const Mask& mask, Value positions_S) {
  std::vector<RowIntervals> rows = intervals_of(mask, positions_S);
  const Value zero = graph::zeros_like(positions_S);
  const Value padding = graph::less(positions_S, zero);
  const Value beyond =
      graph::full_like(positions_S, static_cast<double>(kBeyondPositions));
  for (RowIntervals& row : rows) {
    row.low_S = graph::select(padding, beyond, graph::maximum(row.low_S, zero));
    row.high_S =
        graph::select(padding, graph::full_like(positions_S, -1), row.high_S);
  }
  return rows;
}

Value seen_TS(const std::vector<RowIntervals>& rows, Value kv_positions_T) {
  const Dims pair = {kv_positions_T.dim(0), rows.front().low_S.dim(0)};
  const Value key = graph::broadcast_in_dim(kv_positions_T, pair, {0});
  Value seen;
  for (const RowIntervals& row : rows) {
    const Value within = graph::logical_and(
        graph::less_equal(graph::broadcast_in_dim(row.low_S, pair, {1}), key),
        graph::less_equal(key, graph::broadcast_in_dim(row.high_S, pair, {1})));
    seen = seen.valid() ? graph::logical_or(seen, within) : within;
  }
  return seen;
}

}  // namespace ringmax::attention
