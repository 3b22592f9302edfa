#include "ringmax/attention/native.h"

#include <fmt/format.h>

#include "ringmax/attention/cpu/ffi.h"
#include "ringmax/base/error.h"
#include "ringmax/graph/control.h"
#include "ringmax/graph/graph.h"
#include "ringmax/graph/ops.h"

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
  explicit Order(const graph::Graph& g)
      : tokens_first_(g.mesh().device_count() == 1) {}

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

graph::CustomCallAttr call(const char* target, const KernelRequest& request,
                           const KernelRequest::BlockLengths& blocks,
                           const Order& order, std::int64_t devices,
                           bool fresh = false) {
  cpu::CallAttributes attributes;
  attributes.mask = request.mask;
  attributes.scale = request.scale;
  attributes.soft_cap = request.soft_cap;
  attributes.block_q = blocks.q;
  attributes.block_kv = blocks.kv;
  attributes.segments = request.segments;
  attributes.tile = request.tile;
  attributes.tokens_first = order.tokens_first();
  attributes.fresh = fresh;
  attributes.devices = devices;
  graph::CustomCallAttr attr;
  attr.target = target;
  attr.backend_config = cpu::attributes_text(attributes);
  return attr;
}

class NativeBackend final : public Backend {
 public:
  std::string_view name() const override { return "native"; }
  bool automatic(const hw::Target& target) const override {
    return target.platform == "cpu";
  }
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
    const Order order(g);
    const Shape row(DType::kF32, {r.batch, r.kv_heads, r.groups, r.queries});
    const Shape out(
        DType::kF32,
        order.tokens_first()
            ? Dims{r.batch, r.queries, r.kv_heads, r.groups, r.value_dim}
            : Dims{r.batch, r.kv_heads, r.groups, r.queries, r.value_dim});
    const Values made = graph::custom_call(
        g, call_operands(r, operands, order), {out, row, row},
        call(cpu::kForwardTarget, r, r.forward_blocks, order,
             g.mesh().device_count()));
    return {order.from_call(made[0]), made[1], made[2]};
  }

  KernelGradients backward(const KernelRequest& r,
                           const KernelOperands& operands, Value dout_BKGSV,
                           Value lse_BKGS, Value delta_BKGS,
                           const KernelGradients& so_far) const override {
    check_operands(r, operands);
    graph::Graph& g = *operands.q_BKGSD.graph;
    const Order order(g);
    Values all = call_operands(r, operands, order);
    for (const Value v : {order.to_call(dout_BKGSV), lse_BKGS, delta_BKGS}) {
      all.push_back(v);
    }
    const bool fresh = is_zero(so_far.dq_BKGSD) && is_zero(so_far.dk_BKTD) &&
                       is_zero(so_far.dv_BKTV);
    graph::CustomCallAttr attr =
        call(cpu::kBackwardTarget, r, r.backward_blocks, order,
             g.mesh().device_count(), fresh);
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

}  // namespace ringmax::attention
