// Pieces that the forward and the backward kernel share: what an entry of the
// block list says, and which pairs of a tile are visible.
#ifndef RINGMAX_ATTENTION_SPLASH_KERNEL_MATH_H_
#define RINGMAX_ATTENTION_SPLASH_KERNEL_MATH_H_

#include <cstdint>

#include "ringmax/kernel/ops.h"

namespace ringmax::attention::splash {

inline constexpr std::int64_t kLanes = 128;
inline constexpr double kLog2E = 1.44269504088896340736;
inline constexpr double kLn2 = 0.69314718055994530942;

// One step of a walk, packed into two int32: a query block against a window of
// up to kMaxParts key blocks, each with its own kind. A row is the run of steps
// with the same query block.
//
// Work: the parts' kinds, and where rows begin and end.
inline constexpr std::int64_t kPartBits = 3;
inline constexpr std::int64_t kMaxParts = 4;
inline constexpr std::int64_t kFirstBit = 1 << 12;  // the row begins here
inline constexpr std::int64_t kLastBit = 1 << 13;   // and ends here
// Place: the window in the low bits, the query block above.
inline constexpr std::int64_t kQueryShift = 16;
inline constexpr std::int64_t kMaxBlocks = 1 << (kQueryShift - 1);

// What a query block sees of a key block: two bits, and a third for
// kTriangular.
enum class TileKind : std::int64_t {
  kNone = 0,     // nothing: no compute
  kFull = 1,     // everything: no mask arithmetic
  kPartial = 2,  // by positions and segments
  // Query slot r sees key slot c exactly when r >= c, or r > c with the strict
  // bit: the tiles above the diagonal are skipped, those below need no mask.
  kTriangular = 3,
};
inline constexpr std::int64_t kStrictBit = 1 << 2;

// i32 scalars.
struct Work {
  kernel::Value packed;

  kernel::Value first() const;
  kernel::Value last() const;
  // Kind and strict bit of a part of the window.
  kernel::Value part(kernel::Value index) const;
};
struct Place {
  kernel::Value packed;

  kernel::Value query_block() const;
  kernel::Value window() const;
};
kernel::Value is_kind(kernel::Value part, TileKind kind);
kernel::Value strict_of(kernel::Value part);  // i32, 0 or 1

// A value that is the same in all of its 128 lanes, with `lanes` of them.
kernel::Value with_lanes(kernel::Value x, std::int64_t lanes);
// [1, n] -> [n, 128], the same in all lanes.
kernel::Value as_column(kernel::Value row);

// What decides about the pairs of a tile, all int32 of its shape.
struct PairSlots {
  kernel::Value keys;        // positions
  kernel::Values low, high;  // of queries: the intervals of keys they see
  kernel::Value query_segments, key_segments;  // invalid without segments
  kernel::Value tile;                          // invalid without a tile
};
// Which pairs are visible; bool.
kernel::Value visible(const PairSlots& slots);

}  // namespace ringmax::attention::splash

#endif  // RINGMAX_ATTENTION_SPLASH_KERNEL_MATH_H_
