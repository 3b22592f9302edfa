// Where the tokens of a sequence live on the devices of a ring.
//
// A layout cuts a sequence, padded at its end to a multiple of the shard
// count, into equal shards and says which token positions each shard holds.
// Positions are data: kernels and schedules read them from here, masks never
// learn about layouts. Contiguous is the layout there is so far.
#ifndef RINGMAX_ATTENTION_LAYOUT_H_
#define RINGMAX_ATTENTION_LAYOUT_H_

#include <cstdint>
#include <string_view>
#include <vector>

#include "ringmax/attention/mask.h"

namespace ringmax::attention {

enum class LayoutKind { kContiguous };

std::string_view layout_name(LayoutKind kind);
// Reads the setting `layout`. Throws kInvalidArgument naming the valid ones.
LayoutKind parse_layout(std::string_view text);

class Layout {
 public:
  // `tokens` >= 1 real tokens over `shards` >= 1 shards; throws
  // kInvalidArgument when there are more shards than tokens.
  Layout(LayoutKind kind, std::int64_t tokens, std::int64_t shards);

  LayoutKind kind() const { return kind_; }
  std::int64_t tokens() const { return tokens_; }
  std::int64_t shards() const { return shards_; }
  // Tokens with padding, a multiple of shards(). Positions from tokens() on
  // are padding: no query there, and no key that anything sees.
  std::int64_t padded_tokens() const { return shard_tokens() * shards_; }
  std::int64_t shard_tokens() const;

  // The positions of a shard's slots, in order, padding included: one range
  // for each run of consecutive positions, none of them empty.
  std::vector<PositionRange> shard_ranges(std::int64_t shard) const;
  // The same without padding; empty for a shard of nothing but padding.
  std::vector<PositionRange> real_ranges(std::int64_t shard) const;
  // The position of every slot of the padded sequence, shard after shard; a
  // permutation of 0 .. padded_tokens() - 1.
  std::vector<std::int64_t> positions() const;

  friend bool operator==(const Layout&, const Layout&) = default;

 private:
  LayoutKind kind_;
  std::int64_t tokens_;
  std::int64_t shards_;
};

}  // namespace ringmax::attention

#endif  // RINGMAX_ATTENTION_LAYOUT_H_
