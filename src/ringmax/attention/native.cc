#include "ringmax/attention/native.h"

#include <fmt/format.h>

#include "ringmax/attention/cpu/ffi.h"
#include "ringmax/base/error.h"
#include "ringmax/graph/control.h"
#include "ringmax/graph/graph.h"

namespace ringmax::attention {
namespace {

using graph::Value;
using graph::Values;

// In the order of the calls' operands.
Values call_operands(const KernelRequest& request,
                     const KernelOperands& operands) {
  Values all = {operands.q_BKGSD, operands.k_BKTD, operands.v_BKTV,
                operands.q_positions_S, operands.kv_positions_T};
  if (request.segments) {
    all.push_back(operands.q_segments_BS);
    all.push_back(operands.kv_segments_BT);
  }
  if (request.tile) all.push_back(operands.tile_ST);
  return all;
}

graph::CustomCallAttr call(const char* target, const KernelRequest& request,
                           const KernelRequest::BlockLengths& blocks,
                           std::int64_t devices) {
  cpu::CallAttributes attributes;
  attributes.mask = request.mask;
  attributes.scale = request.scale;
  attributes.soft_cap = request.soft_cap;
  attributes.block_q = blocks.q;
  attributes.block_kv = blocks.kv;
  attributes.segments = request.segments;
  attributes.tile = request.tile;
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
    const Shape row(DType::kF32, {r.batch, r.kv_heads, r.groups, r.queries});
    Shape out = row;
    out.dims.push_back(r.value_dim);
    const Values made =
        graph::custom_call(g, call_operands(r, operands), {out, row, row},
                           call(cpu::kForwardTarget, r, r.forward_blocks,
                                g.mesh().device_count()));
    return {made[0], made[1], made[2]};
  }

  KernelGradients backward(const KernelRequest& r,
                           const KernelOperands& operands, Value dout_BKGSV,
                           Value lse_BKGS, Value delta_BKGS,
                           const KernelGradients& so_far) const override {
    check_operands(r, operands);
    graph::Graph& g = *operands.q_BKGSD.graph;
    Values all = call_operands(r, operands);
    for (const Value v : {dout_BKGSV, lse_BKGS, delta_BKGS}) all.push_back(v);
    graph::CustomCallAttr attr = call(
        cpu::kBackwardTarget, r, r.backward_blocks, g.mesh().device_count());
    std::vector<Shape> results;
    for (const Value v : {so_far.dq_BKGSD, so_far.dk_BKTD, so_far.dv_BKTV}) {
      attr.aliases.emplace_back(results.size(), all.size());
      results.push_back(v.shape());
      all.push_back(v);
    }
    const Values made = graph::custom_call(g, all, results, std::move(attr));
    return {made[0], made[1], made[2]};
  }
};

}  // namespace

const Backend& native_backend() {
  static const NativeBackend backend;
  return backend;
}

}  // namespace ringmax::attention
