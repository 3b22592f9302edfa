#include "ringmax/attention/splash/block_list.h"

#include <algorithm>

#include "ringmax/attention/splash/kernel_math.h"
#include "ringmax/base/error.h"
#include "ringmax/graph/ops.h"

namespace ringmax::attention::splash {

namespace g = ringmax::graph;

namespace {

// Whether any, and whether all pairs of two blocks are visible; bool
// [lists, query blocks, key blocks].
struct Verdict {
  g::Value any, all;
};
Verdict both(const Verdict& a, const Verdict& b) {
  return {g::logical_and(a.any, b.any), g::logical_and(a.all, b.all)};
}
Verdict either(const Verdict& a, const Verdict& b) {
  return {g::logical_or(a.any, b.any), g::logical_or(a.all, b.all)};
}

// Smallest and largest number of each block; [lists, blocks].
struct Range {
  g::Value low, high;
};
Range range_of(g::Value slots_LN, std::int64_t block) {
  const g::Value x =
      g::reshape(slots_LN, {slots_LN.dim(0), slots_LN.dim(1) / block, block});
  return {g::reduce_min(x, {2}), g::reduce_max(x, {2})};
}

class Classifier {
 public:
  Classifier(const SlotData& slots, std::int64_t block_q, std::int64_t block_kv)
      : slots_(slots),
        block_q_(block_q),
        block_kv_(block_kv),
        query_blocks_(slots.rows[0].low_S.dim(0) / block_q),
        key_blocks_(slots.kv_positions_T.dim(0) / block_kv),
        lists_(slots.q_segments_BS.valid() ? slots.q_segments_BS.dim(0) : 1),
        keys_(range_of(g::expand_dim(slots.kv_positions_T, 0), block_kv)) {}

