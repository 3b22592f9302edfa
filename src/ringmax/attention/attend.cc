#include "ringmax/attention/attend.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "ringmax/attention/blockwise.h"
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

// [B, S, K*G, D] -> [B, K, G, S, D] and back.
Value split_heads(Value x_BSHD, std::int64_t kv_heads) {
  const Dims& d = x_BSHD.dims();
  return graph::transpose(
      graph::reshape(x_BSHD, {d[0], d[1], kv_heads, d[2] / kv_heads, d[3]}),
      {0, 2, 3, 1, 4});
}
Value join_heads(Value x_BKGSD) {
  const Value t = graph::transpose(x_BKGSD, {0, 3, 1, 2, 4});
  const Dims& d = t.dims();
  return graph::reshape(t, {d[0], d[1], d[2] * d[3], d[4]});
}
Value split_rows(Value x_BSH, std::int64_t kv_heads) {
  const Dims& d = x_BSH.dims();
  return graph::transpose(
      graph::reshape(x_BSH, {d[0], d[1], kv_heads, d[2] / kv_heads}),
      {0, 2, 3, 1});
}
Value join_rows(Value x_BKGS) {
  const Value t = graph::transpose(x_BKGS, {0, 3, 1, 2});
  const Dims& d = t.dims();
  return graph::reshape(t, {d[0], d[1], d[2] * d[3]});
}
// [B, T, K, D] and [B, T, K, V] -> [B, K, T, D + V].
Value pack_kv(Value k_BTKD, Value v_BTKV) {
  return graph::transpose(graph::concatenate({k_BTKD, v_BTKV}, 3),
                          {0, 2, 1, 3});
}

// The ring of one shard. In the step with shift r, device d holds the keys of
// device d - r.
class Ring {
 public:
  Ring(Graph& g, const std::string& axis)
      : g_(g), axis_(axis), size_(g.mesh().size(axis)) {
    device_ = graph::axis_index(g, axis);
  }

  std::int64_t size() const { return size_; }
  Value device() const { return device_; }
  // Whose keys this device holds after a shift.
  Value shard(std::int64_t shift) const {
    if (shift == 0) return device_;
    const Value ring = graph::full_like(device_, static_cast<double>(size_));
    return graph::remainder(device_ + static_cast<double>(size_ - shift), ring);
  }
  // The payload of `step`, from home or from where the step before left it.
  // Devices that have no use for it get zeros, of which they see no key.
  Value bring(Value home, Value payload, const RingStep& step) const {
    if (step.hop == 0) return home;
    return permute(step.from_home ? home : payload, step.source_target_pairs);
  }

  Value permute(Value x, const SourceTargetPairs& pairs) const {
    const Scope scope(g_, "ring_send");
    return graph::collective_permute(x, axis_, pairs);
  }

 private:
  Graph& g_;
  std::string axis_;
  std::int64_t size_;
  Value device_;
};

struct Local {
  Value out_BSHV, lse_BSH, max_BSH;
};

Local forward_shard(Graph& g, Value q_BSHD, Value k_BTKD, Value v_BTKV,
                    const AttendSettings& settings,
                    const BlockwiseSettings& blockwise,
                    const RingSchedule& schedule) {
  const Ring ring(g, settings.context_axis);
  const std::int64_t kv_heads = k_BTKD.dim(2);
  const Value q = split_heads(q_BSHD, kv_heads);
  Value kv = pack_kv(k_BTKD, v_BTKV);
  const Value q_start = ring.device() * static_cast<double>(q_BSHD.dim(1));
  SoftmaxState state = empty_state(q, v_BTKV.dim(3));
  if (settings.strategy == ContextStrategy::kAllGather) {
    if (ring.size() > 1) kv = graph::all_gather(kv, settings.context_axis, 2);
    state = attend_shard(state, q, kv, q_start, graph::zeros_like(q_start),
                         blockwise);
  } else {
    const auto keys = static_cast<double>(k_BTKD.dim(1));
    const std::vector<RingStep>& steps = schedule.tracks.front().steps;
    const Value home = kv;
    if (!steps.empty()) kv = ring.bring(home, kv, steps[0]);
    for (std::size_t i = 0; i < steps.size(); ++i) {
      const Value next =
          i + 1 < steps.size() ? ring.bring(home, kv, steps[i + 1]) : Value{};
      state = attend_shard(state, q, kv, q_start,
                           ring.shard(steps[i].shift) * keys, blockwise);
      kv = next;
    }
  }
  return {graph::convert(join_heads(normalized(state)), q_BSHD.dtype()),
          join_rows(log_sum_exp(state)), join_rows(state.max_BKGS)};
}

