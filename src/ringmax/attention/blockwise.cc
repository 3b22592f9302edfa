#include "ringmax/attention/blockwise.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "ringmax/graph/control.h"
#include "ringmax/graph/ops.h"

namespace ringmax::attention {
namespace {

using graph::Graph;
using graph::Value;
using graph::Values;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

Value scalar(Graph& g, std::int64_t value) {
  return graph::constant(g, Shape(DType::kI32, {}), static_cast<double>(value));
}

// Splits a length into blocks; the last one may reach past the end, so arrays
// are padded to count * size.
struct Blocks {
  std::int64_t size;
  std::int64_t count;
  std::int64_t padded() const { return size * count; }
};

Blocks blocks_of(std::int64_t length, std::int64_t wanted) {
  const std::int64_t count = (length + wanted - 1) / wanted;
  return {(length + count - 1) / count, count};
}

Value pad_dim(Value x, std::int64_t dim, std::int64_t size, double value = 0) {
  if (x.dim(dim) == size) return x;
  Dims low(static_cast<std::size_t>(x.rank()), 0);
  Dims high = low;
  high[static_cast<std::size_t>(dim)] = size - x.dim(dim);
  return graph::pad(x, std::move(low), std::move(high), value);
}

Value unpad_dim(Value x, std::int64_t dim, std::int64_t size) {
  return graph::slice_dim(x, dim, 0, size);
}

// The walk of one (query shard, key shard) pair.
struct Walk {
  Blocks q, kv;
  std::int64_t keys;  // real keys, without padding
  Value q_start, kv_start;
  const BlockwiseSettings& settings;
  Graph& g;

  // Key blocks that query block `i` can see: a prefix, maybe none.
  Value visible_blocks(Value i) const {
    if (!settings.causal) return scalar(g, kv.count);
    // Last position seen by the block's last row, relative to the first key.
    const Value last = q_start + (i + 1.0) * static_cast<double>(q.size) - 1.0 +
                       static_cast<double>(settings.causal_offset) - kv_start;
    // Truncating division is floor for what is not negative; what is below
    // the first key sees nothing.
    const Value blocks = last / static_cast<double>(kv.size) + 1.0;
    const Value capped = graph::minimum(blocks, scalar(g, kv.count));
    return graph::select(graph::less(last, scalar(g, 0)), scalar(g, 0), capped);
  }

