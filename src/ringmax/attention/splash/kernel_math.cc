#include "ringmax/attention/splash/kernel_math.h"

#include <algorithm>

#include "ringmax/base/error.h"

namespace ringmax::attention::splash {

namespace k = ringmax::kernel;

namespace {

k::Value masked(k::Value x, std::int64_t bits) {
  return k::logical_and(x, k::number_like(x, static_cast<double>(bits)));
}
k::Value shifted(k::Value x, std::int64_t by) {
  return k::shift_right(x, k::number_like(x, static_cast<double>(by)));
}
k::Value set(k::Value x, std::int64_t bit) {
  const k::Value found = masked(x, bit);
  return k::not_equal(found, k::number_like(found, 0));
}

}  // namespace

k::Value Entry::first() const { return set(packed, kFirstBit); }
k::Value Entry::last() const { return set(packed, kLastBit); }
k::Value Entry::query_block() const {
  return masked(shifted(packed, kQueryShift), kMaxBlocks - 1);
}
k::Value Entry::window() const { return shifted(packed, kWindowShift); }
k::Value Entry::part(k::Value index) const {
  return masked(k::shift_right(packed, index * kPartBits),
                (1 << kPartBits) - 1);
}

k::Value is_kind(k::Value part, TileKind kind) {
  const k::Value bits = masked(part, kStrictBit - 1);
  return k::equal(bits, k::number_like(bits, static_cast<double>(kind)));
}

k::Value strict_of(k::Value part) {
  return k::convert(set(part, kStrictBit), DType::kI32);
}

k::Value with_lanes(k::Value x, std::int64_t lanes) {
  if (lanes == x.dim(1)) return x;
  const std::int64_t copies = (lanes + kLanes - 1) / kLanes;
  return k::slice(k::repeat(x, copies, 1), {0, 0}, {x.dim(0), lanes});
}

k::Value as_column(k::Value row) {
  return k::transpose(k::broadcast_to(row, {kLanes, row.dim(1)}));
}

double clamped_offset(std::int64_t offset) {
  constexpr std::int64_t kMost = std::int64_t{1} << 30;
  return static_cast<double>(std::clamp(offset, -kMost, kMost));
}

namespace {

// Where a law sees a pair of positions.
k::Value seen_by(const Mask& mask, k::Value query, k::Value key) {
  switch (mask.kind()) {
    case Mask::Kind::kFull:
      return k::equal(query, query);
    case Mask::Kind::kCausal:
      return k::less_equal(key, query + clamped_offset(mask.offset()));
    case Mask::Kind::kLocal:
      return k::logical_and(
          k::less_equal(key, query + clamped_offset(mask.right())),
          k::greater_equal(key, query - clamped_offset(mask.left())));
    case Mask::Kind::kChunked: {
      const double chunk = clamped_offset(mask.chunk());
      return k::logical_and(k::less_equal(key, query),
                            k::equal(query / chunk, key / chunk));
    }
    case Mask::Kind::kAnd:
    case Mask::Kind::kOr: {
      k::Value seen = seen_by(mask.operands()[0], query, key);
      for (std::size_t i = 1; i < mask.operands().size(); ++i) {
        const k::Value next = seen_by(mask.operands()[i], query, key);
        seen = mask.kind() == Mask::Kind::kAnd ? k::logical_and(seen, next)
                                               : k::logical_or(seen, next);
      }
      return seen;
    }
    case Mask::Kind::kDense:
      break;
  }
  fail(ErrorCode::kInternal, "a dense mask reaches a kernel as a tile");
}

}  // namespace

k::Value visible(const Mask& mask, const PairSlots& slots) {
  const k::Value zero = k::number_like(slots.queries, 0);
  k::Value seen = k::logical_and(k::greater_equal(slots.queries, zero),
                                 k::greater_equal(slots.keys, zero));
  if (mask.kind() != Mask::Kind::kFull) {
    seen = k::logical_and(seen, seen_by(mask, slots.queries, slots.keys));
  }
  if (slots.query_segments.valid()) {
    seen = k::logical_and(seen,
                          k::equal(slots.query_segments, slots.key_segments));
    seen = k::logical_and(seen, k::not_equal(slots.key_segments, zero));
  }
  if (slots.tile.valid()) {
    seen = k::logical_and(seen, k::not_equal(slots.tile, zero));
  }
  return seen;
}

}  // namespace ringmax::attention::splash
