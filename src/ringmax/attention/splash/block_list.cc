#include "ringmax/attention/splash/block_list.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "ringmax/attention/splash/kernel_math.h"
#include "ringmax/base/error.h"
#include "ringmax/graph/ops.h"

namespace ringmax::attention::splash {

namespace g = ringmax::graph;

namespace {

constexpr double kBig = std::numeric_limits<std::int32_t>::max() / 2;

// Whether any, and whether all pairs of two blocks are visible; bool
// [lists, query blocks, key blocks].
struct Verdict {
  g::Value any, all;
};
Verdict both(const Verdict& a, const Verdict& b) {
  return {g::logical_and(a.any, b.any), g::logical_and(a.all, b.all)};
}

// Smallest and largest number of each block that is at least `floor`, and
// whether all are. [lists, blocks].
struct Range {
  g::Value low, high, whole;
};
Range range_of(g::Value slots_LN, std::int64_t block, double floor) {
  const g::Value x =
      g::reshape(slots_LN, {slots_LN.dim(0), slots_LN.dim(1) / block, block});
  const g::Value real = g::greater_equal(x, g::full_like(x, floor));
  return {g::reduce_min(g::select(real, x, g::full_like(x, kBig)), {2}),
          g::reduce_max(g::select(real, x, g::full_like(x, -kBig)), {2}),
          g::reduce(real, {2}, g::ReduceKind::kAnd)};
}

class Classifier {
 public:
  Classifier(const Mask& mask, const SlotData& slots, std::int64_t block_q,
             std::int64_t block_kv)
      : mask_(mask), slots_(slots), block_q_(block_q), block_kv_(block_kv) {
    const g::Value q = g::expand_dim(slots.q_positions_S, 0);
    const g::Value kv = g::expand_dim(slots.kv_positions_T, 0);
    q_ = range_of(q, block_q, 0);
    kv_ = range_of(kv, block_kv, 0);
    query_blocks_ = q.dim(1) / block_q;
    key_blocks_ = kv.dim(1) / block_kv;
    lists_ = slots.q_segments_BS.valid() ? slots.q_segments_BS.dim(0) : 1;
  }

  // Kind and strict bit of every pair, int32 [lists, query blocks, key blocks].
  g::Value kinds() {
    Verdict verdict = both(occupied(), law(mask_));
    Verdict rest = outside_law();
    verdict = both(verdict, rest);
    const g::Value zero = g::constant(
        *verdict.any.graph, Shape(DType::kI32, verdict.any.dims()), 0);
    const auto code = [&](TileKind kind, std::int64_t bits = 0) {
      return g::full_like(
          zero, static_cast<double>(static_cast<std::int64_t>(kind) | bits));
    };
    g::Value partial = code(TileKind::kPartial);
    if (block_q_ == block_kv_) {
      const g::Value good = g::logical_and(occupied().all, rest.all);
      for (const bool strict : {false, true}) {
        partial = g::select(
            g::logical_and(good, triangular(strict)),
            code(TileKind::kTriangular, strict ? kStrictBit : 0), partial);
      }
    }
    return g::select(verdict.all, code(TileKind::kFull),
                     g::select(verdict.any, partial, zero));
  }

 private:
  g::Value spread(g::Value x_LN, bool query) const {
    return g::broadcast_to(g::expand_dim(x_LN, query ? 2 : 1),
                           {lists_, query_blocks_, key_blocks_});
  }
  g::Value q_low() const { return spread(q_.low, true); }
  g::Value q_high() const { return spread(q_.high, true); }
  g::Value k_low() const { return spread(kv_.low, false); }
  g::Value k_high() const { return spread(kv_.high, false); }
  g::Value yes() const { return g::equal(q_low(), q_low()); }

  Verdict occupied() const {
    return {g::logical_and(g::less_equal(q_low(), q_high()),
                           g::less_equal(k_low(), k_high())),
            g::logical_and(spread(q_.whole, true), spread(kv_.whole, false))};
  }

