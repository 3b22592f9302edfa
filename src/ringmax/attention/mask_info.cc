#include "ringmax/attention/mask_info.h"

#include <algorithm>
#include <array>
#include <limits>
#include <numeric>
#include <unordered_map>
#include <utility>

#include "ringmax/attention/tile_key.h"
#include "ringmax/base/error.h"

namespace ringmax::attention {
namespace {

std::int64_t ceil_div(std::int64_t a, std::int64_t b) {
  return a / b + (a % b > 0 ? 1 : 0);
}

// The real slots of block `block`.
void parts_of(const std::vector<SlotRun>& runs, std::int64_t block,
              std::int64_t size, std::vector<BlockPart>& parts) {
  parts.clear();
  for (const SlotRun& r : runs) {
    const std::int64_t from = std::max(r.slot, block * size);
    const std::int64_t to = std::min(r.slot + r.run.count, (block + 1) * size);
    if (from >= to) continue;
    parts.push_back(
        {from - block * size, r.run.part(from - r.slot, to - from)});
  }
}

// Elements of a run that lie in a range of positions.
PositionRange elements_in(const PositionRun& run, const PositionRange& range) {
  const auto first_at = [&](std::int64_t position) {
    if (position <= run.first) return std::int64_t{0};
    return std::min(run.count, ceil_div(position - run.first, run.stride));
  };
  return {first_at(range.begin), first_at(range.end)};
}

std::vector<std::int32_t> padded_positions(const std::vector<SlotRun>& runs,
                                           std::int64_t slots) {
  std::vector<std::int32_t> result(static_cast<std::size_t>(slots), -1);
  for (const SlotRun& r : runs) {
    for (std::int64_t i = 0; i < r.run.count; ++i) {
      result[static_cast<std::size_t>(r.slot + i)] =
          static_cast<std::int32_t>(r.run.at(i));
    }
  }
  return result;
}

PositionRange all_slots(const Layout& layout) {
  return {0, layout.shard_tokens()};
}

std::vector<std::int64_t> all_shifts(const Layout& keys) {
  std::vector<std::int64_t> shifts(static_cast<std::size_t>(keys.shards()));
  std::iota(shifts.begin(), shifts.end(), 0);
  return shifts;
}

std::int64_t check_device(std::int64_t device, const Layout& queries,
                          const Layout& keys, BlockSizes blocks) {
  if (blocks.q < 1 || blocks.kv < 1) {
    fail_invalid("blocks of {} queries and {} keys: both must be at least 1",
                 blocks.q, blocks.kv);
  }
  if (queries.shards() != keys.shards() || queries.kind() != keys.kind()) {
    fail_invalid(
        "mask metadata needs one layout for queries and keys, got {} over {} "
        "devices and {} over {}",
        layout_name(queries.kind()), queries.shards(), layout_name(keys.kind()),
        keys.shards());
  }
  if (device < 0 || device >= queries.shards()) {
    fail_invalid("device {} is outside the ring of {}", device,
                 queries.shards());
  }
  return device;
}

}  // namespace

// Finds the spans of one device's rows, step by step.
class MaskInfo::Builder {
 public:
  Builder(const MaskInfo& info, Contents contents)
      : info_(info),
        contents_(contents),
        table_(info.mask_),
        counts_(info.mask_),
        keys_(info.mask_) {
    const std::vector<SlotRun> runs =
        info.queries_.real_slots(info.device_, all_slots(info.queries_));
    rows_.resize(static_cast<std::size_t>(info.query_blocks()));
    for (std::size_t r = 0; r < rows_.size(); ++r) {
      Row& row = rows_[r];
      parts_of(runs, static_cast<std::int64_t>(r), info.blocks_.q, row.parts);
      for (const BlockPart& part : row.parts) {
        const PositionRange hull = info.mask_.key_hull(part.run);
        if (hull.empty()) continue;
        row.hull = row.hull.empty()
                       ? hull
                       : PositionRange{std::min(row.hull.begin, hull.begin),
                                       std::max(row.hull.end, hull.end)};
      }
      row.whole =
          row.parts.size() == 1 && row.parts[0].run.count == info.blocks_.q;
      // With padding in it no block of the row is full.
      if (row.whole) {
        row.core = info.mask_.key_core(row.parts[0].run);
      }
    }
  }

  Step build(std::int64_t shift) {
    const std::int64_t ring = info_.ring_size();
    const std::vector<SlotRun> keys = info_.keys_.real_slots(
        (info_.device_ - shift + ring) % ring, info_.key_slots_);
    Step step;
    step.shift = shift;
    for (std::size_t r = 0; r < rows_.size(); ++r) {
      add_row(static_cast<std::int32_t>(r), keys, step.spans);
    }
    return step;
  }

