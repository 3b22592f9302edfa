#include "ringmax/attention/cpu/visibility.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "ringmax/base/error.h"

namespace ringmax::attention::cpu {
namespace {

constexpr std::int32_t kLast = std::numeric_limits<std::int32_t>::max();
// Slots past the end that a kernel may read as lanes of one vector panel.
constexpr std::int64_t kSlack = 64;

Interval clamped(std::int64_t first, std::int64_t last) {
  first = std::max<std::int64_t>(first, 0);
  last = std::min<std::int64_t>(last, kLast);
  if (last < first) return {kLast, -1};
  return {static_cast<std::int32_t>(first), static_cast<std::int32_t>(last)};
}

template <typename Seen>
Term term_of(std::span<const std::int32_t> q_positions, const Seen& seen) {
  Term term;
  for (const std::int64_t q : q_positions) {
    const Interval i = q < 0 ? Interval{kLast, -1} : seen(q);
    term.first.push_back(i.first);
    term.last.push_back(i.last);
  }
  return term;
}

Term meet(const Term& a, const Term& b) {
  Term both;
  for (std::size_t i = 0; i < a.first.size(); ++i) {
    const Interval seen = clamped(std::max(a.first[i], b.first[i]),
                                  std::min(a.last[i], b.last[i]));
    both.first.push_back(seen.first);
    both.last.push_back(seen.last);
  }
  return both;
}

Extent extent_of(const std::int32_t* values, std::int64_t count,
                 std::int32_t padding) {
  Extent e{kLast, -1, false};
  for (std::int64_t i = 0; i < count; ++i) {
    if (values[i] == padding) {
      e.padding = true;
    } else {
      e.min = std::min(e.min, values[i]);
      e.max = std::max(e.max, values[i]);
    }
  }
  return e;
}

bool apart(const Interval& seen, const Extent& keys) {
  return seen.last < keys.min || keys.max < seen.first;
}

}  // namespace

std::vector<Term> visible_terms(const Mask& mask,
                                std::span<const std::int32_t> q_positions) {
  const auto law = [&](const auto& seen) -> std::vector<Term> {
    return {term_of(q_positions, seen)};
  };
  switch (mask.kind()) {
    case Mask::Kind::kFull:
      return law([](std::int64_t) { return clamped(0, kLast); });
    case Mask::Kind::kCausal:
      return law([&](std::int64_t q) { return clamped(0, q + mask.offset()); });
    case Mask::Kind::kLocal:
      return law([&](std::int64_t q) {
        return clamped(q - mask.left(), q + mask.right());
      });
    case Mask::Kind::kChunked:
      return law(
          [&](std::int64_t q) { return clamped(q - q % mask.chunk(), q); });
    case Mask::Kind::kOr: {
      std::vector<Term> all;
      for (const Mask& part : mask.operands()) {
        for (Term& term : visible_terms(part, q_positions)) {
          all.push_back(std::move(term));
        }
      }
      return all;
    }
    case Mask::Kind::kAnd: {
      std::vector<Term> all = visible_terms(mask.operands()[0], q_positions);
      for (std::size_t i = 1; i < mask.operands().size(); ++i) {
        const std::vector<Term> more =
            visible_terms(mask.operands()[i], q_positions);
        std::vector<Term> both;
        for (const Term& a : all) {
          for (const Term& b : more) both.push_back(meet(a, b));
        }
        all = std::move(both);
      }
      return all;
    }
    case Mask::Kind::kDense:
      break;
  }
  fail(ErrorCode::kInternal,
       "a dense mask reaches the native kernel as a tile, not inside of '{}'",
       mask.to_string());
}

Visibility::Visibility(const Problem& p, std::int64_t kv_block)
    : q_stride_(p.queries + kSlack),
      kv_stride_(p.keys + kSlack),
      blocks_((p.keys + kv_block - 1) / kv_block) {
  std::vector<std::int32_t> q_positions(q_stride_, -1);
  std::copy_n(p.q_positions, p.queries, q_positions.begin());
  terms_ = visible_terms(p.mask, q_positions);
  kv_positions_.assign(kv_stride_, -1);
  std::copy_n(p.kv_positions, p.keys, kv_positions_.begin());
  for (std::int64_t i = 0; i < p.keys; i += kGroup) {
    kv_groups_.push_back(
        extent_of(p.kv_positions + i, std::min(kGroup, p.keys - i), -1));
  }
  for (std::int64_t i = 0; i < p.keys; i += kv_block) {
    kv_blocks_.push_back(
        extent_of(p.kv_positions + i, std::min(kv_block, p.keys - i), -1));
  }
  if (p.q_segments == nullptr) return;
  q_segments_.assign(p.batch * q_stride_, -1);
  kv_segments_.assign(p.batch * kv_stride_, 0);
  for (std::int64_t b = 0; b < p.batch; ++b) {
    for (std::int64_t i = 0; i < p.queries; ++i) {
      const std::int32_t s = p.q_segments[b * p.queries + i];
      q_segments_[b * q_stride_ + i] = s == 0 ? -1 : s;
    }
    const std::int32_t* kv = p.kv_segments + b * p.keys;
    std::copy_n(kv, p.keys, kv_segments_.begin() + b * kv_stride_);
    for (std::int64_t i = 0; i < p.keys; i += kv_block) {
      kv_segment_blocks_.push_back(
          extent_of(kv + i, std::min(kv_block, p.keys - i), 0));
    }
  }
}

const std::int32_t* Visibility::q_segments(std::int64_t batch) const {
  return q_segments_.empty() ? nullptr : q_segments_.data() + batch * q_stride_;
}

const std::int32_t* Visibility::kv_segments(std::int64_t batch) const {
  return kv_segments_.empty() ? nullptr
                              : kv_segments_.data() + batch * kv_stride_;
}

void Visibility::hull(std::int64_t begin, std::int64_t end, Hull* hulls) const {
  for (std::int64_t t = 0; t < terms(); ++t) {
    Hull h{{kLast, -1}, {0, kLast}};
    for (std::int64_t i = begin; i < end; ++i) {
      const Interval seen{first(t)[i], last(t)[i]};
      h.outer = {std::min(h.outer.first, seen.first),
                 std::max(h.outer.last, seen.last)};
      h.inner = {std::max(h.inner.first, seen.first),
                 std::min(h.inner.last, seen.last)};
    }
    hulls[t] = h;
  }
}

Extent Visibility::key_extent(std::int64_t begin, std::int64_t end) const {
  return extent_of(kv_positions() + begin, end - begin, -1);
}

Extent Visibility::query_segments(std::int64_t batch, std::int64_t begin,
                                  std::int64_t end) const {
  if (q_segments_.empty()) return {0, 0, false};
  return extent_of(q_segments(batch) + begin, end - begin, -1);
}

BlockKind Visibility::classify(const Hull* hulls, const Extent& q_segments,
                               std::int64_t batch,
                               std::int64_t kv_block) const {
  const Extent& keys = kv_blocks_[kv_block];
  bool any = false;
  bool all = false;
  for (std::int64_t t = 0; t < terms(); ++t) {
    any = any || !apart(hulls[t].outer, keys);
    all = all ||
          (hulls[t].inner.first <= keys.min && keys.max <= hulls[t].inner.last);
  }
  if (!any) return BlockKind::kEmpty;
  all = all && !keys.padding;
  if (!q_segments_.empty()) {
    const Extent& kv = kv_segment_blocks_[batch * blocks_ + kv_block];
    if (q_segments.max < kv.min || kv.max < q_segments.min) {
      return BlockKind::kEmpty;
    }
    all = all && !kv.padding && !q_segments.padding && kv.min == kv.max &&
          q_segments.min == q_segments.max;
  }
  return all ? BlockKind::kFull : BlockKind::kPartial;
}

bool Visibility::group_empty(const Hull* hulls, std::int64_t group) const {
  for (std::int64_t t = 0; t < terms(); ++t) {
    if (!apart(hulls[t].outer, kv_groups_[group])) return false;
  }
  return true;
}

}  // namespace ringmax::attention::cpu
