// Where the tokens of a sequence live on the devices of a ring.
//
// A layout cuts a sequence, padded at its end, into equal shards and says which
// token positions each shard holds. Positions are data: kernels and schedules
// read them from here, masks never learn about layouts.
//
//   contiguous  shard d holds the d-th stretch of the sequence
//   zigzag      2 R chunks; shard d holds chunks d and 2 R - 1 - d, so that
//               causal work is even (Brandon et al. 2023; Zhu 2024)
//   striped     position p is slot p / R of shard p mod R
#ifndef RINGMAX_ATTENTION_LAYOUT_H_
#define RINGMAX_ATTENTION_LAYOUT_H_

#include <cstdint>
#include <string_view>
#include <vector>

#include "ringmax/attention/position.h"

namespace ringmax::attention {

enum class LayoutKind : std::uint8_t { kContiguous, kZigzag, kStriped };

std::string_view layout_name(LayoutKind kind);
// Reads the setting `layout`. Throws kInvalidArgument naming the valid ones.
LayoutKind parse_layout(std::string_view text);

// The positions of slots slot .. slot + count - 1 of every shard d, as one
// formula: position(d, slot + i) = base + per_shard * d + stride * i.
struct SlotFormula {
  std::int64_t slot = 0;
  std::int64_t count = 0;
  std::int64_t base = 0;
  std::int64_t per_shard = 0;
  std::int64_t stride = 1;

  PositionRun of_shard(std::int64_t shard) const {
    return {base + per_shard * shard, stride, count};
  }
  friend bool operator==(const SlotFormula&, const SlotFormula&) = default;
};

// Real positions of consecutive slots, from `slot` on.
struct SlotRun {
  std::int64_t slot = 0;
  PositionRun run;
  friend bool operator==(const SlotRun&, const SlotRun&) = default;
};

class Layout {
 public:
  // `tokens` >= 1 real tokens over `shards` >= 1 shards; throws
  // kInvalidArgument when there are more shards than tokens, or more slots than
  // an int32 counts.
  Layout(LayoutKind kind, std::int64_t tokens, std::int64_t shards);

  LayoutKind kind() const { return kind_; }
  std::int64_t tokens() const { return tokens_; }
  std::int64_t shards() const { return shards_; }
  // Tokens with padding: the next multiple of shards(), of 2 shards() for
  // zigzag. Positions from tokens() on are padding: no query there, and no key
  // that anything sees.
  std::int64_t padded_tokens() const { return shard_tokens() * shards_; }
  std::int64_t shard_tokens() const;
  // Every shard's slots in order, padding included: one formula for contiguous
  // and striped, two for zigzag.
  std::vector<SlotFormula> formulas() const;
  // The same for one shard.
  std::vector<PositionRun> runs(std::int64_t shard) const;
  // Without padding; empty for a shard of nothing but padding. No run is.
  std::vector<PositionRun> real_runs(std::int64_t shard) const;
  // Of slots [slots.begin, slots.end) of a shard what is not padding, slots
  // counted from slots.begin.
  std::vector<SlotRun> real_slots(std::int64_t shard,
                                  const PositionRange& slots) const;
  // The position of a slot; the shard and the slot of a position. Padding has
  // positions too, from tokens() on.
  std::int64_t position(std::int64_t shard, std::int64_t slot) const;
  std::int64_t shard_of(std::int64_t position) const;
  std::int64_t slot_of(std::int64_t position) const;
  // The position of every slot of the padded sequence, shard after shard; a
  // permutation of 0 .. padded_tokens() - 1. As int32 with -1 for padding they
  // are what kernels take.
  std::vector<std::int64_t> positions() const;

  friend bool operator==(const Layout&, const Layout&) = default;

 private:
  void check_shard(std::int64_t shard) const;

  LayoutKind kind_;
  std::int64_t tokens_;
  std::int64_t shards_;
};

}  // namespace ringmax::attention

#endif  // RINGMAX_ATTENTION_LAYOUT_H_