  std::vector<PartialBlock> partial_blocks() const { return table_.blocks(); }

 private:
  struct Row {
    std::vector<BlockPart> parts;
    PositionRange hull;  // keys outside are seen by none of its queries
    PositionRange core;  // keys inside by all
    bool whole = false;  // one run of real slots
  };

  void add_row(std::int32_t r, const std::vector<SlotRun>& keys,
               std::vector<Span>& spans) {
    const Row& row = rows_[static_cast<std::size_t>(r)];
    const std::int64_t size = info_.blocks_.kv;
    const auto add = [&](std::int64_t begin, std::int64_t end,
                         std::int32_t partial) {
      if (!spans.empty() && spans.back().row == r &&
          spans.back().end == begin && spans.back().partial == partial) {
        spans.back().end = static_cast<std::int32_t>(end);
      } else {
        spans.push_back({r, static_cast<std::int32_t>(begin),
                         static_cast<std::int32_t>(end), partial});
      }
    };
    std::int64_t next = 0;  // blocks before it are decided
    for (const SlotRun& k : keys) {
      const PositionRange seen = elements_in(k.run, row.hull);
      if (seen.empty()) continue;
      const PositionRange by_all = elements_in(k.run, row.core);
      const std::int64_t full_begin = ceil_div(k.slot + by_all.begin, size);
      const std::int64_t full_end =
          by_all.empty() ? 0 : (k.slot + by_all.end) / size;
      const std::int64_t end = (k.slot + seen.end - 1) / size + 1;
      next = std::max(next, (k.slot + seen.begin) / size);
      while (next < end) {
        if (next >= full_begin && next < full_end) {
          add(next, full_end, -1);
          next = full_end;
          continue;
        }
        const std::int32_t verdict = block_verdict(row, keys, k, next);
        if (verdict != kNothing) add(next, next + 1, verdict);
        ++next;
      }
    }
  }

  // What is in a block, as a span has it: -1 for full, or the number of its
  // partial block.
  static constexpr std::int32_t kNothing = -2;

  // Of key block `block`, which begins in run `k` or has slots of it. Blocks of
  // nothing but real slots of one run repeat from row to row, from step to
  // step.
  std::int32_t block_verdict(const Row& row, const std::vector<SlotRun>& keys,
                             const SlotRun& k, std::int64_t block) {
    const std::int64_t size = info_.blocks_.kv;
    const std::int64_t from = block * size - k.slot;
    const bool repeats =
        keys_.usable() && row.whole && from >= 0 && from + size <= k.run.count;
    if (!repeats) return fresh_verdict(row, keys, block);
    const PositionRun& q = row.parts[0].run;
    const std::int64_t key = k.run.at(from);
    const Tile tile{q.first, key, q.stride, q.count, size};
    if (!keys_.by_distance()) return known_verdict(tile, row, keys, block);
    const std::int64_t distance = q.first - key;
    Recent& recent = recent_[Recent::place(distance)];
    if (recent.distance != distance) {
      recent = {distance, known_verdict(tile, row, keys, block)};
    }
    return recent.verdict;
  }

  std::int32_t known_verdict(const Tile& tile, const Row& row,
                             const std::vector<SlotRun>& keys,
                             std::int64_t block) {
    const auto [place, fresh] = known_.try_emplace(keys_.of(tile), kNothing);
    if (fresh) place->second = fresh_verdict(row, keys, block);
    return place->second;
  }

  std::int32_t fresh_verdict(const Row& row, const std::vector<SlotRun>& keys,
                             std::int64_t block) {
    const std::int64_t size = info_.blocks_.kv;
    parts_of(keys, block, size, key_parts_);
    if (contents_ == Contents::kCountsOnly) {
      return any_in_parts(row.parts, key_parts_) ? 0 : kNothing;
    }
    std::int64_t visible = 0;
    for (const BlockPart& q : row.parts) {
      for (const BlockPart& k : key_parts_) {
        visible += counts_.count(q.run, k.run);
      }
    }
    if (visible == 0) return kNothing;
    if (visible == info_.blocks_.q * size) return -1;
    return table_.add(info_.blocks_.q, row.parts, key_parts_);
  }

  bool any_in_parts(const std::vector<BlockPart>& queries,
                    const std::vector<BlockPart>& keys) const {
    for (const BlockPart& q : queries) {
      for (const BlockPart& k : keys) {
        if (info_.mask_.any(q.run, k.run)) return true;
      }
    }
    return false;
  }

