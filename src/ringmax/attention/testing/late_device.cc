#include "ringmax/attention/testing/late_device.h"

#include <fmt/format.h>

#include "ringmax/attention/attend.h"
#include "ringmax/attention/testing/cases.h"
#include "ringmax/graph/gradient.h"
#include "ringmax/graph/ops.h"
#include "ringmax/graph/parallel.h"
#include "ringmax/mesh/mesh.h"
#include "ringmax/testing/run_graph.h"
#include "ringmax/testing/sleep_call.h"

namespace ringmax::attention::testing {

std::string late_device_finding(double seconds, RingTransport transport) {
  constexpr std::int64_t kDevices = 8;
  constexpr std::int64_t kTokens = 512;
  const mesh::Mesh mesh({{"context", kDevices}});
  const mesh::PartitionSpec spec({{}, {"context"}, {}, {}});
  const Case c =
      random_case("late", Mask::causal(), 1, kTokens, kTokens, 4, 2, 32, 1, 5);
  graph::Graph g(mesh);
  AttendSettings settings;
  settings.strategy = Strategy::kRing;
  settings.ring_transport = transport;
  settings.kernel = "native";
  settings.q_spec = settings.kv_spec = spec;
  settings.target = hw::cpu_target(kDevices);
  std::vector<HostArray> arguments;
  const auto parameter = [&](const char* name, const std::vector<double>& x,
                             std::int64_t heads) {
    HostArray array(Shape(DType::kF32, {1, kTokens, heads, 32}));
    std::copy(x.begin(), x.end(), array.data<float>().begin());
    arguments.push_back(array);
    return g.parameter(name, array.shape(), spec);
  };
  const graph::Value q = parameter("q", c.inputs.q, 4);
  const graph::Value k = parameter("k", c.inputs.k, 2);
  const graph::Value v = parameter("v", c.inputs.v, 2);
  const graph::Value dout = parameter("do", c.inputs.dout, 4);
  const graph::Value late = graph::stop_gradient(graph::manual_computation(
      g, {q}, {spec}, {spec}, [&](const graph::Values& x) {
        return graph::Values{
            ::ringmax::testing::sleep_on_device(x[0], "context", 3, seconds)};
      })[0]);
  AttendInputs in;
  in.q_BSHD = late;
  in.k_BTKD = k;
  in.v_BTKV = v;
  const AttendResult made = attend(in, settings);
  g.result("out", made.out_BSHV, spec);
  const graph::Values d = graph::vjp({made.out_BSHV}, {dout}, {late, k, v});
  g.result("dq", d[0], spec);
  g.result("dk", d[1], spec);
  g.result("dv", d[2], spec);
  const std::vector<HostArray> got =
      ::ringmax::testing::run_graph(g, arguments);
  const ReferenceOutputs want = reference_attention(c.inputs);
  const std::vector<double>* wanted[] = {&want.out, &want.dq, &want.dk,
                                         &want.dv};
  std::string finding;
  for (std::size_t i = 0; i < got.size(); ++i) {
    const auto x = got[i].data<float>();
    const double error =
        attention_error(std::vector<double>(x.begin(), x.end()), *wanted[i]);
    if (!(error < 2e-5)) {
      finding +=
          fmt::format("{} has error {:.3g}; ", g.results()[i].name, error);
    }
  }
  return finding;
}

}  // namespace ringmax::attention::testing
