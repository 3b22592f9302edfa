#include "ringmax/attention/attend.h"

#include <limits>
#include <utility>
#include <vector>

#include "ringmax/attention/heads.h"
#include "ringmax/attention/partial.h"
#include "ringmax/attention/shard.h"
#include "ringmax/base/array.h"
#include "ringmax/base/error.h"
#include "ringmax/graph/control.h"
#include "ringmax/graph/ops.h"
#include "ringmax/graph/parallel.h"

namespace ringmax::attention {
namespace {

using graph::Graph;
using graph::Scope;
using graph::Value;
using graph::Values;
using mesh::PartitionSpec;

// The values that go through custom_vjp and into a manual computation, as
// lists: which are there depends on the inputs.
struct Lists {
  bool segments = false;
  bool sinks = false;

  explicit Lists(const AttendInputs& in)
      : segments(in.q_segments_BS.valid()), sinks(in.sinks_H.valid()) {}

  Values values(const AttendInputs& in) const {
    Values list = {in.q_BSHD, in.k_BTKD, in.v_BTKV};
    if (segments) {
      list.insert(list.end(), {in.q_segments_BS, in.kv_segments_BT});
    }
    if (sinks) list.push_back(in.sinks_H);
    return list;
  }
  AttendInputs inputs(const Values& list) const {
    AttendInputs in;
    in.q_BSHD = list[0];
    in.k_BTKD = list[1];
    in.v_BTKV = list[2];
    if (segments) {
      in.q_segments_BS = list[3];
      in.kv_segments_BT = list[4];
    }
    if (sinks) in.sinks_H = list[segments ? 5 : 3];
    return in;
  }
  std::size_t size() const {
    return 3u + (segments ? 2u : 0u) + (sinks ? 1u : 0u);
  }
};

struct Specs {
  PartitionSpec heads_BSHE, rows_BSH, tokens_BS, sinks_H, tile_ST;

  explicit Specs(const AttendPlan& plan)
      : heads_BSHE{plan.batch_axes, plan.sequence_axes, plan.head_axes, {}},
        rows_BSH{plan.batch_axes, plan.sequence_axes, plan.head_axes},
        tokens_BS{plan.batch_axes, plan.sequence_axes},
        sinks_H{plan.head_axes} {
    // The queries that a device works for, not those that it keeps.
    std::vector<std::string> axes = plan.sequence_axes;
    std::erase(axes, plan.ulysses_axis);
    tile_ST = PartitionSpec{axes, {}};
  }

