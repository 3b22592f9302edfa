#include "ringmax/attention/splash/kernel_math.h"

#include <algorithm>

#include "ringmax/base/error.h"

namespace ringmax::attention::splash {

namespace k = ringmax::kernel;

k::Value Entry::is(TileKind kind) const {
  const k::Value bits =
      k::logical_and(packed, k::number_like(packed, (1 << kKindBits) - 1));
  return k::equal(bits, k::number_like(bits, static_cast<double>(kind)));
}

k::Value Entry::flag(std::int64_t bit) const {
  const k::Value set =
      k::logical_and(packed, k::number_like(packed, static_cast<double>(bit)));
  return k::not_equal(set, k::number_like(set, 0));
}

k::Value Entry::strict() const {
  return k::convert(flag(kStrictBit), DType::kI32);
}

k::Value Entry::query_block() const {
  return k::logical_and(
      k::shift_right(packed, k::number_like(packed, kQueryShift)),
      k::number_like(packed, kMaxBlocks - 1));
}

k::Value Entry::key_block() const {
  return k::shift_right(packed, k::number_like(packed, kKeyShift));
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

k::Value visible(const Mask& mask, k::Value query, k::Value key) {
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
      k::Value seen = visible(mask.operands()[0], query, key);
      for (std::size_t i = 1; i < mask.operands().size(); ++i) {
        const k::Value next = visible(mask.operands()[i], query, key);
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

}  // namespace ringmax::attention::splash
