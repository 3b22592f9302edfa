#include "ringmax/attention/mask.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "ringmax/attention/mask_rows.h"
#include "ringmax/base/error.h"

namespace ringmax::attention {
namespace {

// Calls visit(tile) for tiles of one stride that cover the rectangle, until it
// returns false.
template <typename Visit>
void for_each_tile(const PositionRun& queries, const PositionRun& keys,
                   const Visit& visit) {
  if (queries.empty() || keys.empty()) return;
  // The stride of a single element says nothing.
  const std::int64_t q_stride =
      queries.count > 1 ? queries.stride : keys.stride;
  const std::int64_t k_stride = keys.count > 1 ? keys.stride : q_stride;
  const std::int64_t stride = std::lcm(q_stride, k_stride);
  const PositionRun all_q(queries.first, q_stride, queries.count);
  const PositionRun all_k(keys.first, k_stride, keys.count);
  const std::int64_t q_parts = std::min(stride / q_stride, queries.count);
  const std::int64_t k_parts = std::min(stride / k_stride, keys.count);
  for (std::int64_t i = 0; i < q_parts; ++i) {
    const PositionRun q = all_q.every(stride / q_stride, i);
    for (std::int64_t j = 0; j < k_parts; ++j) {
      const PositionRun k = all_k.every(stride / k_stride, j);
      if (!visit(Tile{q.first, k.first, stride, q.count, k.count})) return;
    }
  }
}

std::uint64_t mixed(std::uint64_t hash, std::uint64_t value) {
  // Steele, Lea, Flood 2014 (SplitMix64), chained.
  std::uint64_t z = (hash ^ value) + 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

PositionRange meet(const PositionRange& a, const PositionRange& b) {
  return {std::max(a.begin, b.begin), std::min(a.end, b.end)};
}

}  // namespace

Mask Mask::full() { return Mask(Kind::kFull); }

Mask Mask::causal(std::int64_t offset) {
  if (offset < -kMaxMaskNumber || offset > kMaxMaskNumber) {
    fail_invalid("the offset of mask causal:{} must lie between {} and {}",
                 offset, -kMaxMaskNumber, kMaxMaskNumber);
  }
  return Mask(Kind::kCausal, offset);
}

Mask Mask::local(std::int64_t left, std::int64_t right) {
  if (left < 0 || right < 0) {
    fail_invalid(
        "mask local:{},{}: a window counts the keys to the left and to the "
        "right of its query, neither below 0; local:0,0 is the query itself",
        left, right);
  }
  if (left > kMaxMaskNumber || right > kMaxMaskNumber) {
    fail_invalid("mask local:{},{}: a window is at most {} to either side",
                 left, right, kMaxMaskNumber);
  }
  return Mask(Kind::kLocal, left, right);
}

Mask Mask::chunked(std::int64_t chunk) {
  if (chunk < 1 || chunk > kMaxMaskNumber) {
    fail_invalid("mask chunked:{}: a chunk has from 1 to {} tokens", chunk,
                 kMaxMaskNumber);
  }
  return Mask(Kind::kChunked, chunk);
}

Mask Mask::dense(std::shared_ptr<const DenseMask> array) {
  RINGMAX_CHECK(array != nullptr);
  Mask mask(Kind::kDense);
  mask.dense_ = std::move(array);
  return mask;
}

Mask Mask::combined(Kind kind, const Mask& a, const Mask& b) {
  std::vector<Mask> operands;
  for (const Mask* side : {&a, &b}) {
    if (side->kind_ == kind) {
      operands.insert(operands.end(), side->operands().begin(),
                      side->operands().end());
    } else {
      operands.push_back(*side);
    }
  }
  Mask mask(kind);
  mask.operands_ =
      std::make_shared<const std::vector<Mask>>(std::move(operands));
  return mask;
}

Mask operator&(const Mask& a, const Mask& b) {
  return Mask::combined(Mask::Kind::kAnd, a, b);
}

Mask operator|(const Mask& a, const Mask& b) {
  return Mask::combined(Mask::Kind::kOr, a, b);
}

const std::vector<Mask>& Mask::operands() const {
  static const std::vector<Mask> none;
  return operands_ ? *operands_ : none;
}

std::shared_ptr<const DenseMask> Mask::find_dense() const {
  if (dense_) return dense_;
  for (const Mask& operand : operands()) {
    if (auto found = operand.find_dense()) return found;
  }
  return nullptr;
}

void Mask::check_shape(std::int64_t queries, std::int64_t keys) const {
  if (dense_ && (dense_->queries() != queries || dense_->keys() != keys)) {
    fail_invalid(
        "the dense mask is [{}, {}], but there are {} queries and {} keys; it "
        "must be [queries, keys]",
        dense_->queries(), dense_->keys(), queries, keys);
  }
  for (const Mask& operand : operands()) operand.check_shape(queries, keys);
}

bool Mask::visible(std::int64_t query, std::int64_t key) const {
  switch (kind_) {
    case Kind::kFull:
      return true;
    case Kind::kCausal:
      return key <= query + a_;
    case Kind::kLocal:
      return query - a_ <= key && key <= query + b_;
    case Kind::kChunked:
      return key <= query && query / a_ == key / a_;
    case Kind::kDense:
      return dense_->visible(query, key);
    case Kind::kAnd:
      return std::all_of(operands_->begin(), operands_->end(),
                         [&](const Mask& m) { return m.visible(query, key); });
    case Kind::kOr:
      return std::any_of(operands_->begin(), operands_->end(),
                         [&](const Mask& m) { return m.visible(query, key); });
  }
  return false;
}

BlockKind Mask::classify(const PositionRun& queries,
                         const PositionRun& keys) const {
  bool some_full = false;
  bool some_empty = false;
  bool partial = false;
  for_each_tile(queries, keys, [&](const Tile& tile) {
    const BlockKind kind = classify_tile(*this, tile);
    some_full = some_full || kind == BlockKind::kFull;
    some_empty = some_empty || kind == BlockKind::kEmpty;
    partial = kind == BlockKind::kPartial || (some_full && some_empty);
    return !partial;
  });
  if (partial) return BlockKind::kPartial;
  return some_full ? BlockKind::kFull : BlockKind::kEmpty;
}

bool Mask::any(const PositionRun& queries, const PositionRun& keys) const {
  bool seen = false;
  for_each_tile(queries, keys, [&](const Tile& tile) {
    seen = any_in_tile(*this, tile);
    return !seen;
  });
  return seen;
}

std::int64_t Mask::count(const PositionRun& queries,
                         const PositionRun& keys) const {
  std::int64_t seen = 0;
  for_each_tile(queries, keys, [&](const Tile& tile) {
    seen += count_tile(*this, tile);
    return true;
  });
  return seen;
}

PositionRange Mask::key_hull(const PositionRun& queries) const {
  if (queries.empty()) return {};
  const std::int64_t first = queries.first;
  const std::int64_t last = queries.last();
  switch (kind_) {
    case Kind::kFull:
      return {-kUnbounded, kUnbounded};
    case Kind::kCausal:
      return {-kUnbounded, last + a_ + 1};
    case Kind::kLocal:
      return {first - a_, last + b_ + 1};
    case Kind::kChunked:
      return {first / a_ * a_, last + 1};
    case Kind::kDense:
      return {0, dense_->keys()};
    case Kind::kAnd: {
      PositionRange hull{-kUnbounded, kUnbounded};
      for (const Mask& m : *operands_) hull = meet(hull, m.key_hull(queries));
      return hull;
    }
    case Kind::kOr: {
      PositionRange hull;
      for (const Mask& m : *operands_) {
        const PositionRange next = m.key_hull(queries);
        if (next.empty()) continue;
        hull = hull.empty() ? next
                            : PositionRange{std::min(hull.begin, next.begin),
                                            std::max(hull.end, next.end)};
      }
      return hull;
    }
  }
  return {};
}

PositionRange Mask::key_core(const PositionRun& queries) const {
  if (queries.empty()) return {-kUnbounded, kUnbounded};
  const std::int64_t first = queries.first;
  const std::int64_t last = queries.last();
  switch (kind_) {
    case Kind::kFull:
      return {-kUnbounded, kUnbounded};
    case Kind::kCausal:
      return {-kUnbounded, first + a_ + 1};
    case Kind::kLocal:
      return {last - a_, first + b_ + 1};
    case Kind::kChunked:
      return {last / a_ * a_, first + 1};
    case Kind::kDense:
      return {};
    case Kind::kAnd: {
      PositionRange core{-kUnbounded, kUnbounded};
      for (const Mask& m : *operands_) core = meet(core, m.key_core(queries));
      return core;
    }
    case Kind::kOr: {
      PositionRange core;
      for (const Mask& m : *operands_) {
        const PositionRange next = m.key_core(queries);
        if (next.size() > core.size()) core = next;
      }
      return core;
    }
  }
  return {};
}

std::string Mask::to_string() const {
  switch (kind_) {
    case Kind::kFull:
      return "full";
    case Kind::kCausal:
      return a_ == 0 ? "causal" : fmt::format("causal:{}", a_);
    case Kind::kLocal:
      return fmt::format("local:{},{}", a_, b_);
    case Kind::kChunked:
      return fmt::format("chunked:{}", a_);
    case Kind::kDense:
      return "dense";
    case Kind::kAnd:
    case Kind::kOr:
      break;
  }
  std::string text;
  for (const Mask& operand : *operands_) {
    if (!text.empty()) text += kind_ == Kind::kAnd ? '&' : '|';
    const bool looser = kind_ == Kind::kAnd && operand.kind_ == Kind::kOr;
    text += looser ? "(" + operand.to_string() + ")" : operand.to_string();
  }
  return text;
}

std::uint64_t Mask::hash() const {
  std::uint64_t hash = mixed(0, static_cast<std::uint64_t>(kind_));
  hash = mixed(hash, static_cast<std::uint64_t>(a_));
  hash = mixed(hash, static_cast<std::uint64_t>(b_));
  if (dense_) {
    hash = mixed(hash, static_cast<std::uint64_t>(dense_->queries()));
    hash = mixed(hash, dense_->hash());
  }
  for (const Mask& operand : operands()) hash = mixed(hash, operand.hash());
  return hash;
}

bool operator==(const Mask& a, const Mask& b) {
  if (a.kind_ != b.kind_ || a.a_ != b.a_ || a.b_ != b.b_) return false;
  if (a.dense_ && a.dense_ != b.dense_ && !(*a.dense_ == *b.dense_)) {
    return false;
  }
  return a.operands_ == b.operands_ || a.operands() == b.operands();
}

}  // namespace ringmax::attention
