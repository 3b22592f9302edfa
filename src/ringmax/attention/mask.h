// Attention masks as laws on (query position, key position).
//
// A mask is a small value, never an array (but for `dense`, which is one):
// whether a pair is visible, how a rectangle of positions is covered, and how
// many pairs of it are visible are closed forms, so a mask over a million
// tokens costs nothing to hold. Positions are global token positions; layouts
// decide where a position lives (layout.h). Padding and the segments of a
// packed batch are data, not part of a mask: they are not known here.
#ifndef RINGMAX_ATTENTION_MASK_H_
#define RINGMAX_ATTENTION_MASK_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ringmax/attention/dense_mask.h"
#include "ringmax/attention/position.h"

namespace ringmax::attention {

// How much of a rectangle of pairs is visible. A rectangle without pairs is
// empty.
enum class BlockKind : std::uint8_t { kEmpty, kFull, kPartial };

// Offsets, window sizes and chunks are at most this: far beyond any sequence,
// and small enough that no sum of them and positions overflows.
inline constexpr std::int64_t kMaxMaskNumber = std::int64_t{1} << 40;

class Mask {
 public:
  enum class Kind : std::uint8_t {
    kFull,
    kCausal,
    kLocal,
    kChunked,
    kDense,
    kAnd,
    kOr
  };

  // Every query sees every key.
  static Mask full();
  // Query i sees key j when j <= i + offset, counted from the top left also
  // when there are more keys than queries. |offset| <= kMaxMaskNumber.
  static Mask causal(std::int64_t offset = 0);
  // i - left <= j <= i + right; both from 0 to kMaxMaskNumber.
  static Mask local(std::int64_t left, std::int64_t right);
  // j <= i in the same chunk of `chunk` positions: i / chunk == j / chunk.
  static Mask chunked(std::int64_t chunk);
  // What an array [queries, keys] says; nothing outside of it is visible.
  static Mask dense(std::shared_ptr<const DenseMask> array);
  // Pairs that both see, and pairs that either sees. Chains are one flat list
  // of operands: (a & b) & c has three.
  friend Mask operator&(const Mask& a, const Mask& b);
  friend Mask operator|(const Mask& a, const Mask& b);

  Kind kind() const { return kind_; }
  // Of kCausal; 0 for others.
  std::int64_t offset() const { return kind_ == Kind::kCausal ? a_ : 0; }
  // Of kLocal; 0 for others.
  std::int64_t left() const { return kind_ == Kind::kLocal ? a_ : 0; }
  std::int64_t right() const { return kind_ == Kind::kLocal ? b_ : 0; }
  // Of kChunked; 0 for others.
  std::int64_t chunk() const { return kind_ == Kind::kChunked ? a_ : 0; }
  // Of kDense; null for others.
  const std::shared_ptr<const DenseMask>& dense() const { return dense_; }
  // Of kAnd and kOr, at least two; empty for others.
  const std::vector<Mask>& operands() const;

  // The array in the mask, wherever it stands in it; null without one.
  std::shared_ptr<const DenseMask> find_dense() const;
  // Throws kInvalidArgument with both shapes when an array in the mask is not
  // [queries, keys].
  void check_shape(std::int64_t queries, std::int64_t keys) const;

  bool visible(std::int64_t query, std::int64_t key) const;
  // Exact for every mask, also for runs of different strides.
  BlockKind classify(const PositionRun& queries, const PositionRun& keys) const;
  // Whether a rectangle has a visible pair.
  bool any(const PositionRun& queries, const PositionRun& keys) const;
  // Visible pairs of a rectangle.
  std::int64_t count(const PositionRun& queries, const PositionRun& keys) const;

  // Keys outside of it are seen by no query of the run: exact for a law by
  // itself, an outer bound for a combination.
  PositionRange key_hull(const PositionRun& queries) const;
  // Keys in it are seen by every query of the run: exact for a law by itself,
  // an inner bound for `|`. Unbounded sides are +-kUnbounded.
  PositionRange key_core(const PositionRun& queries) const;
  static constexpr std::int64_t kUnbounded = std::int64_t{1} << 60;

  // As parse_mask reads it: "full", "causal:-3", "causal&(local:5,0|dense)".
  std::string to_string() const;
  // The same for equal masks, in every process.
  std::uint64_t hash() const;

  // A mask has no truth value: `a && b` would pick one mask, not their meet.
  explicit operator bool() const = delete;
  friend bool operator&&(const Mask&, const Mask&) = delete;
  friend bool operator||(const Mask&, const Mask&) = delete;
  // Equal form and equal arrays, not merely equal pairs.
  friend bool operator==(const Mask& a, const Mask& b);

 private:
  explicit Mask(Kind kind, std::int64_t a = 0, std::int64_t b = 0)
      : kind_(kind), a_(a), b_(b) {}
  static Mask combined(Kind kind, const Mask& a, const Mask& b);

  Kind kind_;
  std::int64_t a_;
  std::int64_t b_;
  std::shared_ptr<const DenseMask> dense_;
  std::shared_ptr<const std::vector<Mask>> operands_;
};

// Reads the setting `mask`: full, causal[:OFFSET], local:LEFT,RIGHT,
// chunked:C, dense, combined by & and | (& binds tighter) and parentheses.
// `dense` names the array given here. Throws kInvalidArgument naming the
// setting, the text, the place and the valid forms.
Mask parse_mask(std::string_view text,
                std::shared_ptr<const DenseMask> dense = nullptr);

}  // namespace ringmax::attention

#endif  // RINGMAX_ATTENTION_MASK_H_
