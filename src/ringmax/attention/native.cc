#include "ringmax/attention/native.h"

#include <fmt/format.h>

#include "ringmax/attention/cpu/ffi.h"
#include "ringmax/base/error.h"
#include "ringmax/graph/control.h"
#include "ringmax/graph/graph.h"
#include "ringmax/graph/ops.h"
#include "ringmax/graph/parallel.h"

namespace ringmax::attention {
namespace {

using graph::Value;
using graph::Values;

// How arrays lie in memory in the calls of a program. attend() turns what it
// gets, [B, S, H, D], to heads first, and its results back. With one device
// nothing else happens to them on the way, and a call that takes tokens first
// lets the compiler cancel the turns; a ring turns them once for all its steps.
class Order {
 public:
  explicit Order(bool tokens_first) : tokens_first_(tokens_first) {}
  static Order of(const graph::Graph& g) {
    return Order(g.mesh().device_count() == 1);
  }

  bool tokens_first() const { return tokens_first_; }
  // From heads first to the order of the calls, and back.
  Value to_call(Value x) const {
    if (!tokens_first_) return x;
    return graph::transpose(
        x, x.rank() == 5 ? Dims{0, 3, 1, 2, 4} : Dims{0, 2, 1, 3});
  }
  Value from_call(Value x) const {
    if (!tokens_first_) return x;
    return graph::transpose(
        x, x.rank() == 5 ? Dims{0, 2, 3, 1, 4} : Dims{0, 2, 1, 3});
  }

 private:
  bool tokens_first_;
};

bool is_zero(Value x) {
  const graph::Node& node = x.graph->node(x);
  return node.op == graph::Op::kConstant &&
         node.attr<graph::ConstantAttr>().splat &&
         node.attr<graph::ConstantAttr>().number == 0;
}

// In the order of the calls' operands.
Values call_operands(const KernelRequest& request,
                     const KernelOperands& operands, const Order& order) {
  Values all = {order.to_call(operands.q_BKGSD), order.to_call(operands.k_BKTD),
                order.to_call(operands.v_BKTV), operands.q_positions_S,
                operands.kv_positions_T};
  if (request.segments) {
    all.push_back(operands.q_segments_BS);
    all.push_back(operands.kv_segments_BT);
  }
  if (request.tile) all.push_back(operands.tile_ST);
  return all;
}

// Those of the backward calls.
Values gradient_operands(const KernelRequest& request,
                         const KernelOperands& operands, Value dout_BKGSV,
                         Value lse_BKGS, Value delta_BKGS, const Order& order) {
  Values all = call_operands(request, operands, order);
  for (const Value v : {order.to_call(dout_BKGSV), lse_BKGS, delta_BKGS}) {
    all.push_back(v);
  }
  return all;
}

cpu::CallAttributes attributes_of(const KernelRequest& request,
                                  const KernelRequest::BlockLengths& blocks,
                                  const Order& order, std::int64_t devices) {
  cpu::CallAttributes attributes;
  attributes.mask = request.mask;
  attributes.scale = request.scale;
  attributes.soft_cap = request.soft_cap;
  attributes.block_q = blocks.q;
  attributes.block_kv = blocks.kv;
  attributes.segments = request.segments;
  attributes.tile = request.tile;
  attributes.tokens_first = order.tokens_first();
  attributes.devices = devices;
  return attributes;
}

graph::CustomCallAttr call(const char* target,
                           const cpu::CallAttributes& attributes) {
  graph::CustomCallAttr attr;
  attr.target = target;
  attr.backend_config = cpu::attributes_text(attributes);
  return attr;
}

std::vector<Shape> partial_shapes(const KernelRequest& r, const Order& order) {
  const Shape row(DType::kF32, {r.batch, r.kv_heads, r.groups, r.queries});
  const Shape out(
      DType::kF32,
      order.tokens_first()
          ? Dims{r.batch, r.queries, r.kv_heads, r.groups, r.value_dim}
          : Dims{r.batch, r.kv_heads, r.groups, r.queries, r.value_dim});
  return {out, row, row};
}

// A device's part of a call that all along an axis make.
class TogetherCall {
 public:
  TogetherCall(const KernelRequest& request, const std::string& axis,
               graph::Graph& g)
      : request_(request), axis_(axis), graph_(g) {}

  static Order order() { return Order(true); }

  // `target` of everybody's `operands`. Nothing of these calls may be left out
  // or done once for two: every ticket has its readers.
  Values make(const char* target, const KernelRequest::BlockLengths& blocks,
              const Values& operands, bool gradient,
              std::vector<Shape> results) const {
    cpu::CallAttributes attributes =
        attributes_of(request_, blocks, order(), graph_.mesh().device_count());
    attributes.parts = graph_.mesh().size(axis_);
    attributes.gradient = gradient;
    graph::CustomCallAttr share = call(cpu::kShareTarget, attributes);
    share.has_side_effect = true;
    const Values ticket = graph::custom_call(
        graph_, operands, {Shape(DType::kI64, {1})}, std::move(share));
    graph::CustomCallAttr all = call(target, attributes);
    all.has_side_effect = true;
    return graph::custom_call(graph_,
                              {graph::all_gather(ticket[0], axis_, 0),
                               graph::axis_index(graph_, axis_)},
                              std::move(results), std::move(all));
  }

