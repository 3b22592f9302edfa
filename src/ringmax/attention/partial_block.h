// Blocks of a mask that are neither empty nor full, each stored once.
//
// A partial block is kept as row pieces (mask_rows.h), a few numbers for a law,
// and becomes bytes when asked for. Equal blocks are one: all diagonal blocks
// of a causal mask share an entry.
#ifndef RINGMAX_ATTENTION_PARTIAL_BLOCK_H_
#define RINGMAX_ATTENTION_PARTIAL_BLOCK_H_

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "ringmax/attention/mask.h"
#include "ringmax/attention/mask_rows.h"

namespace ringmax::attention {

// Real positions of a block's slots offset .. offset + run.count - 1; slots in
// no part are padding.
struct BlockPart {
  std::int64_t offset = 0;
  PositionRun run;
};

struct PartialBlock {
  // Cover all rows of the block; columns are the block's.
  std::vector<RowPiece> pieces;

  std::int64_t rows() const { return pieces.empty() ? 0 : pieces.back().end; }
  // Row-major [rows, columns], 1 for visible.
  std::vector<std::uint8_t> bytes(std::int64_t columns) const;
  friend bool operator==(const PartialBlock&, const PartialBlock&) = default;
};

// Numbers blocks by first appearance; equal contents have equal numbers.
class PartialBlockTable {
 public:
  explicit PartialBlockTable(const Mask& mask) : mask_(mask) {}

  // The number of the block of `rows` slots of queries with these parts, and
  // keys with those.
  std::int32_t add(std::int64_t rows, const std::vector<BlockPart>& queries,
                   const std::vector<BlockPart>& keys);
  std::int32_t add(PartialBlock block);
  const std::vector<PartialBlock>& blocks() const { return blocks_; }

 private:
  Mask mask_;
  std::vector<PartialBlock> blocks_;
  std::unordered_multimap<std::uint64_t, std::int32_t> by_content_;
};

}  // namespace ringmax::attention

#endif  // RINGMAX_ATTENTION_PARTIAL_BLOCK_H_
