#include "ringmax/attention/block_table.h"

#include <limits>

#include "ringmax/graph/ops.h"

namespace ringmax::attention {
namespace {

using graph::Value;

// [..., count * size] -> [..., count, size].
Value in_blocks(Value x, const Blocks& blocks) {
  Dims dims = x.dims();
  dims.back() = blocks.count;
  dims.push_back(blocks.size);
  return graph::reshape(x, std::move(dims));
}
Value block_min(Value x, const Blocks& blocks) {
  return graph::reduce_min(in_blocks(x, blocks), {x.rank()});
}
Value block_max(Value x, const Blocks& blocks) {
  return graph::reduce_max(in_blocks(x, blocks), {x.rank()});
}

// A vector over query blocks, or key blocks, spread over pairs; a leading
// dimension stays.
struct Pairs {
  Dims dims;  // [N, q.count, kv.count]
  Value of_query(Value x) const {
    return graph::broadcast_in_dim(x, dims,
                                   x.rank() == 1 ? Dims{1} : Dims{0, 1});
  }
  Value of_key(Value x) const {
    return graph::broadcast_in_dim(x, dims,
                                   x.rank() == 1 ? Dims{2} : Dims{0, 2});
  }
};

struct Kinds {
  Value some, all;  // bool [N, q.count, kv.count]
};

Value either(Value a, Value b) {
  return a.valid() ? graph::logical_or(a, b) : b;
}

Kinds by_position(const BlockTableInputs& in, const Pairs& pairs) {
  const Value k = in.kv_positions_T;
  const Value beyond =
      graph::full_like(k, static_cast<double>(kBeyondPositions));
  // Without padding, for what may be seen; with it, for what all is seen.
  const Value k_first = pairs.of_key(block_min(
      graph::select(graph::less(k, graph::zeros_like(k)), beyond, k), in.kv));
  const Value k_lowest = pairs.of_key(block_min(k, in.kv));
  const Value k_last = pairs.of_key(block_max(k, in.kv));
  Kinds kinds;
  for (const RowIntervals& row : in.rows) {
    const auto least = [&](Value x) {
      return pairs.of_query(block_min(x, in.q));
    };
    const auto most = [&](Value x) {
      return pairs.of_query(block_max(x, in.q));
    };
    kinds.some = either(
        kinds.some,
        graph::logical_and(graph::less_equal(least(row.low_S), k_last),
                           graph::less_equal(k_first, most(row.high_S))));
    kinds.all = either(
        kinds.all,
        graph::logical_and(graph::less_equal(most(row.low_S), k_lowest),
                           graph::less_equal(k_last, least(row.high_S))));
  }
  return kinds;
}

Kinds by_segment(const BlockTableInputs& in, const Pairs& pairs) {
  struct Bounds {
    Value lowest, first, last;  // with padding, without it, of all
  };
  const auto bounds = [](Value x, const Blocks& blocks) {
    const Value padding = graph::equal(x, graph::zeros_like(x));
    const Value beyond =
        graph::full_like(x, std::numeric_limits<std::int32_t>::max());
    return Bounds{block_min(x, blocks),
                  block_min(graph::select(padding, beyond, x), blocks),
                  block_max(x, blocks)};
  };
  const Bounds q = bounds(in.q_segments_BS, in.q);
  const Bounds k = bounds(in.kv_segments_BT, in.kv);
  const Value q_lowest = pairs.of_query(q.lowest);
  const Value q_last = pairs.of_query(q.last);
  const Value k_lowest = pairs.of_key(k.lowest);
  const Value k_last = pairs.of_key(k.last);
  const Value one =
      graph::logical_and(graph::equal(q_lowest, q_last),
                         graph::logical_and(graph::equal(k_lowest, k_last),
                                            graph::equal(q_last, k_last)));
  return {
      graph::logical_and(graph::less_equal(pairs.of_query(q.first), k_last),
                         graph::less_equal(pairs.of_key(k.first), q_last)),
      graph::logical_and(one, graph::less(graph::zeros_like(q_last), q_last))};
}

Kinds by_tile(const BlockTableInputs& in, const Pairs& pairs) {
  const Value tiles = graph::reshape(
      in.tile_ST, {in.q.count, in.q.size, in.kv.count, in.kv.size});
  const auto over_slots = [&](graph::ReduceKind kind) {
    return graph::broadcast_in_dim(graph::reduce(tiles, {1, 3}, kind),
                                   pairs.dims, {1, 2});
  };
  return {over_slots(graph::ReduceKind::kOr),
          over_slots(graph::ReduceKind::kAnd)};
}

// From "is on the list" to jumps: for every j the first listed block from j on.
// Quadratic in the key blocks, but one pass, and small beside the work of a
// single block.
Value jumps(Value listed) {
  const std::int64_t count = listed.dim(2);
  const Dims every = {listed.dim(0), listed.dim(1), count + 1, count};
  graph::Graph& g = *listed.graph;
  const Value from = graph::iota(g, Shape(DType::kI32, every), 2);
  const Value block = graph::iota(g, Shape(DType::kI32, every), 3);
  const Value ahead =
      graph::logical_and(graph::broadcast_in_dim(listed, every, {0, 1, 3}),
                         graph::less_equal(from, block));
  return graph::minimum(
      graph::reduce_min(
          graph::select(ahead, block,
                        graph::full_like(block, static_cast<double>(count))),
          {3}),
      graph::constant(g, Shape(DType::kI32, {every[0], every[1], every[2]}),
                      static_cast<double>(count)));
}

}  // namespace

Blocks blocks_of(std::int64_t length, std::int64_t wanted) {
  const std::int64_t count = (length + wanted - 1) / wanted;
  return {(length + count - 1) / count, count};
}

BlockTable make_block_table(const BlockTableInputs& in) {
  const bool segments = in.q_segments_BS.valid();
  const Pairs pairs{
      {segments ? in.q_segments_BS.dim(0) : 1, in.q.count, in.kv.count}};
  Kinds kinds = by_position(in, pairs);
  const auto meet = [&](const Kinds& other) {
    kinds = {graph::logical_and(kinds.some, other.some),
             graph::logical_and(kinds.all, other.all)};
  };
  if (segments) meet(by_segment(in, pairs));
  if (in.tile_ST.valid()) meet(by_tile(in, pairs));
  return {jumps(graph::logical_and(kinds.some, kinds.all)),
          jumps(graph::logical_and(kinds.some, graph::logical_not(kinds.all)))};
}

}  // namespace ringmax::attention
