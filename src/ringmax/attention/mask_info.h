// What a blockwise kernel has to know of a mask before it starts: for the
// queries of one device and the keys of each ring step, which blocks are
// visited, in which order, and what is in those that are neither empty nor
// full.
//
// Built from laws, never from an array: kept as spans of equal blocks, a few
// numbers for each row of blocks and step, so a device of a ring over a million
// tokens costs microseconds. slice() cuts one ring step out at the cost of that
// step's blocks; walk() spells a step out as the arrays that a kernel's grid
// follows.
//
// Slots beyond a shard (blocks need not divide it) and padding see nothing and
// are seen by nothing; a block with any of them is not full.
#ifndef RINGMAX_ATTENTION_MASK_INFO_H_
#define RINGMAX_ATTENTION_MASK_INFO_H_

#include <cstdint>
#include <vector>

#include "ringmax/attention/layout.h"
#include "ringmax/attention/mask.h"
#include "ringmax/attention/partial_block.h"

namespace ringmax::attention {

// Slots of a block of queries and of a block of keys.
struct BlockSizes {
  std::int64_t q = 512;
  std::int64_t kv = 512;
  friend bool operator==(const BlockSizes&, const BlockSizes&) = default;
};

// Which blocks stay while the others pass: query blocks in the forward pass
// and for dQ, key blocks for dK and dV.
enum class WalkOrder : std::uint8_t { kByQuery, kByKey };

// One ring step as a kernel's grid visits it. Arrays of one length; visit i is
// block (rows[i], columns[i]).
struct BlockWalk {
  static constexpr std::uint8_t kFirst =
      1;                                    // first of its row (by key: column)
  static constexpr std::uint8_t kLast = 2;  // last of it: write the result

  std::vector<std::int32_t> rows;     // query blocks
  std::vector<std::int32_t> columns;  // key blocks
  // kEmpty for a row (column) of blocks where nothing is visible: one visit,
  // first and last, so that its result is written too (0, log-sum-exp -inf).
  std::vector<BlockKind> kinds;
  std::vector<std::uint8_t> bounds;
  // Which of MaskInfo::partial_blocks() this visit needs or, when its block is
  // not partial, the next visit that needs one: what to fetch ahead. -1 when
  // none follows.
  std::vector<std::int32_t> next_partial;

  std::int64_t visits() const { return static_cast<std::int64_t>(rows.size()); }
  // Visits that compute: not kEmpty. 0: nothing need run at all.
  std::int64_t active() const;
  friend bool operator==(const BlockWalk&, const BlockWalk&) = default;
};

class MaskInfo {
 public:
  // Of ring device `device`, for all steps: with shift s it works with the keys
  // of device (device - s) mod R. `key_slots` are the slots of a key shard that
  // travel (RingTrack::key_slots); empty for all. Throws kInvalidArgument when
  // blocks are not positive, layouts differ in kind or shards, or a dense mask
  // has another shape.
  MaskInfo(const Mask& mask, const Layout& queries, const Layout& keys,
           BlockSizes blocks, std::int64_t device,
           PositionRange key_slots = {});
  // The same of one step alone.
  static MaskInfo of_step(const Mask& mask, const Layout& queries,
                          const Layout& keys, BlockSizes blocks,
                          std::int64_t device, std::int64_t shift,
                          PositionRange key_slots = {});
  // One step of this one; equal to of_step. `ring_size` is that of the ring it
  // is used on; throws kInvalidArgument with both sizes when it was built for
  // another, and when the step is not in it.
  MaskInfo slice(std::int64_t shift, std::int64_t ring_size) const;

  // The arrays of one step; `ring_size` as in slice().
  BlockWalk walk(std::int64_t shift, WalkOrder order,
                 std::int64_t ring_size) const;
  // Each once, in the order of their first visit by query.
  const std::vector<PartialBlock>& partial_blocks() const { return partial_; }

  const Mask& mask() const { return mask_; }
  BlockSizes blocks() const { return blocks_; }
  std::int64_t device() const { return device_; }
  std::int64_t ring_size() const { return queries_.shards(); }
  // Blocks of the query shard and of what travels of a key shard.
  std::int64_t query_blocks() const;
  std::int64_t key_blocks() const;
  // Shifts of the steps it has, ascending.
  std::vector<std::int64_t> shifts() const;
  // Blocks of a step that are not empty, and visits with the empty rows.
  std::int64_t active_blocks(std::int64_t shift) const;
  // Position of every slot, to whole blocks; -1 for padding.
  std::vector<std::int32_t> query_positions() const;
  std::vector<std::int32_t> key_positions(std::int64_t shift) const;
  // What it occupies.
  std::int64_t memory_bytes() const;

  friend bool operator==(const MaskInfo& a, const MaskInfo& b);
  friend std::vector<std::int64_t> count_active_blocks(
      const Mask& mask, const Layout& queries, const Layout& keys,
      BlockSizes blocks, std::int64_t device, PositionRange key_slots);

 private:
  // Blocks [begin, end) of a row, alike: full (partial -1) or one partial
  // block.
  struct Span {
    std::int32_t row = 0;
    std::int32_t begin = 0;
    std::int32_t end = 0;
    std::int32_t partial = -1;
    friend bool operator==(const Span&, const Span&) = default;
  };
  struct Step {
    std::int64_t shift = 0;
    std::vector<Span> spans;  // by row, then by column
    friend bool operator==(const Step&, const Step&) = default;
  };
  class Builder;

  enum class Contents : std::uint8_t { kWhole, kCountsOnly };
  MaskInfo(const Mask& mask, const Layout& queries, const Layout& keys,
           BlockSizes blocks, std::int64_t device, PositionRange key_slots,
           const std::vector<std::int64_t>& shifts,
           Contents contents = Contents::kWhole);
  const Step& step(std::int64_t shift, std::int64_t ring_size) const;

  Mask mask_;
  Layout queries_;
  Layout keys_;
  BlockSizes blocks_;
  std::int64_t device_;
  PositionRange key_slots_;
  std::vector<Step> steps_;
  std::vector<PartialBlock> partial_;
};

// active_blocks of every shift, 0 to R - 1, of the MaskInfo of these arguments:
// cheaper, without the contents of partial blocks.
std::vector<std::int64_t> count_active_blocks(
    const Mask& mask, const Layout& queries, const Layout& keys,
    BlockSizes blocks, std::int64_t device, PositionRange key_slots = {});

}  // namespace ringmax::attention

#endif  // RINGMAX_ATTENTION_MASK_INFO_H_