  // key <= query + offset.
  Verdict at_most(std::int64_t offset) const {
    const double o = clamped_offset(offset);
    return {g::less_equal(k_low(), q_high() + o),
            g::less_equal(k_high(), q_low() + o)};
  }
  // key >= query - left.
  Verdict at_least(std::int64_t left) const {
    const double l = clamped_offset(left);
    return {g::greater_equal(k_high(), q_low() - l),
            g::greater_equal(k_low(), q_high() - l)};
  }
  Verdict same_chunk(std::int64_t chunk) const {
    const auto of = [&](g::Value x) {
      return g::divide(x, g::full_like(x, clamped_offset(chunk)));
    };
    const g::Value ql = of(q_low());
    const g::Value qh = of(q_high());
    const g::Value kl = of(k_low());
    const g::Value kh = of(k_high());
    return {g::logical_and(g::less_equal(ql, kh), g::less_equal(kl, qh)),
            g::logical_and(g::logical_and(g::equal(ql, qh), g::equal(kl, kh)),
                           g::equal(ql, kl))};
  }

  Verdict law(const Mask& mask) const {
    switch (mask.kind()) {
      case Mask::Kind::kFull:
        return {yes(), yes()};
      case Mask::Kind::kCausal:
        return at_most(mask.offset());
      case Mask::Kind::kLocal:
        return both(at_most(mask.right()), at_least(mask.left()));
      case Mask::Kind::kChunked:
        return both(at_most(0), same_chunk(mask.chunk()));
      case Mask::Kind::kAnd:
      case Mask::Kind::kOr: {
        Verdict verdict = law(mask.operands()[0]);
        for (std::size_t i = 1; i < mask.operands().size(); ++i) {
          const Verdict next = law(mask.operands()[i]);
          if (mask.kind() == Mask::Kind::kAnd) {
            verdict = both(verdict, next);
          } else {
            verdict = {g::logical_or(verdict.any, next.any),
                       g::logical_or(verdict.all, next.all)};
          }
        }
        return verdict;
      }
      case Mask::Kind::kDense:
        break;
    }
    fail(ErrorCode::kInternal, "a dense mask reaches a kernel as a tile");
  }

  // Segments and the dense tile.
  Verdict outside_law() const {
    Verdict verdict = {yes(), yes()};
    if (slots_.q_segments_BS.valid()) {
      const Range q = range_of(slots_.q_segments_BS, block_q_, 1);
      const Range kv = range_of(slots_.kv_segments_BT, block_kv_, 1);
      const g::Value ql = spread(q.low, true);
      const g::Value qh = spread(q.high, true);
      const g::Value kl = spread(kv.low, false);
      const g::Value kh = spread(kv.high, false);
      g::Value all =
          g::logical_and(spread(q.whole, true), spread(kv.whole, false));
      all = g::logical_and(all, g::equal(ql, qh));
      all = g::logical_and(all, g::equal(kl, kh));
      all = g::logical_and(all, g::equal(ql, kl));
      const g::Value any =
          g::logical_and(g::less_equal(ql, kh), g::less_equal(kl, qh));
      verdict = both(verdict, {any, all});
    }
    if (slots_.tile_ST.valid()) {
      const g::Value tile = g::reshape(
          g::not_equal(slots_.tile_ST, g::zeros_like(slots_.tile_ST)),
          {query_blocks_, block_q_, key_blocks_, block_kv_});
      const auto over = [&](g::ReduceKind kind) {
        return g::broadcast_to(g::expand_dim(g::reduce(tile, {1, 3}, kind), 0),
                               {lists_, query_blocks_, key_blocks_});
      };
      verdict =
          both(verdict, {over(g::ReduceKind::kOr), over(g::ReduceKind::kAnd)});
    }
    return verdict;
  }

