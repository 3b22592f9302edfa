#include "ringmax/attention/splash/kernel_math.h"

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

k::Value Work::first() const { return set(packed, kFirstBit); }
k::Value Work::last() const { return set(packed, kLastBit); }
k::Value Place::query_block() const { return shifted(packed, kQueryShift); }
k::Value Place::window() const {
  return masked(packed, (1 << kQueryShift) - 1);
}
k::Value Work::part(k::Value index) const {
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

k::Value visible(const PairSlots& slots) {
  k::Value seen;
  for (std::size_t i = 0; i < slots.low.size(); ++i) {
    const k::Value inside =
        k::logical_and(k::less_equal(slots.low[i], slots.keys),
                       k::less_equal(slots.keys, slots.high[i]));
    seen = seen.valid() ? k::logical_or(seen, inside) : inside;
  }
  const k::Value zero = k::number_like(slots.keys, 0);
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
