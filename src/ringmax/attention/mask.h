// Attention masks as laws on (query position, key position).
//
// A mask is a small value, never an array: whether a pair is visible, how a
// rectangle of positions is covered, and how many pairs of it are visible are
// all closed forms, so a mask over a million tokens costs nothing to hold.
// Positions are global token positions; layouts decide where a position lives
// (layout.h), padding is not a mask's business.
#ifndef RINGMAX_ATTENTION_MASK_H_
#define RINGMAX_ATTENTION_MASK_H_

#include <cstdint>
#include <string>
#include <string_view>

namespace ringmax::attention {

// Consecutive positions [begin, end); empty when end <= begin.
struct PositionRange {
  std::int64_t begin = 0;
  std::int64_t end = 0;

  std::int64_t size() const { return end > begin ? end - begin : 0; }
  bool empty() const { return end <= begin; }
  friend bool operator==(const PositionRange&, const PositionRange&) = default;
};

// How much of a rectangle of pairs is visible. A rectangle without pairs is
// empty.
enum class BlockKind { kEmpty, kFull, kPartial };

class Mask {
 public:
  enum class Kind { kFull, kCausal };

  // Every query sees every key.
  static Mask full();
  // Query i sees key j when j <= i + offset, counted from the top left also
  // when there are more keys than queries. |offset| is at most 2^40.
  static Mask causal(std::int64_t offset = 0);

  Kind kind() const { return kind_; }
  // The offset of a causal mask; 0 for a full one.
  std::int64_t offset() const { return offset_; }

  bool visible(std::int64_t query, std::int64_t key) const;
  BlockKind classify(PositionRange queries, PositionRange keys) const;
  // Visible pairs in a rectangle.
  std::int64_t count(PositionRange queries, PositionRange keys) const;

  // As parse_mask reads it: "full", "causal", "causal:-3".
  std::string to_string() const;

  // A mask has no truth value: `a && b` would pick one mask, not their meet.
  explicit operator bool() const = delete;
  friend bool operator&&(const Mask&, const Mask&) = delete;
  friend bool operator||(const Mask&, const Mask&) = delete;
  friend bool operator==(const Mask&, const Mask&) = default;

 private:
  Mask(Kind kind, std::int64_t offset) : kind_(kind), offset_(offset) {}

  Kind kind_;
  std::int64_t offset_;
};

// Reads the setting `mask`: "full", "causal" or "causal:OFFSET". Throws
// kInvalidArgument naming the setting, the text and the valid forms.
Mask parse_mask(std::string_view text);

}  // namespace ringmax::attention

#endif  // RINGMAX_ATTENTION_MASK_H_