struct LocalGradients {
  Value dq_BSHD, dk_BTKD, dv_BTKV;
};

LocalGradients backward_shard(Graph& g, Value q_BSHD, Value k_BTKD,
                              Value v_BTKV, Value out_BSHV, Value lse_BSH,
                              Value dout_BSHV, const AttendSettings& settings,
                              const BlockwiseSettings& blockwise,
                              const RingSchedule& schedule) {
  const Ring ring(g, settings.context_axis);
  const std::int64_t kv_heads = k_BTKD.dim(2);
  const std::int64_t head_dim = q_BSHD.dim(3);
  const Value q = split_heads(q_BSHD, kv_heads);
  const Value dout = split_heads(dout_BSHV, kv_heads);
  const Value lse = split_rows(lse_BSH, kv_heads);
  const Value delta =
      split_rows(graph::reduce_sum(graph::convert(out_BSHV, DType::kF32) *
                                       graph::convert(dout_BSHV, DType::kF32),
                                   {3}),
                 kv_heads);
  const Value q_start = ring.device() * static_cast<double>(q_BSHD.dim(1));
  const auto zeros = [&](Value like) {
    return graph::constant(g, Shape(DType::kF32, like.dims()), 0);
  };
  Value kv = pack_kv(k_BTKD, v_BTKV);
  ShardGradients gradients{zeros(q), {}};
  if (settings.strategy == ContextStrategy::kAllGather) {
    if (ring.size() > 1) kv = graph::all_gather(kv, settings.context_axis, 2);
    gradients.dkv_BKTE = zeros(kv);
    gradients =
        attend_shard_backward(gradients, q, kv, dout, lse, delta, q_start,
                              graph::zeros_like(q_start), blockwise);
    if (ring.size() > 1) {
      gradients.dkv_BKTE =
          graph::reduce_scatter(gradients.dkv_BKTE, settings.context_axis, 2);
    }
  } else {
    const auto keys = static_cast<double>(k_BTKD.dim(1));
    const std::vector<RingStep>& steps = schedule.tracks.front().steps;
    const Value home = kv;
    Value home_gradient = zeros(kv);
    if (!steps.empty()) kv = ring.bring(home, kv, steps[0]);
    for (std::size_t i = 0; i < steps.size(); ++i) {
      const RingStep& step = steps[i];
      const Value next =
          i + 1 < steps.size() ? ring.bring(home, kv, steps[i + 1]) : Value{};
      if (step.from_home) gradients.dkv_BKTE = zeros(kv);
      gradients =
          attend_shard_backward(gradients, q, kv, dout, lse, delta, q_start,
                                ring.shard(step.shift) * keys, blockwise);
      if (step.gradient_hop != 0) {
        gradients.dkv_BKTE =
            ring.permute(gradients.dkv_BKTE, step.gradient_pairs);
      }
      if (step.ends_trip) home_gradient = home_gradient + gradients.dkv_BKTE;
      kv = next;
    }
    gradients.dkv_BKTE = home_gradient;
  }
  const Value dkv = graph::transpose(gradients.dkv_BKTE, {0, 2, 1, 3});
  return {graph::convert(join_heads(gradients.dq_BKGSD), q_BSHD.dtype()),
          graph::convert(graph::slice_dim(dkv, 3, 0, head_dim), k_BTKD.dtype()),
          graph::convert(graph::slice_dim(dkv, 3, head_dim, dkv.dim(3)),
                         v_BTKV.dtype())};
}

