#include "ringmax/attention/splash/testing/compile_for_tpu.h"

#include "ringmax/attention/partial.h"
#include "ringmax/attention/splash/backend.h"
#include "ringmax/base/error.h"
#include "ringmax/graph/print.h"
#include "ringmax/hw/target.h"
#include "ringmax/pjrt/plugin.h"
#include "ringmax/pjrt/topology.h"

namespace ringmax::attention::splash::testing {

KernelRequest splash_request(DType dtype, std::int64_t head_dim) {
  KernelRequest r;
  r.mask = Mask::causal();
  r.scale = 0.125;
  r.kv_heads = 2;
  r.groups = 2;
  r.queries = 1000;
  r.keys = 1500;
  r.head_dim = head_dim;
  r.value_dim = head_dim;
  r.dtype = dtype;
  // Small, for the compiler's time.
  r.forward_blocks = {384, 384, 256};
  r.backward_blocks = {384, 384, 128};
  return r;
}

std::string compile_for_tpu(const std::string& topology,
                            const KernelRequest& request) {
  KernelRequest r = request;
  r.chip = topology.substr(0, topology.find(':'));
  r.vmem_bytes = hw::find_chip(r.chip).vmem_bytes;
  graph::Graph g;
  const auto parameter = [&](const char* name, DType dtype, Dims dims) {
    return g.parameter(name, Shape(dtype, std::move(dims)));
  };
  const Dims rows = {r.batch, r.kv_heads, r.groups, r.queries};
  const auto wide = [](Dims dims, std::int64_t width) {
    dims.push_back(width);
    return dims;
  };
  const Dims keys = {r.batch, r.kv_heads, r.keys};
  KernelOperands o;
  o.q_BKGSD = parameter("q", r.dtype, wide(rows, r.head_dim));
  o.k_BKTD = parameter("k", r.dtype, wide(keys, r.head_dim));
  o.v_BKTV = parameter("v", r.dtype, wide(keys, r.value_dim));
  o.q_positions_S = parameter("qp", DType::kI32, {r.queries});
  o.kv_positions_T = parameter("kp", DType::kI32, {r.keys});
  if (r.segments) {
    o.q_segments_BS = parameter("qs", DType::kI32, {r.batch, r.queries});
    o.kv_segments_BT = parameter("ks", DType::kI32, {r.batch, r.keys});
  }
  if (r.tile) o.tile_ST = parameter("t", DType::kBool, {r.queries, r.keys});
  const KernelPartial partial = mosaic_backend().forward(r, o);
  g.result("out", partial.out_BKGSV);
  g.result("lse", log_sum_exp(partial));
  g.result("max", partial.max_BKGS);
  const KernelGradients so_far = {
      parameter("dq", DType::kF32, wide(rows, r.head_dim)),
      parameter("dk", DType::kF32, wide(keys, r.head_dim)),
      parameter("dv", DType::kF32, wide(keys, r.value_dim))};
  const KernelGradients gradients = mosaic_backend().backward(
      r, o, parameter("dout", r.dtype, wide(rows, r.value_dim)),
      parameter("lse_in", DType::kF32, rows),
      parameter("delta", DType::kF32, rows), so_far);
  g.result("dq_out", gradients.dq_BKGSD);
  g.result("dk_out", gradients.dk_BKTD);
  g.result("dv_out", gradients.dv_BKTV);
  try {
    pjrt::Topology::create(pjrt::load_tpu_compiler(), topology)
        .compile(graph::print_stablehlo(g), pjrt::CompileOptions());
  } catch (const Error& error) {
    return error.message().substr(0, 2000);
  }
  return "";
}

}  // namespace ringmax::attention::splash::testing
