// Legend: N = batch * kv_heads, the independent walks; T one block of keys, R
// the rows of one tile: group * queries of a block; D, V head dims.
#include "ringmax/attention/blockwise.h"

#include <fmt/format.h>

#include <functional>
#include <limits>
#include <string>
#include <utility>

#include "ringmax/attention/block_table.h"
#include "ringmax/attention/mask_graph.h"
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

Value pad_dim(Value x, std::int64_t dim, std::int64_t size, double value = 0) {
  if (x.dim(dim) == size) return x;
  Dims low(static_cast<std::size_t>(x.rank()), 0);
  Dims high = low;
  high[static_cast<std::size_t>(dim)] = size - x.dim(dim);
  return graph::pad(x, std::move(low), std::move(high), value);
}

// x [R] spread over the keys of a tile, [T, R].
Value over_keys(Value x_R, const Dims& tile) {
  return graph::broadcast_in_dim(x_R, tile, {1});
}

// exp(x - row), where a row of -inf (nothing seen yet) gives 0, not NaN.
Value exp_minus(Value x, Value row_R) {
  const Value finite =
      graph::select(graph::is_finite(row_R), row_R, graph::zeros_like(row_R));
  return graph::exp(x - (x.rank() == 1 ? finite : over_keys(finite, x.dims())));
}

// One (batch, kv head, query block) of the walk.
struct Place {
  Value n;      // walk
  Value table;  // row of the block table: the batch row, or 0
  Value batch;
  Value i;  // query block
};

class Walk {
 public:
  Walk(const KernelRequest& request, const KernelOperands& o,
       const KernelRequest::BlockLengths& blocks)
      : g_(*o.q_BKGSD.graph),
        r_(request),
        walks_(request.batch * request.kv_heads),
        q_(blocks_of(request.queries, blocks.q)),
        kv_(blocks_of(request.keys, blocks.kv)) {
    check_operands(request, o);
    // Walks and kv heads side by side, lengths in whole blocks.
    q_NGSD_ = rows(o.q_BKGSD);
    k_NTD_ = keys(o.k_BKTD);
    v_NTV_ = keys(o.v_BKTV);
    BlockTableInputs in;
    in.q = q_;
    in.kv = kv_;
    in.rows =
        row_intervals(r_.mask, pad_dim(o.q_positions_S, 0, q_.padded(), -1));
    in.kv_positions_T = pad_dim(o.kv_positions_T, 0, kv_.padded(), -1);
    if (r_.segments) {
      in.q_segments_BS = pad_dim(o.q_segments_BS, 1, q_.padded());
      in.kv_segments_BT = pad_dim(o.kv_segments_BT, 1, kv_.padded());
    }
    if (r_.tile) {
      in.tile_ST = pad_dim(pad_dim(o.tile_ST, 0, q_.padded()), 1, kv_.padded());
    }
    table_ = make_block_table(in);
    laws_ = std::move(in);
    if (r_.segments) {
      // Padding of one side equals no segment of the other.
      const Value q = laws_.q_segments_BS;
      laws_.q_segments_BS = graph::select(graph::equal(q, graph::zeros_like(q)),
                                          graph::full_like(q, -1), q);
    }
  }

  // [B, K, G, S, E] -> [N, G, padded S, E], and [B, K, G, S] likewise.
  Value rows(Value x) const {
    Dims dims = {walks_, r_.groups, r_.queries};
    if (x.rank() == 5) dims.push_back(x.dim(4));
    return pad_dim(graph::reshape(x, std::move(dims)), 2, q_.padded());
  }
  Value unrows(Value x) const {
    Dims dims = {r_.batch, r_.kv_heads, r_.groups, r_.queries};
    if (x.rank() == 4) dims.push_back(x.dim(3));
    return graph::reshape(graph::slice_dim(x, 2, 0, r_.queries),
                          std::move(dims));
  }
  // [B, K, T, E] -> [N, padded T, E].
  Value keys(Value x) const {
    return pad_dim(graph::reshape(x, {walks_, r_.keys, x.dim(3)}), 1,
                   kv_.padded());
  }
  Value unkeys(Value x) const {
    return graph::reshape(graph::slice_dim(x, 1, 0, r_.keys),
                          {r_.batch, r_.kv_heads, r_.keys, x.dim(2)});
  }