  const MaskInfo& info_;
  Contents contents_;
  std::vector<Row> rows_;
  PartialBlockTable table_;
  TileCounts counts_;
  TileKeys keys_;
  // Before those, for laws of distance alone: rows of blocks go past the same
  // distances.
  struct Recent {
    std::int64_t distance = std::numeric_limits<std::int64_t>::min();
    std::int32_t verdict = kNothing;

    static constexpr int kBits = 6;
    static std::size_t place(std::int64_t distance) {
      return (static_cast<std::uint64_t>(distance) * 0x9e3779b97f4a7c15u) >>
             (64 - kBits);
    }
  };
  std::array<Recent, std::size_t{1} << Recent::kBits> recent_;
  std::unordered_map<TileKey, std::int32_t, TileKeyHash> known_;
  std::vector<BlockPart> key_parts_;  // scratch
};

MaskInfo::MaskInfo(const Mask& mask, const Layout& queries, const Layout& keys,
                   BlockSizes blocks, std::int64_t device,
                   PositionRange key_slots,
                   const std::vector<std::int64_t>& shifts, Contents contents)
    : mask_(mask),
      queries_(queries),
      keys_(keys),
      blocks_(blocks),
      device_(check_device(device, queries, keys, blocks)),
      key_slots_(key_slots.empty() ? all_slots(keys) : key_slots) {
  if (key_slots_.begin < 0 || key_slots_.end > keys.shard_tokens()) {
    fail_invalid("key slots {} to {} are outside the {} slots of a shard",
                 key_slots_.begin, key_slots_.end, keys.shard_tokens());
  }
  mask.check_shape(queries.tokens(), keys.tokens());
  Builder builder(*this, contents);
  steps_.reserve(shifts.size());
  for (const std::int64_t shift : shifts) {
    if (shift < 0 || shift >= ring_size()) {
      fail_invalid("a ring of {} devices has no step with shift {}",
                   ring_size(), shift);
    }
    steps_.push_back(builder.build(shift));
  }
  partial_ = builder.partial_blocks();
}

MaskInfo::MaskInfo(const Mask& mask, const Layout& queries, const Layout& keys,
                   BlockSizes blocks, std::int64_t device,
                   PositionRange key_slots)
    : MaskInfo(mask, queries, keys, blocks, device, key_slots,
               all_shifts(keys)) {}

MaskInfo MaskInfo::of_step(const Mask& mask, const Layout& queries,
                           const Layout& keys, BlockSizes blocks,
                           std::int64_t device, std::int64_t shift,
                           PositionRange key_slots) {
  return MaskInfo(mask, queries, keys, blocks, device, key_slots,
                  std::vector<std::int64_t>{shift});
}

const MaskInfo::Step& MaskInfo::step(std::int64_t shift,
                                     std::int64_t used_on) const {
  if (used_on != ring_size()) {
    fail_invalid(
        "mask metadata was built for a ring of {} devices and is used on a "
        "ring of {}",
        ring_size(), used_on);
  }
  for (const Step& each : steps_) {
    if (each.shift == shift) return each;
  }
  fail_invalid(
      "mask metadata of {} step(s) of a ring of {} devices has none with shift "
      "{}",
      steps_.size(), ring_size(), shift);
}

MaskInfo MaskInfo::slice(std::int64_t shift, std::int64_t used_on) const {
  const Step& whole = step(shift, used_on);
  MaskInfo part(mask_, queries_, keys_, blocks_, device_, key_slots_,
                std::vector<std::int64_t>{});
  std::vector<std::int32_t> numbers(partial_.size(), -1);
  part.steps_.push_back(whole);
  for (Span& span : part.steps_.back().spans) {
    if (span.partial < 0) continue;
    std::int32_t& number = numbers[static_cast<std::size_t>(span.partial)];
    if (number < 0) {
      number = static_cast<std::int32_t>(part.partial_.size());
      part.partial_.push_back(partial_[static_cast<std::size_t>(span.partial)]);
    }
    span.partial = number;
  }
  return part;
}

BlockWalk MaskInfo::walk(std::int64_t shift, WalkOrder order,
                         std::int64_t used_on) const {
  const std::vector<Span>& spans = step(shift, used_on).spans;
  const bool by_query = order == WalkOrder::kByQuery;
  // How many visits each line (row by query, column by key) has, then where
  // it starts.
  const std::int64_t lines = by_query ? query_blocks() : key_blocks();
  std::vector<std::size_t> starts(static_cast<std::size_t>(lines) + 1, 0);
  for (const Span& span : spans) {
    if (by_query) {
      starts[static_cast<std::size_t>(span.row) + 1] +=
          static_cast<std::size_t>(span.end - span.begin);
    } else {
      for (std::int32_t c = span.begin; c < span.end; ++c) {
        ++starts[static_cast<std::size_t>(c) + 1];
      }
    }
  }
  for (std::size_t i = 1; i < starts.size(); ++i) {
    starts[i] = starts[i - 1] + std::max<std::size_t>(starts[i], 1);
  }
  const std::size_t visits = starts.back();
  BlockWalk walk;
  walk.rows.assign(visits, 0);
  walk.columns.assign(visits, 0);
  walk.kinds.assign(visits, BlockKind::kEmpty);
  walk.bounds.assign(visits, 0);
  walk.next_partial.assign(visits, -1);
  for (std::size_t line = 0; line + 1 < starts.size(); ++line) {
    (by_query ? walk.rows : walk.columns)[starts[line]] =
        static_cast<std::int32_t>(line);
    walk.bounds[starts[line]] |= BlockWalk::kFirst;
    walk.bounds[starts[line + 1] - 1] |= BlockWalk::kLast;
  }
  std::vector<std::size_t> at(starts.begin(), starts.end() - 1);
  for (const Span& span : spans) {
    for (std::int32_t c = span.begin; c < span.end; ++c) {
      const std::size_t i =
          at[static_cast<std::size_t>(by_query ? span.row : c)]++;
      walk.rows[i] = span.row;
      walk.columns[i] = c;
      walk.kinds[i] = span.partial < 0 ? BlockKind::kFull : BlockKind::kPartial;
      walk.next_partial[i] = span.partial;
    }
  }
  for (std::size_t i = visits; i-- > 1;) {
    if (walk.kinds[i - 1] != BlockKind::kPartial) {
      walk.next_partial[i - 1] = walk.next_partial[i];
    }
  }
  return walk;
}

std::int64_t BlockWalk::active() const {
  return std::count_if(kinds.begin(), kinds.end(), [](BlockKind kind) {
    return kind != BlockKind::kEmpty;
  });
}

std::int64_t MaskInfo::query_blocks() const {
  return ceil_div(queries_.shard_tokens(), blocks_.q);
}

std::int64_t MaskInfo::key_blocks() const {
  return ceil_div(key_slots_.size(), blocks_.kv);
}

std::vector<std::int64_t> MaskInfo::shifts() const {
  std::vector<std::int64_t> result;
  for (const Step& each : steps_) result.push_back(each.shift);
  return result;
}

std::int64_t MaskInfo::active_blocks(std::int64_t shift) const {
  std::int64_t active = 0;
  for (const Span& span : step(shift, ring_size()).spans) {
    active += span.end - span.begin;
  }
  return active;
}

std::vector<std::int32_t> MaskInfo::query_positions() const {
  return padded_positions(queries_.real_slots(device_, all_slots(queries_)),
                          query_blocks() * blocks_.q);
}

std::vector<std::int32_t> MaskInfo::key_positions(std::int64_t shift) const {
  const std::int64_t owner =
      (device_ - step(shift, ring_size()).shift + ring_size()) % ring_size();
  return padded_positions(keys_.real_slots(owner, key_slots_),
                          key_blocks() * blocks_.kv);
}

std::int64_t MaskInfo::memory_bytes() const {
  std::size_t bytes = sizeof(MaskInfo) + steps_.capacity() * sizeof(Step) +
                      partial_.capacity() * sizeof(PartialBlock);
  for (const Step& each : steps_) bytes += each.spans.capacity() * sizeof(Span);
  for (const PartialBlock& block : partial_) {
    bytes += block.pieces.capacity() * sizeof(RowPiece);
    for (const RowPiece& piece : block.pieces) {
      bytes += piece.seen.capacity() * sizeof(RowInterval);
    }
  }
  return static_cast<std::int64_t>(bytes);
}

std::vector<std::int64_t> count_active_blocks(
    const Mask& mask, const Layout& queries, const Layout& keys,
    BlockSizes blocks, std::int64_t device, PositionRange key_slots) {
  const MaskInfo info(mask, queries, keys, blocks, device, key_slots,
                      all_shifts(keys), MaskInfo::Contents::kCountsOnly);
  std::vector<std::int64_t> counts;
  for (const MaskInfo::Step& step : info.steps_) {
    std::int64_t& count = counts.emplace_back(0);
    for (const MaskInfo::Span& span : step.spans) {
      count += span.end - span.begin;
    }
  }
  return counts;
}

bool operator==(const MaskInfo& a, const MaskInfo& b) {
  return a.mask_ == b.mask_ && a.queries_ == b.queries_ && a.keys_ == b.keys_ &&
         a.blocks_ == b.blocks_ && a.device_ == b.device_ &&
         a.key_slots_ == b.key_slots_ && a.steps_ == b.steps_ &&
         a.partial_ == b.partial_;
}

}  // namespace ringmax::attention