  // Where query slot r sees key slot c of a pair exactly when r >= c (r > c):
  // one upper bound decides, all else sees everything, positions rise.
  g::Value triangular(bool strict) const {
    Verdict rest = {yes(), yes()};
    std::vector<std::int64_t> bounds;
    if (!split(mask_, &bounds, &rest) || bounds.size() != 1) {
      return g::logical_not(yes());
    }
    const double offset = clamped_offset(bounds[0]);
    const g::Value q =
        g::reshape(slots_.q_positions_S, {query_blocks_, 1, block_q_}) + offset;
    const g::Value kv =
        g::reshape(slots_.kv_positions_T, {1, key_blocks_, block_kv_});
    const auto rising = [](g::Value x) {
      const std::int64_t n = x.dim(2);
      return g::reduce(
          g::less(g::slice_dim(x, 2, 0, n - 1), g::slice_dim(x, 2, 1, n)), {2},
          g::ReduceKind::kAnd);
    };
    const Dims pairs = {query_blocks_, key_blocks_};
    const auto compared = [&](std::int64_t q_from, std::int64_t k_from,
                              g::CompareDirection direction) {
      const std::int64_t n = block_q_ - std::max(q_from, k_from);
      const Dims dims = {query_blocks_, key_blocks_, n};
      return g::reduce(
          g::compare(
              g::broadcast_to(g::slice_dim(kv, 2, k_from, k_from + n), dims),
              g::broadcast_to(g::slice_dim(q, 2, q_from, q_from + n), dims),
              direction),
          {2}, g::ReduceKind::kAnd);
    };
    // The last pair that is seen and the first that is not.
    const g::Value seen = strict ? compared(1, 0, g::CompareDirection::kLe)
                                 : compared(0, 0, g::CompareDirection::kLe);
    const g::Value unseen = strict ? compared(0, 0, g::CompareDirection::kGt)
                                   : compared(0, 1, g::CompareDirection::kGt);
    g::Value good = g::logical_and(seen, unseen);
    good = g::logical_and(good, g::broadcast_to(rising(q), pairs));
    good = g::logical_and(good, g::broadcast_to(rising(kv), pairs));
    return g::logical_and(g::broadcast_to(g::expand_dim(good, 0),
                                          {lists_, query_blocks_, key_blocks_}),
                          rest.all);
  }

  // Takes a conjunction apart into its upper bounds and the rest.
  bool split(const Mask& mask, std::vector<std::int64_t>* bounds,
             Verdict* rest) const {
    switch (mask.kind()) {
      case Mask::Kind::kCausal:
        bounds->push_back(mask.offset());
        return true;
      case Mask::Kind::kLocal:
        bounds->push_back(mask.right());
        *rest = both(*rest, at_least(mask.left()));
        return true;
      case Mask::Kind::kChunked:
        bounds->push_back(0);
        *rest = both(*rest, same_chunk(mask.chunk()));
        return true;
      case Mask::Kind::kAnd:
        return std::all_of(
            mask.operands().begin(), mask.operands().end(),
            [&](const Mask& m) { return split(m, bounds, rest); });
      default:
        return false;
    }
  }