  // Kind and strict bit of every pair, int32 [lists, query blocks, key blocks].
  g::Value kinds() {
    Verdict law = in_interval(slots_.rows[0]);
    for (std::size_t i = 1; i < slots_.rows.size(); ++i) {
      law = either(law, in_interval(slots_.rows[i]));
    }
    const Verdict rest = outside_law();
    const Verdict verdict = both(law, rest);
    const g::Value zero = g::constant(
        *verdict.any.graph, Shape(DType::kI32, verdict.any.dims()), 0);
    const auto code = [&](TileKind kind, std::int64_t bits = 0) {
      return g::full_like(
          zero, static_cast<double>(static_cast<std::int64_t>(kind) | bits));
    };
    g::Value partial = code(TileKind::kPartial);
    if (block_q_ == block_kv_ && slots_.rows.size() == 1) {
      for (const bool strict : {false, true}) {
        partial = g::select(
            g::logical_and(rest.all, triangular(strict)),
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
  g::Value yes() const {
    return g::constant(
        *slots_.kv_positions_T.graph,
        Shape(DType::kBool, {lists_, query_blocks_, key_blocks_}), 1);
  }

  // Padded queries have intervals without keys, and no interval reaches down
  // to the position of padded keys.
  Verdict in_interval(const RowIntervals& rows) const {
    const Range low = range_of(g::expand_dim(rows.low_S, 0), block_q_);
    const Range high = range_of(g::expand_dim(rows.high_S, 0), block_q_);
    const auto q = [&](g::Value x) { return spread(x, true); };
    const auto k = [&](g::Value x) { return spread(x, false); };
    return {g::logical_and(g::less_equal(q(low.low), k(keys_.high)),
                           g::less_equal(k(keys_.low), q(high.high))),
            g::logical_and(g::less_equal(q(low.high), k(keys_.low)),
                           g::less_equal(k(keys_.high), q(high.low)))};
  }

  // Segments and the dense tile.
  Verdict outside_law() const {
    Verdict verdict = {yes(), yes()};
    if (slots_.q_segments_BS.valid()) {
      const Range q = range_of(slots_.q_segments_BS, block_q_);
      const Range kv = range_of(slots_.kv_segments_BT, block_kv_);
      const g::Value ql = spread(q.low, true);
      const g::Value qh = spread(q.high, true);
      const g::Value kl = spread(kv.low, false);
      const g::Value kh = spread(kv.high, false);
      const g::Value one = g::full_like(ql, 1);
      g::Value all = g::logical_and(g::equal(ql, qh), g::equal(kl, kh));
      all = g::logical_and(all, g::equal(ql, kl));
      all = g::logical_and(all, g::greater_equal(ql, one));
      // 0 is padding; a segment that both blocks reach is at least 1.
      const g::Value any =
          g::logical_and(g::less_equal(g::maximum(ql, one), kh),
                         g::less_equal(g::maximum(kl, one), qh));
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
  // the upper bounds decide, and they rise as the key positions do.
  g::Value triangular(bool strict) const {
    const RowIntervals& rows = slots_.rows[0];
    const g::Value high = g::reshape(rows.high_S, {query_blocks_, 1, block_q_});
    const g::Value keys =
        g::reshape(slots_.kv_positions_T, {1, key_blocks_, block_kv_});
    const auto rising = [](g::Value x) {
      const std::int64_t n = x.dim(2);
      return g::reduce(
          g::less(g::slice_dim(x, 2, 0, n - 1), g::slice_dim(x, 2, 1, n)), {2},
          g::ReduceKind::kAnd);
    };
    const auto compared = [&](std::int64_t from_row, std::int64_t from_key,
                              g::CompareDirection direction) {
      const std::int64_t n = block_q_ - std::max(from_row, from_key);
      const Dims dims = {query_blocks_, key_blocks_, n};
      const auto part = [&](g::Value x, std::int64_t from) {
        return g::broadcast_to(g::slice_dim(x, 2, from, from + n), dims);
      };
      return g::reduce(
          g::compare(part(keys, from_key), part(high, from_row), direction),
          {2}, g::ReduceKind::kAnd);
    };
    // The last key that a query sees, and the first that it does not.
    const g::Value seen = strict ? compared(1, 0, g::CompareDirection::kLe)
                                 : compared(0, 0, g::CompareDirection::kLe);
    const g::Value unseen = strict ? compared(0, 0, g::CompareDirection::kGt)
                                   : compared(0, 1, g::CompareDirection::kGt);
    const Dims pairs = {query_blocks_, key_blocks_};
    g::Value good = g::logical_and(seen, unseen);
    good = g::logical_and(good, g::broadcast_to(rising(high), pairs));
    good = g::logical_and(good, g::broadcast_to(rising(keys), pairs));
    const Range low = range_of(g::expand_dim(rows.low_S, 0), block_q_);
    return g::logical_and(
        g::broadcast_to(g::expand_dim(good, 0),
                        {lists_, query_blocks_, key_blocks_}),
        g::less_equal(spread(low.high, true), spread(keys_.low, false)));
  }

  const SlotData& slots_;
  std::int64_t block_q_, block_kv_;
  std::int64_t query_blocks_, key_blocks_, lists_;
  Range keys_;
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

g::Value shifted_query(g::Value block) {
  return g::shift_left(block, g::full_like(block, kQueryShift));
}

}  // namespace

BlockList block_list(const SlotData& slots, std::int64_t block_q,
                     std::int64_t block_kv, std::int64_t window_parts,
                     std::int64_t groups) {
  g::Graph& graph = *slots.kv_positions_T.graph;
  g::Scope scope(graph, "block_list");
  g::Value kinds = Classifier(slots, block_q, block_kv).kinds();
  const std::int64_t lists = kinds.dim(0);
  const std::int64_t query_blocks = kinds.dim(1);
  const std::int64_t windows = kinds.dim(2) / window_parts;
  if (std::max(groups * query_blocks, windows) > kMaxBlocks) {
    fail_invalid(
        "attention: {} query heads of {} query blocks, and {} windows of keys: "
        "both must be at most {}; larger block_q or block_kv would do",
        groups, query_blocks, windows, kMaxBlocks);
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
  const g::Value work =
      kinds + bit_where(g::equal(before, zero), kFirstBit) +
      bit_where(g::equal(before + one, by_row(rows)), kLastBit);
  const g::Value spot = shifted_query(query_block) + window;
  const g::Value at = g::select(kept, by_row(sums_before(rows)) + before,
                                g::full_like(zero, -1));

  // Entry i of head h comes at h * length + i. It is found by comparison with
  // all: on a TPU a scatter of so few takes longer, to run and to compile.
  const g::Value lengths = g::reduce_sum(rows, {1});  // [lists]
  const g::Value length = g::reduce_max(lengths, {0});
  const std::int64_t space = query_blocks * windows;
  const Shape list(DType::kI32, {lists, groups * space});
  const g::Value i = g::iota(graph, list, 1);
  const g::Value of_one = g::broadcast_to(length, list.dims);
  const g::Value inside = g::remainder(i, of_one);
  const Dims pairs = {lists, groups * space, space};
  const auto flat = [&](g::Value x) {
    return g::broadcast_to(g::reshape(x, {lists, 1, space}), pairs);
  };
  const g::Value here =
      g::equal(flat(at), g::broadcast_to(g::expand_dim(inside, 2), pairs));
  const auto compacted = [&](g::Value x) {
    const g::Value wide = flat(x);
    return g::reduce_sum(g::select(here, wide, g::zeros_like(wide)), {2});
  };
  const g::Value beyond = g::greater_equal(
      inside, g::broadcast_to(g::expand_dim(lengths, 1), list.dims));
  const g::Value idle =
      g::full_like(i, static_cast<double>((query_blocks - 1) << kQueryShift));
  const g::Value head = g::minimum(
      g::divide(i, of_one), g::full_like(i, static_cast<double>(groups - 1)));
  const g::Value places =
      g::select(beyond, idle, compacted(spot)) +
      shifted_query(head * static_cast<double>(query_blocks));
  const Dims all = {lists * groups * space};
  return {g::reshape(compacted(work), all), g::reshape(places, all),
          length * static_cast<double>(groups)};
}

}  // namespace ringmax::attention::splash