  // Logits [B, K, G, q, kv] of one block pair, -inf where not seen.
  Value logits(Value q_blk, Value k_blk, Value i, Value j) const {
    Value s = graph::einsum("bkgsd,bktd->bkgst", q_blk, k_blk, DType::kF32) *
              settings.scale;
    const Dims pair = {q.size, kv.size};
    const Shape tile(DType::kI32, pair);
    const Value key =
        graph::iota(g, tile, 1) +
        graph::broadcast_to(j * static_cast<double>(kv.size), pair);
    Value seen;
    if (settings.causal) {
      const Value row =
          graph::iota(g, tile, 0) +
          graph::broadcast_to(i * static_cast<double>(q.size) + q_start +
                                  static_cast<double>(settings.causal_offset) -
                                  kv_start,
                              pair);
      seen = graph::less_equal(key, row);
    }
    if (kv.padded() != keys) {
      const Value real =
          graph::less(key, graph::constant(g, tile, static_cast<double>(keys)));
      seen = seen.valid() ? graph::logical_and(seen, real) : real;
    }
    if (settings.keys_end > 0) {
      const Value real = graph::less(
          key,
          graph::broadcast_to(scalar(g, settings.keys_end) - kv_start, pair));
      seen = seen.valid() ? graph::logical_and(seen, real) : real;
    }
    if (!seen.valid()) return s;
    return graph::select(graph::broadcast_to(seen, s.dims()), s,
                         graph::full_like(s, -kInfinity));
  }
};

Walk make_walk(Value q_BKGSD, Value kv_BKTE, Value q_start, Value kv_start,
               const BlockwiseSettings& settings) {
  return {blocks_of(q_BKGSD.dim(3), settings.block_q),
          blocks_of(kv_BKTE.dim(2), settings.block_kv),
          kv_BKTE.dim(2),
          q_start,
          kv_start,
          settings,
          *q_BKGSD.graph};
}

Value block_at(Value x, std::int64_t dim, Value index, std::int64_t size) {
  return graph::dynamic_slice_dim(x, dim, index * static_cast<double>(size),
                                  size);
}

Value put_block(Value x, Value block, std::int64_t dim, Value index,
                std::int64_t size) {
  return graph::dynamic_update_slice_dim(x, block, dim,
                                         index * static_cast<double>(size));
}

Value key_part(Value kv, std::int64_t d) {
  return graph::slice_dim(kv, kv.rank() - 1, 0, d);
}
Value value_part(Value kv, std::int64_t d) {
  return graph::slice_dim(kv, kv.rank() - 1, d, kv.dim(-1));
}

// x [..., S] spread over a new last dimension.
Value over_last(Value x, std::int64_t size) {
  Dims dims = x.dims();
  dims.push_back(size);
  Dims where;
  for (std::int64_t d = 0; d < x.rank(); ++d) where.push_back(d);
  return graph::broadcast_in_dim(x, std::move(dims), std::move(where));
}

// exp(x - row) where a row of -inf (nothing seen) gives 0, not NaN.
Value exp_minus(Value x, Value row) {
  const Value finite =
      graph::select(graph::is_finite(row), row, graph::zeros_like(row));
  return graph::exp(
      x - (x.rank() == row.rank() ? finite : over_last(finite, x.dim(-1))));
}

}  // namespace

SoftmaxState empty_state(Value q_BKGSD, std::int64_t value_dim) {
  Graph& g = *q_BKGSD.graph;
  const Dims& d = q_BKGSD.dims();
  const Shape row(DType::kF32, {d[0], d[1], d[2], d[3]});
  const Shape acc(DType::kF32, {d[0], d[1], d[2], d[3], value_dim});
  return {graph::constant(g, row, -kInfinity), graph::constant(g, row, 0),
          graph::constant(g, acc, 0)};
}

SoftmaxState attend_shard(const SoftmaxState& state, Value q_BKGSD,
                          Value kv_BKTE, Value q_start, Value kv_start,
                          const BlockwiseSettings& settings) {
  const Walk walk = make_walk(q_BKGSD, kv_BKTE, q_start, kv_start, settings);
  Graph& g = walk.g;
  const std::int64_t d = q_BKGSD.dim(4);
  const std::int64_t rows = q_BKGSD.dim(3);
  const Value q = pad_dim(q_BKGSD, 3, walk.q.padded());
  const Value kv = pad_dim(kv_BKTE, 2, walk.kv.padded());
  const Values init = {scalar(g, 0),
                       pad_dim(state.max_BKGS, 3, walk.q.padded(), -kInfinity),
                       pad_dim(state.sum_BKGS, 3, walk.q.padded()),
                       pad_dim(state.acc_BKGSV, 3, walk.q.padded())};
  const Values out = graph::while_loop(
      g, init,
      [&](const Values& c) {
        return graph::less(c[0], scalar(g, walk.q.count));
      },
      [&](const Values& c) {
        const Value i = c[0];
        const Value q_blk = block_at(q, 3, i, walk.q.size);
        const Value visible = walk.visible_blocks(i);
        const Values blocks = {scalar(g, 0), block_at(c[1], 3, i, walk.q.size),
                               block_at(c[2], 3, i, walk.q.size),
                               block_at(c[3], 3, i, walk.q.size)};
        const Values walked = graph::while_loop(
            g, blocks,
            [&](const Values& b) { return graph::less(b[0], visible); },
            [&](const Values& b) {
              const Value kv_blk = block_at(kv, 2, b[0], walk.kv.size);
              const Value s = walk.logits(q_blk, key_part(kv_blk, d), i, b[0]);
              const Value top = graph::maximum(b[1], graph::reduce_max(s, {4}));
              const Value p = exp_minus(s, top);
              const Value alpha = exp_minus(b[1], top);
              const Value value = value_part(kv_blk, d);
              const Value pv = graph::einsum("bkgst,bktv->bkgsv",
                                             graph::convert(p, value.dtype()),
                                             value, DType::kF32);
              return Values{b[0] + 1.0, top,
                            b[2] * alpha + graph::reduce_sum(p, {4}),
                            b[3] * over_last(alpha, pv.dim(4)) + pv};
            });
        return Values{i + 1.0, put_block(c[1], walked[1], 3, i, walk.q.size),
                      put_block(c[2], walked[2], 3, i, walk.q.size),
                      put_block(c[3], walked[3], 3, i, walk.q.size)};
      });
  return {unpad_dim(out[1], 3, rows), unpad_dim(out[2], 3, rows),
          unpad_dim(out[3], 3, rows)};
}

Value normalized(const SoftmaxState& state) {
  const Value empty =
      graph::equal(state.sum_BKGS, graph::zeros_like(state.sum_BKGS));
  const Value sum =
      graph::select(empty, graph::full_like(state.sum_BKGS, 1), state.sum_BKGS);
  return state.acc_BKGSV / over_last(sum, state.acc_BKGSV.dim(4));
}

Value log_sum_exp(const SoftmaxState& state) {
  return state.max_BKGS + graph::log(state.sum_BKGS);
}

ShardGradients attend_shard_backward(const ShardGradients& gradients,
                                     Value q_BKGSD, Value kv_BKTE,
                                     Value dout_BKGSV, Value lse_BKGS,
                                     Value delta_BKGS, Value q_start,
                                     Value kv_start,
                                     const BlockwiseSettings& settings) {
  const Walk walk = make_walk(q_BKGSD, kv_BKTE, q_start, kv_start, settings);
  Graph& g = walk.g;
  const std::int64_t d = q_BKGSD.dim(4);
  const std::int64_t rows = q_BKGSD.dim(3);
  const Value q = pad_dim(q_BKGSD, 3, walk.q.padded());
  const Value kv = pad_dim(kv_BKTE, 2, walk.kv.padded());
  const Value dout = pad_dim(dout_BKGSV, 3, walk.q.padded());
  // Padding rows have no gradient coming in; any finite statistic will do.
  const Value lse = pad_dim(lse_BKGS, 3, walk.q.padded());
  const Value delta = pad_dim(delta_BKGS, 3, walk.q.padded());
  const Values init = {scalar(g, 0),
                       pad_dim(gradients.dq_BKGSD, 3, walk.q.padded()),
                       pad_dim(gradients.dkv_BKTE, 2, walk.kv.padded())};
  const Values out = graph::while_loop(
      g, init,
      [&](const Values& c) {
        return graph::less(c[0], scalar(g, walk.q.count));
      },
      [&](const Values& c) {
        const Value i = c[0];
        const Value q_blk = block_at(q, 3, i, walk.q.size);
        const Value dout_blk = block_at(dout, 3, i, walk.q.size);
        const Value lse_blk = block_at(lse, 3, i, walk.q.size);
        const Value delta_blk = block_at(delta, 3, i, walk.q.size);
        const Value visible = walk.visible_blocks(i);
        const Values blocks = {scalar(g, 0), block_at(c[1], 3, i, walk.q.size),
                               c[2]};
        const Values walked = graph::while_loop(
            g, blocks,
            [&](const Values& b) { return graph::less(b[0], visible); },
            [&](const Values& b) {
              const Value kv_blk = block_at(kv, 2, b[0], walk.kv.size);
              const Value key = key_part(kv_blk, d);
              const Value value = value_part(kv_blk, d);
              const Value s = walk.logits(q_blk, key, i, b[0]);
              const Value p = exp_minus(s, lse_blk);
              const Value dp = graph::einsum("bkgsv,bktv->bkgst", dout_blk,
                                             value, DType::kF32);
              const Value ds =
                  p * (dp - over_last(delta_blk, dp.dim(4))) * settings.scale;
              const Value ds_in = graph::convert(ds, key.dtype());
              const Value dq =
                  graph::einsum("bkgst,bktd->bkgsd", ds_in, key, DType::kF32);
              const Value dk =
                  graph::einsum("bkgst,bkgsd->bktd", ds_in, q_blk, DType::kF32);
              const Value dv = graph::einsum(
                  "bkgst,bkgsv->bktv", graph::convert(p, dout_blk.dtype()),
                  dout_blk, DType::kF32);
              const Value sum = block_at(b[2], 2, b[0], walk.kv.size) +
                                graph::concatenate({dk, dv}, 3);
              return Values{b[0] + 1.0, b[1] + dq,
                            put_block(b[2], sum, 2, b[0], walk.kv.size)};
            });
        return Values{i + 1.0, put_block(c[1], walked[1], 3, i, walk.q.size),
                      walked[2]};
      });
  return {unpad_dim(out[1], 3, rows), unpad_dim(out[2], 2, kv_BKTE.dim(2))};
}

}  // namespace ringmax::attention
