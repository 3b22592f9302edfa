#include "ringmax/attention/layout.h"

#include <algorithm>

#include "ringmax/base/error.h"

namespace ringmax::attention {

std::string_view layout_name(LayoutKind kind) {
  switch (kind) {
    case LayoutKind::kContiguous:
      return "contiguous";
  }
  return "unknown";
}

LayoutKind parse_layout(std::string_view text) {
  if (text == "contiguous") return LayoutKind::kContiguous;
  if (text == "zigzag" || text == "striped") {
    fail_invalid("layout={} is not supported yet; valid is contiguous", text);
  }
  fail_invalid("layout={}: unknown layout; valid is contiguous", text);
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
}

std::int64_t Layout::shard_tokens() const {
  return (tokens_ + shards_ - 1) / shards_;
}

std::vector<PositionRange> Layout::shard_ranges(std::int64_t shard) const {
  if (shard < 0 || shard >= shards_) {
    fail_invalid("shard {} is outside the {} shards of the layout", shard,
                 shards_);
  }
  return {{shard * shard_tokens(), (shard + 1) * shard_tokens()}};
}

std::vector<PositionRange> Layout::real_ranges(std::int64_t shard) const {
  std::vector<PositionRange> ranges = shard_ranges(shard);
  for (PositionRange& range : ranges) range.end = std::min(range.end, tokens_);
  std::erase_if(ranges, [](const PositionRange& r) { return r.empty(); });
  return ranges;
}

std::vector<std::int64_t> Layout::positions() const {
  std::vector<std::int64_t> result;
  result.reserve(static_cast<std::size_t>(padded_tokens()));
  for (std::int64_t shard = 0; shard < shards_; ++shard) {
    for (const PositionRange& range : shard_ranges(shard)) {
      for (std::int64_t p = range.begin; p < range.end; ++p) {
        result.push_back(p);
      }
    }
  }
  return result;
}

}  // namespace ringmax::attention