void check_shapes(Value q, Value k, Value v) {
  const bool fits =
      q.rank() == 4 && k.rank() == 4 && v.rank() == 4 && q.dim(0) == k.dim(0) &&
      q.dim(3) == k.dim(3) && k.dim(0) == v.dim(0) && k.dim(1) == v.dim(1) &&
      k.dim(2) == v.dim(2) && q.dtype() == k.dtype() && q.dtype() == v.dtype();
  if (!fits) {
    fail_invalid(
        "attention: query {}, key {} and value {} do not fit; they are [batch, "
        "queries, query heads, head_dim], [batch, keys, kv heads, head_dim] "
        "and [batch, keys, kv heads, value head_dim] of one dtype",
        q.describe(), k.describe(), v.describe());
  }
  if (q.dim(2) % k.dim(2) != 0) {
    fail_invalid("attention: {} query heads are not a multiple of {} kv heads",
                 q.dim(2), k.dim(2));
  }
}

}  // namespace

RingSchedule ring_schedule(const AttendSettings& settings, std::int64_t queries,
                           std::int64_t keys, std::int64_t ring_size) {
  const Mask mask =
      settings.causal ? Mask::causal(settings.causal_offset) : Mask::full();
  const auto layout = [&](const char* what, std::int64_t real,
                          std::int64_t slots) {
    const Layout made(LayoutKind::kContiguous, real == 0 ? slots : real,
                      ring_size);
    if (made.padded_tokens() != slots) {
      fail_invalid(
          "attention: {} {} over {} devices take {} slots with padding, the "
          "array "
          "has {}",
          made.tokens(), what, ring_size, made.padded_tokens(), slots);
    }
    return made;
  };
  return make_ring_schedule(mask, layout("queries", settings.queries, queries),
                            layout("keys", settings.keys, keys));
}

AttendResult attend(Value q_BSHD, Value k_BTKD, Value v_BTKV,
                    const AttendSettings& settings) {
  check_shapes(q_BSHD, k_BTKD, v_BTKV);
  Graph& g = *q_BSHD.graph;
  const Scope scope(g, "attention");
  BlockwiseSettings blockwise;
  blockwise.causal = settings.causal;
  // Beyond the lengths an offset changes nothing; positions are int32.
  blockwise.causal_offset =
      std::clamp(settings.causal_offset, -q_BSHD.dim(1), k_BTKD.dim(1));
  blockwise.scale = settings.scale != 0
                        ? settings.scale
                        : 1 / std::sqrt(static_cast<double>(q_BSHD.dim(3)));
  blockwise.block_q = settings.block_q;
  blockwise.block_kv = settings.block_kv;
  if (settings.keys != 0 && settings.keys != k_BTKD.dim(1)) {
    blockwise.keys_end = settings.keys;
  }
  RingSchedule schedule;
  if (settings.strategy != ContextStrategy::kAllGather) {
    schedule = ring_schedule(settings, q_BSHD.dim(1), k_BTKD.dim(1),
                             g.mesh().size(settings.context_axis));
  }

  const PartitionSpec rows(
      {settings.batch_axes, {settings.context_axis}, settings.head_axes});
  PartitionSpec whole = rows;
  whole.dims.emplace_back();
  const auto forward = [&](const Values& in) {
    Values made = graph::manual_computation(
        g, in, {whole, whole, whole}, {whole, rows, rows},
        [&](const Values& x) {
          const Local local =
              forward_shard(g, x[0], x[1], x[2], settings, blockwise, schedule);
          return Values{local.out_BSHV, local.lse_BSH, local.max_BSH};
        });
    graph::CustomVjpForward result;
    result.residuals = {in[0], in[1], in[2], made[0], made[1]};
    result.residual_names = {"", "", "", "context", "context"};
    result.outputs = std::move(made);
    return result;
  };
  const auto backward = [&](const Values& residuals, const Values& cotangents) {
    Values in = residuals;
    in.push_back(cotangents[0]);
    return graph::manual_computation(
        g, in, {whole, whole, whole, whole, rows, whole}, {whole, whole, whole},
        [&](const Values& x) {
          const LocalGradients local =
              backward_shard(g, x[0], x[1], x[2], x[3], x[4], x[5], settings,
                             blockwise, schedule);
          return Values{local.dq_BSHD, local.dk_BTKD, local.dv_BTKV};
        });
  };
  const Values out =
      graph::custom_vjp(g, {q_BSHD, k_BTKD, v_BTKV}, forward, backward);
  return {out[0], graph::stop_gradient(out[1]), graph::stop_gradient(out[2])};
}

}  // namespace ringmax::attention
