#include "ringmax/attention/splash/splash.h"

#include <algorithm>

#include "ringmax/attention/splash/backward_kernel.h"
#include "ringmax/attention/splash/block_list.h"
#include "ringmax/attention/splash/blocks.h"
#include "ringmax/attention/splash/forward_kernel.h"
#include "ringmax/attention/splash/kernel_math.h"
#include "ringmax/graph/control.h"
#include "ringmax/graph/ops.h"

namespace ringmax::attention::splash {

namespace g = ringmax::graph;

namespace {

// Appends `fill` to dimension `dim` up to `size`.
g::Value padded(g::Value x, std::int64_t dim, std::int64_t size, double fill) {
  if (x.dim(dim) == size) return x;
  Dims low(x.dims().size(), 0);
  Dims high = low;
  high[static_cast<std::size_t>(dim)] = size - x.dim(dim);
  return g::pad(x, low, high, fill);
}

SlotData padded_slots(const Mask& mask, const KernelSpec& s,
                      const KernelOperands& o) {
  SlotData slots;
  slots.rows = row_intervals(mask, padded(o.q_positions_S, 0, s.queries, -1));
  slots.kv_positions_T = padded(o.kv_positions_T, 0, s.keys, -1);
  if (s.segments) {
    slots.q_segments_BS = padded(o.q_segments_BS, 1, s.queries, 0);
    slots.kv_segments_BT = padded(o.kv_segments_BT, 1, s.keys, 0);
  }
  if (s.tile) {
    const g::Value tile = g::convert(o.tile_ST, DType::kI32);
    slots.tile_ST = padded(padded(tile, 0, s.queries, 0), 1, s.keys, 0);
  }
  return slots;
}

// The slots as the kernels take them.
void add_slots(const KernelSpec& s, const SlotData& slots,
               g::Values* operands) {
  g::Values bounds;
  for (const RowIntervals& row : slots.rows) {
    for (const g::Value bound : {row.low_S, row.high_S}) {
      bounds.push_back(g::reshape(bound, {s.query_blocks(), 1, s.block_q}));
    }
  }
  operands->push_back(g::concatenate(bounds, 1));
  operands->push_back(
      g::reshape(slots.kv_positions_T, {s.windows(), 1, s.window()}));
  if (!s.segments) return;
  operands->push_back(g::reshape(slots.q_segments_BS,
                                 {s.batch, s.query_blocks(), 1, s.block_q}));
  operands->push_back(
      g::reshape(slots.kv_segments_BT, {s.batch, s.windows(), 1, s.window()}));
}

// The walk of `groups` query heads: its length, works and places.
g::Values list_of(const KernelSpec& s, const SlotData& slots,
                  std::int64_t groups) {
  const BlockList list =
      block_list(slots, s.block_q, s.block_kv, s.window_parts, groups);
  return {list.length, list.works, list.places};
}

// [B, K, T, ...] -> [B*K, T, ...], T padded.
g::Value keys_by_head(const KernelSpec& s, g::Value x_BKTD) {
  const g::Value x = padded(x_BKTD, 2, s.keys, 0);
  return g::reshape(x, {s.batch * s.kv_heads, s.keys, x.dim(3)});
}

}  // namespace

KernelPartial splash_forward(const KernelRequest& request,
                             const KernelOperands& operands,
                             const Caller& caller) {
  g::Scope scope(*operands.q_BKGSD.graph, "splash_forward");
  KernelSpec s = forward_spec(request);
  const SlotData slots = padded_slots(request.mask, s, operands);
  s.intervals = static_cast<std::int64_t>(slots.rows.size());
  g::Values inputs = list_of(s, slots, 1);
  inputs.push_back(g::reshape(padded(operands.q_BKGSD, 3, s.queries, 0),
                              {s.heads(), s.queries, s.head_dim}));
  inputs.push_back(keys_by_head(s, operands.k_BKTD));
  inputs.push_back(keys_by_head(s, operands.v_BKTV));
  add_slots(s, slots, &inputs);
  if (s.tile) inputs.push_back(slots.tile_ST);
  const g::Values results = caller(*forward_kernel(s), inputs);

  const Dims rows = {s.batch, s.kv_heads, s.groups, request.queries};
  Dims wide = rows;
  wide.push_back(s.value_dim);
  const auto statistic = [&](std::int64_t which) {
    const g::Value x = g::reshape(g::slice_dim(results[1], 2, which, which + 1),
                                  {s.heads(), s.queries});
    return g::reshape(g::slice_dim(x, 1, 0, request.queries), rows);
  };
  return {g::reshape(g::slice_dim(results[0], 1, 0, request.queries), wide),
          statistic(0), statistic(1)};
}

namespace {

// Of one run of keys, which the request and the operands are cut to: adds to
// dq; dk and dv are the run's alone.
KernelGradients of_run(const KernelSpec& spec, const KernelRequest& request,
                       const KernelOperands& operands, g::Value dout_BKGSV,
                       g::Value lse_BKGS, g::Value delta_BKGS,
                       g::Value dq_so_far_BKGSD, const Caller& caller) {
  KernelSpec s = spec;
  const SlotData slots = padded_slots(request.mask, s, operands);
  s.intervals = static_cast<std::int64_t>(slots.rows.size());
  // [B, K, G, S, ...] -> [B*K, G*S, ...], S padded.
  const auto by_kv_head = [&](g::Value x) {
    x = padded(x, 3, s.queries, 0);
    Dims dims = {s.batch * s.kv_heads, s.groups * s.queries};
    dims.insert(dims.end(), x.dims().begin() + 4, x.dims().end());
    return g::reshape(x, dims);
  };
  g::Values inputs = list_of(s, slots, s.groups);
  inputs.push_back(by_kv_head(operands.q_BKGSD));
  inputs.push_back(keys_by_head(s, operands.k_BKTD));
  inputs.push_back(keys_by_head(s, operands.v_BKTV));
  inputs.push_back(by_kv_head(dout_BKGSV));
  inputs.push_back(
      g::concatenate({g::expand_dim(by_kv_head(lse_BKGS * kLog2E), 1),
                      g::expand_dim(by_kv_head(delta_BKGS), 1)},
                     1));
  add_slots(s, slots, &inputs);
  if (s.tile) inputs.push_back(g::transpose(slots.tile_ST, {1, 0}));
  inputs.push_back(by_kv_head(dq_so_far_BKGSD));
  const g::Values results = caller(*backward_kernel(s), inputs);

  const g::Value dq = g::reshape(
      results[0], {s.batch, s.kv_heads, s.groups, s.queries, s.head_dim});
  const auto of_keys = [&](g::Value x) {
    return g::reshape(g::slice_dim(x, 1, 0, request.keys),
                      {s.batch, s.kv_heads, request.keys, x.dim(2)});
  };
  return {g::slice_dim(dq, 3, 0, request.queries),
          of_keys(results[1]) * s.scale, of_keys(results[2])};
}

// Of all keys, one run after the other: one kernel in a loop, compiled once.
KernelGradients of_runs(const KernelSpec& s, const KernelRequest& request,
                        const KernelOperands& operands, g::Value dout_BKGSV,
                        g::Value lse_BKGS, g::Value delta_BKGS,
                        g::Value dq_so_far_BKGSD, const Caller& caller) {
  KernelRequest run = request;
  run.keys = s.keys;
  const std::int64_t runs = (request.keys + s.keys - 1) / s.keys;
  const std::int64_t all = runs * s.keys;
  KernelOperands whole = operands;
  whole.k_BKTD = padded(whole.k_BKTD, 2, all, 0);
  whole.v_BKTV = padded(whole.v_BKTV, 2, all, 0);
  whole.kv_positions_T = padded(whole.kv_positions_T, 0, all, -1);
  if (s.segments) {
    whole.kv_segments_BT = padded(whole.kv_segments_BT, 1, all, 0);
  }
  if (s.tile) whole.tile_ST = padded(whole.tile_ST, 1, all, 0);
  g::Graph& graph = *dout_BKGSV.graph;
  const auto nothing = [&](g::Value keys) {
    return g::constant(graph, Shape(DType::kF32, keys.dims()), 0);
  };
  g::ScanOptions options;
  options.length = runs;
  const g::Values sum =
      g::scan(
          graph,
          {dq_so_far_BKGSD, nothing(whole.k_BKTD), nothing(whole.v_BKTV)}, {},
          options,
          [&](g::Value i, const g::Values& carry, const g::Values&) {
            const g::Value at = i * static_cast<double>(s.keys);
            const auto cut = [&](g::Value x, std::int64_t dim) {
              return g::dynamic_slice_dim(x, dim, at, s.keys);
            };
            const auto put = [&](g::Value into, g::Value x) {
              return g::dynamic_update_slice_dim(into, x, 2, at);
            };
            KernelOperands o = whole;
            o.k_BKTD = cut(o.k_BKTD, 2);
            o.v_BKTV = cut(o.v_BKTV, 2);
            o.kv_positions_T = cut(o.kv_positions_T, 0);
            if (s.segments) o.kv_segments_BT = cut(o.kv_segments_BT, 1);
            if (s.tile) o.tile_ST = cut(o.tile_ST, 1);
            const KernelGradients part = of_run(s, run, o, dout_BKGSV, lse_BKGS,
                                                delta_BKGS, carry[0], caller);
            return g::ScanValues{{part.dq_BKGSD, put(carry[1], part.dk_BKTD),
                                  put(carry[2], part.dv_BKTV)},
                                 {}};
          })
          .carry;
  return {sum[0], g::slice_dim(sum[1], 2, 0, request.keys),
          g::slice_dim(sum[2], 2, 0, request.keys)};
}

}  // namespace

KernelGradients splash_backward(const KernelRequest& request,
                                const KernelOperands& operands,
                                g::Value dout_BKGSV, g::Value lse_BKGS,
                                g::Value delta_BKGS,
                                const KernelGradients& so_far,
                                const Caller& caller) {
  g::Scope scope(*operands.q_BKGSD.graph, "splash_backward");
  const KernelSpec s = backward_spec(request);
  const auto gradients = s.keys >= request.keys ? of_run : of_runs;
  const KernelGradients part =
      gradients(s, request, operands, dout_BKGSV, lse_BKGS, delta_BKGS,
                so_far.dq_BKGSD, caller);
  // Only sums wait for dk and dv so far, which may still be on their way round
  // a ring.
  return {part.dq_BKGSD, so_far.dk_BKTD + part.dk_BKTD,
          so_far.dv_BKTV + part.dv_BKTV};
}

}  // namespace ringmax::attention::splash