  std::vector<PartitionSpec> of_inputs(const Lists& lists) const {
    std::vector<PartitionSpec> specs(3, heads_BSHE);
    if (lists.segments) specs.insert(specs.end(), 2, tokens_BS);
    if (lists.sinks) specs.push_back(sinks_H);
    return specs;
  }
};

// Whether query slot s sees key slot t, bool [S, T] in the order of the
// layouts.
Value tile_of(Graph& g, const AttendPlan& plan) {
  const std::vector<std::int64_t> queries = plan.q_layout.positions();
  const std::vector<std::int64_t> keys = plan.kv_layout.positions();
  HostArray tile(Shape(DType::kBool, {static_cast<std::int64_t>(queries.size()),
                                      static_cast<std::int64_t>(keys.size())}));
  auto at = tile.raw<std::uint8_t>().begin();
  for (const std::int64_t q : queries) {
    for (const std::int64_t k : keys) {
      *at++ = q < plan.q_layout.tokens() && k < plan.kv_layout.tokens() &&
              plan.tile_mask->visible(q, k);
    }
  }
  return graph::constant(g, tile);
}

// A device's inputs as the kernel takes them, heads shared out.
ShardInputs shard_inputs(const AttendPlan& plan, const AttendInputs& in,
                         Value tile_ST) {
  const auto keys = [&](Value x) {
    return swap_heads(
        to_heads(copy_heads(x, plan.kv_copies), plan.ulysses_axis));
  };
  const auto segments = [&](Value x) {
    return x.valid() && !plan.ulysses_axis.empty()
               ? graph::all_gather(x, plan.ulysses_axis, 1)
               : x;
  };
  ShardInputs shard;
  shard.q_BKGSD = split_heads(to_heads(in.q_BSHD, plan.ulysses_axis),
                              plan.request.kv_heads);
  shard.q_segments_BS = segments(in.q_segments_BS);
  shard.kv = {keys(in.k_BTKD), keys(in.v_BTKV), segments(in.kv_segments_BT)};
  shard.tile_ST = tile_ST;
  return shard;
}

// Sinks f32 of the heads that this device works for, [K, G].
Value local_sinks(const AttendPlan& plan, Value sinks_H) {
  Value sinks = graph::convert(sinks_H, DType::kF32);
  const std::int64_t heads = plan.request.kv_heads * plan.request.groups;
  if (!plan.ulysses_axis.empty()) {
    sinks = graph::dynamic_slice_dim(
        sinks, 0,
        graph::axis_index(*sinks.graph, plan.ulysses_axis) *
            static_cast<double>(heads),
        heads);
  }
  return graph::reshape(sinks, {plan.request.kv_heads, plan.request.groups});
}

// out, lse with the sink, max and sum of the keys: in the order of the inputs.
Values forward(const AttendPlan& plan, const AttendInputs& in, Value tile_ST) {
  const KernelPartial keys =
      shard_forward(plan, shard_inputs(plan, in, tile_ST));
  KernelPartial whole = keys;
  if (in.sinks_H.valid()) {
    whole = with_sinks(keys, local_sinks(plan, in.sinks_H));
  }
  const auto home = [&](Value x) {
    return to_sequence(join_heads(x), plan.ulysses_axis);
  };
  return {home(graph::convert(whole.out_BKGSV, in.q_BSHD.dtype())),
          home(log_sum_exp(whole)), home(keys.max_BKGS), home(keys.sum_BKGS)};
}

Value over_last(Value x_BSH, const Dims& dims) {
  return graph::broadcast_in_dim(x_BSH, dims, {0, 1, 2});
}

// What the forward pass keeps.
struct Kept {
  Value out_BSHV;
  Value max_BSH, sum_BSH;  // of the keys
};

// dq, dk, dv in the dtypes of q, k and v, and dsinks of this device's rows.
Values backward(const AttendPlan& plan, const AttendInputs& in,
                const Kept& kept, Value dout_BSHV, Value tile_ST) {
  const Value sees = graph::is_finite(kept.max_BSH);
  const auto or_zero = [&](Value x) {
    return graph::select(
        x.rank() == sees.rank() ? sees : over_last(sees, x.dims()), x,
        graph::zeros_like(x));
  };
  // What a row that sees nothing is given may be anything, infinities too.
  Value dout = or_zero(dout_BSHV);
  Value delta = graph::reduce_sum(graph::convert(kept.out_BSHV, DType::kF32) *
                                      graph::convert(dout, DType::kF32),
                                  {3});
  Value max = or_zero(kept.max_BSH);
  Value sum = kept.sum_BSH;
  Value dsinks;
  if (in.sinks_H.valid()) {
    const Value sinks = graph::broadcast_in_dim(
        graph::convert(in.sinks_H, DType::kF32), max.dims(), {2});
    const Value top = graph::maximum(max, sinks);
    const Value in_sinks = graph::exp(sinks - top);
    sum = sum * graph::exp(max - top) + in_sinks;
    max = top;
    // A sink's probability times (0 - delta): its value is nothing.
    dsinks = graph::reduce_sum(graph::negate(in_sinks / sum * delta), {0, 1});
  }
  sum = graph::select(sees, sum, graph::full_like(sum, 1));
  Value lse = max;
  if (plan.request.dtype == DType::kF32) {
    // max + log(sum) would round the logarithm away next to a large maximum.
    delta = delta / sum;
    dout = dout / over_last(sum, dout.dims());
  } else {
    // Inputs are rounded far more than that; dout need not be a second time.
    lse = lse + graph::log(sum);
  }
  const auto rows = [&](Value x) {
    return split_heads(to_heads(x, plan.ulysses_axis), plan.request.kv_heads);
  };
  const KernelGradients made =
      shard_backward(plan, shard_inputs(plan, in, tile_ST), rows(dout),
                     rows(or_zero(lse)), rows(delta));
  const auto keys = [&](Value x, DType dtype) {
    return graph::convert(
        sum_copies(to_sequence(swap_heads(x), plan.ulysses_axis),
                   plan.kv_copies),
        dtype);
  };
  Values gradients = {
      to_sequence(join_heads(graph::convert(made.dq_BKGSD, in.q_BSHD.dtype())),
                  plan.ulysses_axis),
      keys(made.dk_BKTD, in.k_BTKD.dtype()),
      keys(made.dv_BKTV, in.v_BTKV.dtype())};
  if (dsinks.valid()) {
    std::vector<std::string> axes = plan.batch_axes;
    axes.insert(axes.end(), plan.sequence_axes.begin(),
                plan.sequence_axes.end());
    if (!axes.empty()) dsinks = graph::all_reduce(dsinks, axes);
    gradients.push_back(graph::convert(dsinks, in.sinks_H.dtype()));
  }
  return gradients;
}

}  // namespace

AttendPlan plan_of(const AttendInputs& in, const AttendSettings& settings) {
  const auto shape = [](Value x) {
    return x.valid() ? std::optional(x.shape()) : std::nullopt;
  };
  return plan_attend(
      {in.q_BSHD.shape(), in.k_BTKD.shape(), in.v_BTKV.shape(),
       shape(in.q_segments_BS), shape(in.kv_segments_BT), shape(in.sinks_H)},
      settings, in.q_BSHD.graph->mesh());
}

AttendResult attend(const AttendInputs& inputs,
                    const AttendSettings& settings) {
  return attend(inputs, plan_of(inputs, settings));
}

AttendResult attend(const AttendInputs& inputs, const AttendPlan& plan) {
  Graph& g = *inputs.q_BSHD.graph;
  const Scope scope(g, "attention");
  const Lists lists(inputs);
  const Specs specs(plan);
  // A tile is a constant that goes into the manual computation with the rest.
  const auto with_tile = [&](Values& in, std::vector<PartitionSpec>& in_specs) {
    if (!plan.tile_mask) return;
    in.push_back(tile_of(g, plan));
    in_specs.push_back(specs.tile_ST);
  };
  const auto tile_in = [&](const Values& shards) {
    return plan.tile_mask ? shards.back() : Value{};
  };

  const auto make_forward = [&](const Values& given) {
    Values in = given;
    std::vector<PartitionSpec> in_specs = specs.of_inputs(lists);
    with_tile(in, in_specs);
    Values made = graph::manual_computation(
        g, in, in_specs,
        {specs.heads_BSHE, specs.rows_BSH, specs.rows_BSH, specs.rows_BSH},
        [&](const Values& shards) {
          return forward(plan, lists.inputs(shards), tile_in(shards));
        });
    graph::CustomVjpForward result;
    result.residuals = given;
    result.residual_names.resize(given.size());
    // As rounded: a compiler that remembers what it was rounded from keeps that
    // instead, which is twice as large.
    const Value out = graph::optimization_barrier({made[0]})[0];
    for (const Value& kept : {out, made[2], made[3]}) {
      result.residuals.push_back(kept);
      result.residual_names.emplace_back("context");
    }
    made.pop_back();
    result.outputs = std::move(made);
    return result;
  };
  const auto make_backward = [&](const Values& residuals,
                                 const Values& cotangents) {
    Values in = residuals;
    in.push_back(cotangents[0]);
    std::vector<PartitionSpec> in_specs = specs.of_inputs(lists);
    in_specs.insert(in_specs.end(), {specs.heads_BSHE, specs.rows_BSH,
                                     specs.rows_BSH, specs.heads_BSHE});
    with_tile(in, in_specs);
    std::vector<PartitionSpec> out_specs(3, specs.heads_BSHE);
    if (lists.sinks) out_specs.push_back(specs.sinks_H);
    const std::size_t first = lists.size();
    const Values made = graph::manual_computation(
        g, in, in_specs, out_specs, [&](const Values& shards) {
          return backward(plan, lists.inputs(shards),
                          {shards[first], shards[first + 1], shards[first + 2]},
                          shards[first + 3], tile_in(shards));
        });
    Values gradients(made.begin(), made.begin() + 3);
    if (lists.segments) gradients.resize(5);  // integers have none
    if (lists.sinks) gradients.push_back(made[3]);
    return gradients;
  };
  const Values out =
      graph::custom_vjp(g, lists.values(inputs), make_forward, make_backward);
  return {out[0], graph::stop_gradient(out[1]), graph::stop_gradient(out[2])};
}

}  // namespace ringmax::attention
