#include "ringmax/attention/splash/splash.h"

#include <algorithm>

#include "ringmax/attention/splash/block_list.h"
#include "ringmax/attention/splash/kernel_math.h"
#include "ringmax/graph/ops.h"

namespace ringmax::attention::splash {

namespace g = ringmax::graph;

namespace {

std::int64_t round_up(std::int64_t n, std::int64_t to) {
  return (n + to - 1) / to * to;
}

// Appends `fill` to dimension `dim` up to `size`.
g::Value padded(g::Value x, std::int64_t dim, std::int64_t size, double fill) {
  if (x.dim(dim) == size) return x;
  Dims low(x.dims().size(), 0);
  Dims high = low;
  high[static_cast<std::size_t>(dim)] = size - x.dim(dim);
  return g::pad(x, low, high, fill);
}

g::Value merged(g::Value x, std::int64_t leading) {
  std::int64_t heads = 1;
  for (std::int64_t d = 0; d < leading; ++d) heads *= x.dim(d);
  Dims dims = {heads};
  dims.insert(dims.end(), x.dims().begin() + leading, x.dims().end());
  return g::reshape(x, dims);
}

SlotData padded_slots(const KernelSpec& spec, const KernelOperands& o) {
  SlotData slots;
  slots.q_positions_S = padded(o.q_positions_S, 0, spec.queries, -1);
  slots.kv_positions_T = padded(o.kv_positions_T, 0, spec.keys, -1);
  if (spec.segments) {
    slots.q_segments_BS = padded(o.q_segments_BS, 1, spec.queries, 0);
    slots.kv_segments_BT = padded(o.kv_segments_BT, 1, spec.keys, 0);
  }
  if (spec.tile) {
    const g::Value tile = g::convert(o.tile_ST, DType::kI32);
    slots.tile_ST = padded(padded(tile, 0, spec.queries, 0), 1, spec.keys, 0);
  }
  return slots;
}

void add_slots(const KernelSpec& s, const SlotData& slots,
               g::Values* operands) {
  operands->push_back(
      g::reshape(slots.q_positions_S, {s.query_blocks(), 1, s.block_q}));
  operands->push_back(
      g::reshape(slots.kv_positions_T, {s.key_blocks(), 1, s.block_kv}));
  if (s.segments) {
    operands->push_back(g::reshape(slots.q_segments_BS,
                                   {s.batch, s.query_blocks(), 1, s.block_q}));
    operands->push_back(g::reshape(slots.kv_segments_BT,
                                   {s.batch, s.key_blocks(), 1, s.block_kv}));
  }
  if (s.tile) operands->push_back(slots.tile_ST);
}

}  // namespace

KernelSpec forward_spec(const KernelRequest& r) {
  KernelSpec s;
  s.mask = r.mask;
  s.scale = r.scale;
  s.soft_cap = r.soft_cap;
  s.batch = r.batch;
  s.kv_heads = r.kv_heads;
  s.groups = r.groups;
  s.head_dim = r.head_dim;
  s.value_dim = r.value_dim;
  s.dtype = r.dtype;
  s.segments = r.segments;
  s.tile = r.tile;
  s.block_q =
      std::min(round_up(r.block_q, kLanes), round_up(r.queries, kLanes));
  s.block_kv = std::min(round_up(r.block_kv, kLanes), round_up(r.keys, kLanes));
  s.block_kv_compute = kLanes;
  for (const std::int64_t n : {256, 512}) {
    if (s.block_kv % n == 0) s.block_kv_compute = n;
  }
  s.queries = round_up(r.queries, s.block_q);
  s.keys = round_up(r.keys, s.block_kv);
  return s;
}

KernelPartial splash_forward(const KernelRequest& request,
                             const KernelOperands& operands,
                             const Caller& caller) {
  g::Scope scope(*operands.q_BKGSD.graph, "splash_forward");
  const KernelSpec s = forward_spec(request);
  const SlotData slots = padded_slots(s, operands);
  const BlockList list = block_list(s.mask, slots, s.block_q, s.block_kv);
  g::Values inputs = {list.length, list.entries};
  inputs.push_back(padded(merged(operands.q_BKGSD, 3), 1, s.queries, 0));
  inputs.push_back(padded(merged(operands.k_BKTD, 2), 1, s.keys, 0));
  inputs.push_back(padded(merged(operands.v_BKTV, 2), 1, s.keys, 0));
  add_slots(s, slots, &inputs);
  const g::Values results = caller(*forward_kernel(s), inputs);

  const auto cut = [&](g::Value x, std::int64_t dim, Dims tail) {
    Dims dims = {s.batch, s.kv_heads, s.groups, request.queries};
    dims.insert(dims.end(), tail.begin(), tail.end());
    return g::reshape(g::slice_dim(x, dim, 0, request.queries), dims);
  };
  KernelPartial partial;
  partial.out_BKGSV = cut(results[0], 1, {s.value_dim});
  partial.lse_BKGS = cut(g::slice_dim(results[1], 1, 0, 1), 2, {});
  partial.max_BKGS = cut(g::slice_dim(results[1], 1, 1, 2), 2, {});
  return partial;
}

}  // namespace ringmax::attention::splash