  // Rows of one query block: [N, G, S, E] -> [R, E], [N, G, S] -> [R].
  Value row_block(Value x, const Place& at) const {
    std::vector<Value> start = {at.n, scalar(g_, 0), slot(at.i, q_)};
    Dims sizes = {1, r_.groups, q_.size};
    Dims dims = {r_.groups * q_.size};
    if (x.rank() == 4) {
      start.push_back(scalar(g_, 0));
      sizes.push_back(x.dim(3));
      dims.push_back(x.dim(3));
    }
    return graph::reshape(graph::dynamic_slice(x, start, std::move(sizes)),
                          std::move(dims));
  }
  Value put_row_block(Value x, Value block, const Place& at) const {
    std::vector<Value> start = {at.n, scalar(g_, 0), slot(at.i, q_)};
    Dims dims = {1, r_.groups, q_.size};
    if (x.rank() == 4) {
      start.push_back(scalar(g_, 0));
      dims.push_back(x.dim(3));
    }
    return graph::dynamic_update_slice(
        x, graph::reshape(block, std::move(dims)), start);
  }
  // Keys of one block: [N, T, E] -> [T, E].
  Value key_block(Value x, const Place& at, Value j) const {
    return graph::reshape(
        graph::dynamic_slice(x, {at.n, slot(j, kv_), scalar(g_, 0)},
                             {1, kv_.size, x.dim(2)}),
        {kv_.size, x.dim(2)});
  }
  Value add_key_block(Value x, Value block, const Place& at, Value j) const {
    const std::vector<Value> start = {at.n, slot(j, kv_), scalar(g_, 0)};
    const Value old = graph::dynamic_slice(x, start, {1, kv_.size, x.dim(2)});
    return graph::dynamic_update_slice(
        x, old + graph::reshape(block, old.dims()), start);
  }

  // Calls body for every (batch, kv head, query block); `carry` goes through.
  Values each_query_block(
      const Values& carry,
      const std::function<Values(const Place&, const Values&)>& body) const {
    Values init = {scalar(g_, 0)};
    init.insert(init.end(), carry.begin(), carry.end());
    const Value end = scalar(g_, walks_ * q_.count);
    Values out = graph::while_loop(
        g_, init, [&](const Values& c) { return graph::less(c[0], end); },
        [&](const Values& c) {
          const auto divided = [&](Value x, std::int64_t by) {
            return by == 1 ? x : graph::divide(x, scalar(g_, by));
          };
          Place at;
          at.n = divided(c[0], q_.count);
          at.i = c[0] - at.n * static_cast<double>(q_.count);
          at.batch = divided(at.n, r_.kv_heads);
          at.table = r_.segments ? at.batch : scalar(g_, 0);
          Values next = body(at, Values(c.begin() + 1, c.end()));
          next.insert(next.begin(), c[0] + 1.0);
          return next;
        });
    out.erase(out.begin());
    return out;
  }

  // Calls body for every key block that the query block has to see; `masked`
  // says whether it holds pairs that are not visible.
  Values each_key_block(
      const Place& at, Values carry,
      const std::function<Values(Value j, bool masked, const Values&)>& body)
      const {
    for (const bool masked : {false, true}) {
      const Value list = masked ? table_.partial : table_.full;
      const auto jump = [&](Value from) {
        return graph::reshape(
            graph::dynamic_slice(list, {at.table, at.i, from}, {1, 1, 1}), {});
      };
      Values init = {jump(scalar(g_, 0))};
      init.insert(init.end(), carry.begin(), carry.end());
      const Value end = scalar(g_, kv_.count);
      Values out = graph::while_loop(
          g_, init, [&](const Values& c) { return graph::less(c[0], end); },
          [&](const Values& c) {
            Values next = body(c[0], masked, Values(c.begin() + 1, c.end()));
            next.insert(next.begin(), jump(c[0] + 1.0));
            return next;
          });
      out.erase(out.begin());
      carry = std::move(out);
    }
    return carry;
  }