  const Mask& mask_;
  const SlotData& slots_;
  std::int64_t block_q_, block_kv_;
  std::int64_t query_blocks_, key_blocks_, lists_;
  Range q_, kv_;
};

// Sums of what stands before each element along the last dimension.
g::Value sums_before(g::Value x) {
  const std::int64_t n = x.dim(-1);
  Dims dims = x.dims();
  dims.push_back(n);
  const auto last = static_cast<std::int64_t>(dims.size()) - 1;
  const Shape shape(DType::kI32, dims);
  const g::Value earlier = g::less(g::iota(*x.graph, shape, last),
                                   g::iota(*x.graph, shape, last - 1));
  const g::Value wide = g::broadcast_to(g::expand_dim(x, last - 1), dims);
  return g::reduce_sum(g::select(earlier, wide, g::zeros_like(wide)), {last});
}

}  // namespace

BlockList block_list(const Mask& mask, const SlotData& slots,
                     std::int64_t block_q, std::int64_t block_kv,
                     std::int64_t window_parts) {
  g::Graph& graph = *slots.q_positions_S.graph;
  g::Scope scope(graph, "block_list");
  g::Value kinds = Classifier(mask, slots, block_q, block_kv).kinds();
  const std::int64_t lists = kinds.dim(0);
  const std::int64_t query_blocks = kinds.dim(1);
  const std::int64_t windows = kinds.dim(2) / window_parts;
  if (std::max(query_blocks, windows) > kMaxBlocks) {
    fail_invalid(
        "attention: a shard has {} query blocks and {} windows of keys, more "
        "than {}; larger block_q or block_kv would do",
        query_blocks, windows, kMaxBlocks);
  }
  // The parts of a window side by side in the bits of one number.
  kinds = g::reshape(kinds, {lists, query_blocks, windows, window_parts});
  const g::Value place =
      g::iota(graph, Shape(DType::kI32, kinds.dims()), 3) * kPartBits;
  kinds = g::reduce_sum(g::shift_left(kinds, place), {3});

  const Shape shape(DType::kI32, kinds.dims());
  const g::Value zero = g::constant(graph, shape, 0);
  const g::Value one = g::constant(graph, shape, 1);
  const g::Value active = g::not_equal(kinds, zero);
  // A row without work keeps its first entry.
  const g::Value row_works = g::broadcast_to(
      g::expand_dim(g::reduce(active, {2}, g::ReduceKind::kOr), 2), shape.dims);
  const g::Value query_block = g::iota(graph, shape, 1);
  const g::Value window = g::iota(graph, shape, 2);
  const g::Value kept = g::logical_or(
      active,
      g::logical_and(g::logical_not(row_works), g::equal(window, zero)));
  const g::Value count = g::select(kept, one, zero);

  const g::Value before = sums_before(count);
  const g::Value rows = g::reduce_sum(count, {2});
  const auto by_row = [&](g::Value x) {
    return g::broadcast_to(g::expand_dim(x, 2), shape.dims);
  };
  const auto bit_where = [&](g::Value where, std::int64_t bit) {
    return g::select(where, g::full_like(zero, static_cast<double>(bit)), zero);
  };
  const g::Value packed =
      kinds + bit_where(g::equal(before, zero), kFirstBit) +
      bit_where(g::equal(before + one, by_row(rows)), kLastBit) +
      g::shift_left(query_block, g::full_like(zero, kQueryShift)) +
      g::shift_left(window, g::full_like(zero, kWindowShift));

  const std::int64_t length = query_blocks * windows;
  const g::Value lengths = g::reduce_sum(rows, {1});  // [lists]
  g::Value at = by_row(sums_before(rows)) + before;
  at = at + g::iota(graph, shape, 0) * static_cast<double>(length);
  at = g::select(kept, at, g::full_like(at, -1));
  const Shape flat(DType::kI32, {lists * length});
  const g::Value scattered = g::scatter_add_rows(g::constant(graph, flat, 0),
                                                 g::reshape(at, flat.dims),
                                                 g::reshape(packed, flat.dims));
  const g::Value index =
      g::remainder(g::iota(graph, flat, 0),
                   g::constant(graph, flat, static_cast<double>(length)));
  const g::Value beyond = g::greater_equal(
      index,
      g::reshape(g::broadcast_to(g::expand_dim(lengths, 1), {lists, length}),
                 flat.dims));
  const g::Value idle = g::full_like(
      scattered, static_cast<double>((query_blocks - 1) << kQueryShift));
  return {g::select(beyond, idle, scattered), g::reduce_max(lengths, {0})};
}

BlockList repeat_list(const BlockList& list, std::int64_t lists,
                      std::int64_t groups, std::int64_t query_blocks) {
  g::Graph& graph = *list.entries.graph;
  if (groups * query_blocks > kMaxBlocks) {
    fail_invalid(
        "attention: {} query heads of {} query blocks are more than {} rows; a "
        "larger block_q would do",
        groups, query_blocks, kMaxBlocks);
  }
  const std::int64_t length = list.entries.dim(0) / lists;
  const Dims dims = {lists, groups * length};
  const Shape shape(DType::kI32, dims);
  const g::Value at = g::iota(graph, shape, 1);
  const g::Value of_one = g::broadcast_to(list.length, dims);
  // Lists are shorter than the space for them: entry i of head h comes at
  // h * length + i.
  const g::Value head = g::divide(at, of_one);
  const g::Value inside = g::remainder(at, of_one);
  const g::Value list_index = g::iota(graph, shape, 0);
  const g::Value source = inside + list_index * static_cast<double>(length);
  const g::Value rows =
      g::take_rows(g::reshape(list.entries, {lists * length, 1}),
                   g::reshape(source, {lists * groups * length}));
  const g::Value offset =
      g::minimum(head, g::full_like(head, static_cast<double>(groups - 1)));
  const g::Value entries =
      g::reshape(rows, dims) +
      g::shift_left(offset * static_cast<double>(query_blocks),
                    g::full_like(offset, kQueryShift));
  return {g::reshape(entries, {lists * groups * length}),
          list.length * static_cast<double>(groups)};
}

}  // namespace ringmax::attention::splash
