#include "ringmax/attention/tile_key.h"

#include <algorithm>

#include "ringmax/attention/division.h"
#include "ringmax/base/error.h"

namespace ringmax::attention {
TileKeys::TileKeys(const Mask& mask) : usable_(add_laws(mask)) {}

bool TileKeys::add_laws(const Mask& mask) {
  switch (mask.kind()) {
    case Mask::Kind::kFull:
      return true;
    case Mask::Kind::kCausal:
      laws_.push_back({mask.kind(), mask.offset(), 0});
      numbers_ += 1;
      break;
    case Mask::Kind::kLocal:
      laws_.push_back({mask.kind(), mask.left(), mask.right()});
      numbers_ += 2;
      break;
    case Mask::Kind::kChunked:
      laws_.push_back({mask.kind(), mask.chunk(), 0});
      numbers_ += 3;
      by_distance_ = false;
      break;
    case Mask::Kind::kDense:
      return false;
    case Mask::Kind::kAnd:
    case Mask::Kind::kOr:
      return std::all_of(mask.operands().begin(), mask.operands().end(),
                         [&](const Mask& each) { return add_laws(each); });
  }
  return numbers_ <= TileKey::kRoom;
}

TileKey TileKeys::of(const Tile& t) const {
  RINGMAX_CHECK(usable_);
  TileKey key;
  std::size_t n = 0;
  const auto add = [&](std::int64_t number) { key.numbers[n++] = number; };
  add(t.rows);
  add(t.columns);
  // A bound that rises by one a row says nothing beyond these.
  const auto add_bound = [&](std::int64_t bound) {
    add(std::clamp(bound, -t.rows, t.columns));
  };
  const std::int64_t ahead = t.query - t.key;
  for (const Law& law : laws_) {
    switch (law.kind) {
      case Mask::Kind::kCausal:
        add_bound(floor_div(ahead + law.a, t.stride) + 1);
        break;
      case Mask::Kind::kLocal:
        add_bound(ceil_div(ahead - law.a, t.stride));
        add_bound(floor_div(ahead + law.b, t.stride) + 1);
        break;
      case Mask::Kind::kChunked:
        if (law.a % t.stride == 0) {
          // Chunks begin every chunk / stride slots: which slot of its chunk
          // the first query is, how far ahead of the first key's, and which of
          // two in one slot comes first.
          const std::int64_t query = t.query / t.stride;
          add(query % (law.a / t.stride));
          add(query - t.key / t.stride);
          add_bound(floor_div(ahead, t.stride) + 1);
        } else {
          add(t.query % law.a);
          add(ahead);
          add(0);
        }
        // Slots of another stride meet chunks elsewhere.
        key.numbers[TileKey::kRoom - 1] = t.stride;
        break;
      case Mask::Kind::kFull:
      case Mask::Kind::kDense:
      case Mask::Kind::kAnd:
      case Mask::Kind::kOr:
        break;
    }
  }
  std::size_t hash = 0;
  for (std::size_t i = 0; i < numbers_; ++i) {
    hash = (hash ^ static_cast<std::size_t>(key.numbers[i])) *
           std::size_t{0x9e3779b97f4a7c15u};
    hash ^= hash >> 32;
  }
  key.hash = hash;
  return key;
}

std::int64_t TileCounts::count(const PositionRun& queries,
                               const PositionRun& keys) {
  // Layouts give runs of one stride.
  if (!keys_.usable() || queries.stride != keys.stride) {
    return mask_.count(queries, keys);
  }
  const auto [place, fresh] =
      known_.try_emplace(keys_.of({queries.first, keys.first, queries.stride,
                                   queries.count, keys.count}),
                         0);
  if (fresh) place->second = mask_.count(queries, keys);
  return place->second;
}

}  // namespace ringmax::attention
