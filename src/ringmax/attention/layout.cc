#include "ringmax/attention/layout.h"

#include <algorithm>
#include <limits>

#include "ringmax/base/error.h"

namespace ringmax::attention {

std::string_view layout_name(LayoutKind kind) {
  switch (kind) {
    case LayoutKind::kContiguous:
      return "contiguous";
    case LayoutKind::kZigzag:
      return "zigzag";
    case LayoutKind::kStriped:
      return "striped";
  }
  return "unknown";
}

LayoutKind parse_layout(std::string_view text) {
  for (LayoutKind kind :
       {LayoutKind::kContiguous, LayoutKind::kZigzag, LayoutKind::kStriped}) {
    if (text == layout_name(kind)) return kind;
  }
  fail_invalid(
      "layout={}: unknown layout; valid are contiguous, zigzag and striped",
      text);
}

Layout::Layout(LayoutKind kind, std::int64_t tokens, std::int64_t shards)
    : kind_(kind), tokens_(tokens), shards_(shards) {
  if (tokens < 1 || shards < 1) {
    fail_invalid(
        "a layout needs at least one token and one shard, got {} "
        "tokens over {} shards",
        tokens, shards);
  }
  if (shards > tokens) {
    fail_invalid(
        "{} tokens cannot be spread over {} shards; there may be at "
        "most as many shards as tokens",
        tokens, shards);
  }
  // Padding adds less than 2 shards; neither can overflow once tokens fit.
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
  if (tokens > kMost || padded_tokens() > kMost) {
    fail_invalid(
        "{} tokens over {} shards are more than positions count; a sequence "
        "has at most {} tokens with its padding",
        tokens, shards, kMost);
  }
}

std::int64_t Layout::shard_tokens() const {
  const std::int64_t per_shard = kind_ == LayoutKind::kZigzag ? 2 : 1;
  const std::int64_t pieces = per_shard * shards_;
  return (tokens_ + pieces - 1) / pieces * per_shard;
}

std::vector<SlotFormula> Layout::formulas() const {
  const std::int64_t n = shard_tokens();
  switch (kind_) {
    case LayoutKind::kContiguous:
      return {{0, n, 0, n, 1}};
    case LayoutKind::kZigzag:
      return {{0, n / 2, 0, n / 2, 1},
              {n / 2, n / 2, (2 * shards_ - 1) * (n / 2), -(n / 2), 1}};
    case LayoutKind::kStriped:
      return {{0, n, 0, 1, shards_}};
  }
  return {};
}

void Layout::check_shard(std::int64_t shard) const {
  if (shard < 0 || shard >= shards_) {
    fail_invalid("shard {} is outside the {} shards of the layout", shard,
                 shards_);
  }
}

std::vector<PositionRun> Layout::runs(std::int64_t shard) const {
  check_shard(shard);
  std::vector<PositionRun> result;
  for (const SlotFormula& formula : formulas()) {
    result.push_back(formula.of_shard(shard));
  }
  return result;
}

std::vector<PositionRun> Layout::real_runs(std::int64_t shard) const {
  std::vector<PositionRun> result;
  for (const SlotRun& part : real_slots(shard, {0, shard_tokens()})) {
    result.push_back(part.run);
  }
  return result;
}

std::vector<SlotRun> Layout::real_slots(std::int64_t shard,
                                        const PositionRange& slots) const {
  check_shard(shard);
  std::vector<SlotRun> result;
  for (const SlotFormula& f : formulas()) {
    const std::int64_t from = std::max(f.slot, slots.begin);
    const std::int64_t to = std::min(f.slot + f.count, slots.end);
    if (from >= to) continue;
    const PositionRun run =
        f.of_shard(shard).part(from - f.slot, to - from).below(tokens_);
    if (!run.empty()) result.push_back({from - slots.begin, run});
  }
  return result;
}

std::int64_t Layout::position(std::int64_t shard, std::int64_t slot) const {
  check_shard(shard);
  for (const SlotFormula& f : formulas()) {
    if (slot >= f.slot && slot < f.slot + f.count) {
      return f.of_shard(shard).at(slot - f.slot);
    }
  }
  fail_invalid("slot {} is outside the {} slots of a shard", slot,
               shard_tokens());
}

std::int64_t Layout::shard_of(std::int64_t position) const {
  const std::int64_t n = shard_tokens();
  switch (kind_) {
    case LayoutKind::kContiguous:
      return position / n;
    case LayoutKind::kZigzag: {
      const std::int64_t chunk = position / (n / 2);
      return std::min(chunk, 2 * shards_ - 1 - chunk);
    }
    case LayoutKind::kStriped:
      return position % shards_;
  }
  return 0;
}

std::int64_t Layout::slot_of(std::int64_t position) const {
  const std::int64_t n = shard_tokens();
  switch (kind_) {
    case LayoutKind::kContiguous:
      return position % n;
    case LayoutKind::kZigzag:
      return position % (n / 2) +
             (position / (n / 2) < shards_ ? std::int64_t{0} : n / 2);
    case LayoutKind::kStriped:
      return position / shards_;
  }
  return 0;
}

std::vector<std::int64_t> Layout::positions() const {
  std::vector<std::int64_t> result;
  result.reserve(static_cast<std::size_t>(padded_tokens()));
  for (std::int64_t shard = 0; shard < shards_; ++shard) {
    for (const PositionRun& run : runs(shard)) {
      for (std::int64_t i = 0; i < run.count; ++i) result.push_back(run.at(i));
    }
  }
  return result;
}

}  // namespace ringmax::attention