  // Which pairs of one tile are visible, bool [T, R].
  Value seen(const Place& at, Value j) const {
    const auto query_part = [&](Value x_S) {
      return graph::dynamic_slice_dim(x_S, 0, slot(at.i, q_), q_.size);
    };
    std::vector<RowIntervals> block;
    for (const RowIntervals& row : laws_.rows) {
      block.push_back({query_part(row.low_S), query_part(row.high_S)});
    }
    Value pairs_TS =
        seen_TS(block, graph::dynamic_slice_dim(laws_.kv_positions_T, 0,
                                                slot(j, kv_), kv_.size));
    const Dims pair = pairs_TS.dims();
    if (r_.segments) {
      const auto part = [&](Value x, Value start, std::int64_t size) {
        return graph::reshape(
            graph::dynamic_slice(x, {at.batch, start}, {1, size}), {size});
      };
      const Value q = part(laws_.q_segments_BS, slot(at.i, q_), q_.size);
      const Value k = part(laws_.kv_segments_BT, slot(j, kv_), kv_.size);
      pairs_TS = graph::logical_and(
          pairs_TS, graph::equal(graph::broadcast_in_dim(q, pair, {1}),
                                 graph::broadcast_in_dim(k, pair, {0})));
    }
    if (r_.tile) {
      pairs_TS = graph::logical_and(
          pairs_TS,
          graph::transpose(graph::dynamic_slice(laws_.tile_ST,
                                                {slot(at.i, q_), slot(j, kv_)},
                                                {q_.size, kv_.size}),
                           {1, 0}));
    }
    return graph::reshape(graph::broadcast_in_dim(
                              pairs_TS, {kv_.size, r_.groups, q_.size}, {0, 2}),
                          {kv_.size, r_.groups * q_.size});
  }

  struct Logits {
    Value value_TR;
    Value slope_TR;  // of the soft cap; invalid without one
  };
  Logits logits(Value q_RD, Value k_TD, const Place& at, Value j,
                bool masked) const {
    Logits made;
    made.value_TR = dot("td,rd->tr", k_TD, q_RD) * r_.scale;
    if (r_.soft_cap > 0) {
      const Value capped = graph::tanh(made.value_TR / r_.soft_cap);
      made.slope_TR = 1.0 - capped * capped;
      made.value_TR = capped * r_.soft_cap;
    }
    if (masked) {
      made.value_TR =
          graph::select(seen(at, j), made.value_TR,
                        graph::full_like(made.value_TR, -kInfinity));
    }
    return made;
  }

  // Operands in the request's dtype, sums in float32.
  Value dot(std::string_view spec, Value a, Value b) const {
    return graph::einsum(spec, graph::convert(a, r_.dtype),
                         graph::convert(b, r_.dtype), DType::kF32,
                         r_.dtype == DType::kF32 ? graph::Precision::kHighest
                                                 : graph::Precision::kDefault);
  }

  Value constant_rows(double value, std::int64_t width = 0) const {
    Dims dims = {walks_, r_.groups, q_.padded()};
    if (width > 0) dims.push_back(width);
    return graph::constant(g_, Shape(DType::kF32, std::move(dims)), value);
  }

  Graph& g() const { return g_; }
  std::int64_t tile_rows() const { return r_.groups * q_.size; }
  Value q() const { return q_NGSD_; }
  Value k() const { return k_NTD_; }
  Value v() const { return v_NTV_; }

 private:
  Value slot(Value block, const Blocks& blocks) const {
    return block * static_cast<double>(blocks.size);
  }

  Graph& g_;
  const KernelRequest& r_;
  std::int64_t walks_;
  Blocks q_, kv_;
  Value q_NGSD_, k_NTD_, v_NTV_;
  BlockTableInputs laws_;
  BlockTable table_;
};

class StableHloBackend : public Backend {
 public:
  std::string_view name() const override { return "stablehlo"; }

  std::optional<std::string> refusal(const KernelRequest& request,
                                     const hw::Target&) const override {
    if (request.dtype != DType::kF32 && request.dtype != DType::kBF16) {
      return fmt::format("it computes float32 and bfloat16, not {}",
                         dtype_name(request.dtype));
    }
    return std::nullopt;
  }