 private:
  const KernelRequest& request_;
  const std::string& axis_;
  graph::Graph& graph_;
};

class NativeBackend final : public Backend {
 public:
  std::string_view name() const override { return "native"; }
  bool automatic(const hw::Target& target) const override {
    return target.platform == "cpu";
  }
  bool works_together() const override { return true; }
  std::optional<KernelRequest::BlockLengths> own_blocks() const override {
    return KernelRequest::BlockLengths{};  // as docs/benchmarks.md has it
  }
  std::optional<std::string> refusal(const KernelRequest& request,
                                     const hw::Target& target) const override {
    if (target.platform != "cpu") {
      return fmt::format("it runs on CPUs, not on {}", target.platform);
    }
    if (!target.has_ffi) return "this plugin takes no FFI kernels";
    if (request.dtype != DType::kF32 && request.dtype != DType::kBF16) {
      return fmt::format("it computes float32 and bfloat16, not {}",
                         dtype_name(request.dtype));
    }
    return std::nullopt;
  }

  KernelPartial forward(const KernelRequest& r,
                        const KernelOperands& operands) const override {
    check_operands(r, operands);
    graph::Graph& g = *operands.q_BKGSD.graph;
    const Order order = Order::of(g);
    const Values made = graph::custom_call(
        g, call_operands(r, operands, order), partial_shapes(r, order),
        call(cpu::kForwardTarget, attributes_of(r, r.forward_blocks, order,
                                                g.mesh().device_count())));
    return {order.from_call(made[0]), made[1], made[2]};
  }

  KernelGradients backward(const KernelRequest& r,
                           const KernelOperands& operands, Value dout_BKGSV,
                           Value lse_BKGS, Value delta_BKGS,
                           const KernelGradients& so_far) const override {
    check_operands(r, operands);
    graph::Graph& g = *operands.q_BKGSD.graph;
    const Order order = Order::of(g);
    Values all =
        gradient_operands(r, operands, dout_BKGSV, lse_BKGS, delta_BKGS, order);
    const bool fresh = is_zero(so_far.dq_BKGSD) && is_zero(so_far.dk_BKTD) &&
                       is_zero(so_far.dv_BKTV);
    cpu::CallAttributes attributes =
        attributes_of(r, r.backward_blocks, order, g.mesh().device_count());
    attributes.fresh = fresh;
    graph::CustomCallAttr attr = call(cpu::kBackwardTarget, attributes);
    std::vector<Shape> results;
    for (const Value v : {so_far.dq_BKGSD, so_far.dk_BKTD, so_far.dv_BKTV}) {
      results.push_back(order.to_call(v).shape());
      if (fresh) continue;
      attr.aliases.emplace_back(results.size() - 1, all.size());
      all.push_back(order.to_call(v));
    }
    const Values made = graph::custom_call(g, all, results, std::move(attr));
    return {order.from_call(made[0]), order.from_call(made[1]),
            order.from_call(made[2])};
  }
};

}  // namespace

const Backend& native_backend() {
  static const NativeBackend backend;
  return backend;
}

KernelPartial forward_together(const KernelRequest& r,
                               const KernelOperands& operands,
                               const std::string& axis) {
  const Order order = TogetherCall::order();
  const Values made = TogetherCall(r, axis, *operands.q_BKGSD.graph)
                          .make(cpu::kForwardTogetherTarget, r.forward_blocks,
                                call_operands(r, operands, order),
                                /*gradient=*/false, partial_shapes(r, order));
  return {order.from_call(made[0]), made[1], made[2]};
}

KernelGradients backward_together(const KernelRequest& r,
                                  const KernelOperands& operands,
                                  Value dout_BKGSV, Value lse_BKGS,
                                  Value delta_BKGS, const std::string& axis) {
  const Order order = TogetherCall::order();
  const Values all =
      gradient_operands(r, operands, dout_BKGSV, lse_BKGS, delta_BKGS, order);
  std::vector<Shape> results;
  for (const Value v : {all[0], all[1], all[2]}) {
    results.emplace_back(DType::kF32, v.dims());
  }
  const Values made =
      TogetherCall(r, axis, *operands.q_BKGSD.graph)
          .make(cpu::kBackwardTogetherTarget, r.backward_blocks, all,
                /*gradient=*/true, std::move(results));
  return {order.from_call(made[0]), order.from_call(made[1]),
          order.from_call(made[2])};
}

}  // namespace ringmax::attention
