// Pieces that the forward and the backward kernel share: what an entry of the
// block list says, and which pairs of a tile are visible.
#ifndef RINGMAX_ATTENTION_SPLASH_KERNEL_MATH_H_
#define RINGMAX_ATTENTION_SPLASH_KERNEL_MATH_H_

#include <cstdint>

#include "ringmax/attention/mask.h"
#include "ringmax/kernel/ops.h"

namespace ringmax::attention::splash {

inline constexpr std::int64_t kLanes = 128;
inline constexpr double kLog2E = 1.44269504088896340736;
inline constexpr double kLn2 = 0.69314718055994530942;

// One step of a walk, packed into an int32. A row is the run of steps with the
// same query block.
inline constexpr std::int64_t kKindBits = 2;
inline constexpr std::int64_t kFirstBit = 1 << 2;   // the row begins here
inline constexpr std::int64_t kLastBit = 1 << 3;    // and ends here
inline constexpr std::int64_t kStrictBit = 1 << 4;  // see kTriangular
inline constexpr std::int64_t kQueryShift = 5;
inline constexpr std::int64_t kKeyShift = 18;
inline constexpr std::int64_t kMaxBlocks = 1 << (kKeyShift - kQueryShift);

enum class TileKind : std::int64_t {
  kNone = 0,     // nothing visible: no compute
  kFull = 1,     // everything visible: no mask arithmetic
  kPartial = 2,  // visible by positions and segments
  // Query slot r sees key slot c exactly when r >= c, or r > c with the strict
  // bit: the tiles above the diagonal are skipped, those below need no mask.
  kTriangular = 3,
};

struct Entry {
  explicit Entry(kernel::Value packed) : packed(packed) {}

  kernel::Value is(TileKind kind) const;
  kernel::Value first() const { return flag(kFirstBit); }
  kernel::Value last() const { return flag(kLastBit); }
  kernel::Value strict() const;  // i32, 0 or 1
  kernel::Value query_block() const;
  kernel::Value key_block() const;

  kernel::Value packed;

 private:
  kernel::Value flag(std::int64_t bit) const;
};

// A value that is the same in all of its 128 lanes, with `lanes` of them.
kernel::Value with_lanes(kernel::Value x, std::int64_t lanes);
// [1, n] -> [n, 128], the same in all lanes.
kernel::Value as_column(kernel::Value row);

// Offsets beyond every position mean the same as a number of moderate size,
// which int32 arithmetic can hold.
double clamped_offset(std::int64_t offset);
// Where a law sees a pair: bool of the dims of both (int32 positions).
kernel::Value visible(const Mask& mask, kernel::Value query, kernel::Value key);

}  // namespace ringmax::attention::splash

#endif  // RINGMAX_ATTENTION_SPLASH_KERNEL_MATH_H_