  KernelPartial forward(const KernelRequest& request,
                        const KernelOperands& operands) const override {
    const Walk walk(request, operands, request.forward_blocks);
    const Values out = walk.each_query_block(
        {walk.constant_rows(0, request.value_dim), walk.constant_rows(0),
         walk.constant_rows(-kInfinity)},
        [&](const Place& at, const Values& c) {
          const Value q_RD = walk.row_block(walk.q(), at);
          const Shape row(DType::kF32, {walk.tile_rows()});
          const Values sums = walk.each_key_block(
              at,
              {graph::constant(walk.g(), row, -kInfinity),
               graph::constant(walk.g(), row, 0),
               graph::constant(
                   walk.g(),
                   Shape(DType::kF32, {request.value_dim, walk.tile_rows()}),
                   0)},
              [&](Value j, bool masked, const Values& b) {
                return add_block(walk, at, q_RD, j, masked, b);
              });
          const Value empty = graph::equal(sums[1], graph::zeros_like(sums[1]));
          const Value sum =
              graph::select(empty, graph::full_like(sums[1], 1), sums[1]);
          const Value out_VR = sums[2] / over_keys(sum, sums[2].dims());
          return Values{
              walk.put_row_block(c[0], graph::transpose(out_VR, {1, 0}), at),
              walk.put_row_block(c[1], sums[1], at),
              walk.put_row_block(c[2], sums[0], at)};
        });
    return {walk.unrows(out[0]), walk.unrows(out[1]), walk.unrows(out[2])};
  }

  KernelGradients backward(const KernelRequest& request,
                           const KernelOperands& operands, Value dout_BKGSV,
                           Value lse_BKGS, Value delta_BKGS,
                           const KernelGradients& so_far) const override {
    const Walk walk(request, operands, request.backward_blocks);
    const Value dout = walk.rows(dout_BKGSV);
    const Value lse = walk.rows(lse_BKGS);
    const Value delta = walk.rows(delta_BKGS);
    const Values out = walk.each_query_block(
        {walk.rows(so_far.dq_BKGSD), walk.keys(so_far.dk_BKTD),
         walk.keys(so_far.dv_BKTV)},
        [&](const Place& at, const Values& c) {
          const Rows rows{walk.row_block(walk.q(), at),
                          walk.row_block(dout, at), walk.row_block(lse, at),
                          walk.row_block(delta, at)};
          const Values sums = walk.each_key_block(
              at, {walk.row_block(c[0], at), c[1], c[2]},
              [&](Value j, bool masked, const Values& b) {
                return add_gradients(request, walk, at, rows, j, masked, b);
              });
          return Values{walk.put_row_block(c[0], sums[0], at), sums[1],
                        sums[2]};
        });
    return {walk.unrows(out[0]), walk.unkeys(out[1]), walk.unkeys(out[2])};
  }

 private:
  struct Rows {
    Value q_RD, dout_RV, lse_R, delta_R;
  };

  // Online softmax: {max [R], sum [R], weighted values [V, R]} of one more
  // block.
  static Values add_block(const Walk& walk, const Place& at, Value q_RD,
                          Value j, bool masked, const Values& b) {
    const Value s =
        walk.logits(q_RD, walk.key_block(walk.k(), at, j), at, j, masked)
            .value_TR;
    const Value top = graph::maximum(b[0], graph::reduce_max(s, {0}));
    const Value p = exp_minus(s, top);
    const Value alpha = exp_minus(b[0], top);
    const Value pv = walk.dot("tv,tr->vr", walk.key_block(walk.v(), at, j), p);
    return {top, b[1] * alpha + graph::reduce_sum(p, {0}),
            b[2] * over_keys(alpha, pv.dims()) + pv};
  }

  // {dq of the query block [R, D], dk [N, T, D], dv [N, T, V]} with one more
  // block.
  static Values add_gradients(const KernelRequest& request, const Walk& walk,
                              const Place& at, const Rows& rows, Value j,
                              bool masked, const Values& b) {
    const Value k_TD = walk.key_block(walk.k(), at, j);
    const Value v_TV = walk.key_block(walk.v(), at, j);
    const Walk::Logits s = walk.logits(rows.q_RD, k_TD, at, j, masked);
    const Dims& tile = s.value_TR.dims();
    const Value p = graph::exp(s.value_TR - over_keys(rows.lse_R, tile));
    const Value dp = walk.dot("tv,rv->tr", v_TV, rows.dout_RV);
    Value ds = p * (dp - over_keys(rows.delta_R, tile)) * request.scale;
    if (s.slope_TR.valid()) ds = ds * s.slope_TR;
    return {
        b[0] + walk.dot("tr,td->rd", ds, k_TD),
        walk.add_key_block(b[1], walk.dot("tr,rd->td", ds, rows.q_RD), at, j),
        walk.add_key_block(b[2], walk.dot("tr,rv->tv", p, rows.dout_RV), at,
                           j)};
  }
};

}  // namespace

const Backend& stablehlo_backend() {
  static const StableHloBackend backend;
  return backend;
}

}  // namespace ringmax::attention
