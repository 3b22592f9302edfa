#include "ringmax/attention/testing/attend_runner.h"

#include <fmt/format.h>

#include <utility>
#include <vector>

#include "ringmax/attention/reorder.h"
#include "ringmax/graph/gradient.h"
#include "ringmax/mesh/axis_rules.h"

namespace ringmax::attention::testing {
namespace {

using graph::Value;
using mesh::PartitionSpec;

const std::vector<std::string> kSequence = {"context", "context_usp_ulysses"};

struct Specs {
  PartitionSpec heads{{}, kSequence, {}, {}};
  PartitionSpec rows{{}, kSequence, {}};
  PartitionSpec tokens{{}, kSequence};
  PartitionSpec whole{};
};

mesh::Mesh mesh_of(const RunSettings& how) {
  return mesh::make_mesh({{"context", how.devices / how.ulysses},
                          {"context_usp_ulysses", how.ulysses}});
}

AttendSettings settings_of(const Case& c, const RunSettings& how) {
  AttendSettings s;
  s.mask = c.mask;
  s.layout = how.layout;
  s.queries = c.inputs.queries;
  s.keys = c.inputs.keys;
  s.scale = c.inputs.scale;
  s.soft_cap = c.inputs.soft_cap.value_or(0);
  s.strategy = how.strategy;
  s.bidirectional = how.bidirectional;
  s.ring_scan_unroll = how.ring_scan_unroll;
  s.ring_transport = how.ring_transport;
  s.kernel = how.kernel;
  s.target = hw::cpu_target(how.devices);
  s.blocks.block_q = s.blocks.block_kv = how.block;
  s.q_spec = s.kv_spec = Specs().heads;
  return s;
}

struct Layouts {
  Layout q, kv;
  Layouts(const ReferenceInputs& in, const RunSettings& how)
      : q(how.layout, in.queries, how.devices),
        kv(how.layout, in.keys, how.devices) {}
};

// Parameters of the case, and what attend() takes of them.
struct Parameters {
  AttendInputs inputs;
  Value dout;
};

Parameters add_parameters(graph::Graph& g, const Case& c,
                          const RunSettings& how) {
  const ReferenceInputs& in = c.inputs;
  const Specs specs;
  const Layouts layouts(in, how);
  const std::int64_t queries = layouts.q.padded_tokens();
  const std::int64_t keys = layouts.kv.padded_tokens();
  const auto heads = [&](const char* name, std::int64_t length,
                         std::int64_t count, std::int64_t size) {
    return g.parameter(name, Shape(how.dtype, {in.batch, length, count, size}),
                       specs.heads);
  };
  const auto tokens = [&](const char* name, std::int64_t length) {
    return g.parameter(name, Shape(DType::kI32, {in.batch, length}),
                       specs.tokens);
  };
  Parameters p;
  p.inputs.q_BSHD = heads("q", queries, in.query_heads, in.head_dim);
  p.inputs.k_BTKD = heads("k", keys, in.kv_heads, in.head_dim);
  p.inputs.v_BTKV = heads("v", keys, in.kv_heads, in.value_dim);
  if (!in.query_segments.empty()) {
    p.inputs.q_segments_BS = tokens("q_segment_ids", queries);
    p.inputs.kv_segments_BT = tokens("kv_segment_ids", keys);
  }
  if (!in.sinks.empty()) {
    p.inputs.sinks_H =
        g.parameter("sinks", Shape(DType::kF32, {in.query_heads}), specs.whole);
  }
  if (!in.dout.empty()) {
    p.dout = heads("do", queries, in.query_heads, in.value_dim);
  }
  return p;
}

std::vector<double> doubles(const HostArray& array) {
  const HostArray wide = array.convert(DType::kF64);
  const auto values = wide.data<double>();
  return {values.begin(), values.end()};
}

HostArray array_of(const graph::Parameter& parameter, const Case& c,
                   const Layouts& layouts) {
  const ReferenceInputs& in = c.inputs;
  const Shape& shape = parameter.value.shape();
  const auto in_order = [&](const auto& values, const Layout& layout) {
    using T = typename std::decay_t<decltype(values)>::value_type;
    Dims dims = shape.dims;
    dims[1] = layout.tokens();
    return to_slots(
        HostArray::from<T>(std::move(dims), values).convert(shape.dtype),
        layout);
  };
  if (parameter.name == "q") return in_order(in.q, layouts.q);
  if (parameter.name == "k") return in_order(in.k, layouts.kv);
  if (parameter.name == "v") return in_order(in.v, layouts.kv);
  if (parameter.name == "do") return in_order(in.dout, layouts.q);
  if (parameter.name == "q_segment_ids") {
    return in_order(in.query_segments, layouts.q);
  }
  if (parameter.name == "kv_segment_ids") {
    return in_order(in.kv_segments, layouts.kv);
  }
  return HostArray::from<double>(shape.dims, in.sinks).convert(shape.dtype);
}

}  // namespace

std::string RunSettings::to_string() const {
  return fmt::format(
      "{} over {} (ulysses {}) {} {} kernel {} block {}{} unroll {} {}",
      name_of(kStrategies, strategy), devices, ulysses, layout_name(layout),
      dtype_name(dtype), kernel, block, bidirectional ? " bidirectional" : "",
      ring_scan_unroll, name_of(kRingTransports, ring_transport));
}

std::unique_ptr<graph::Graph> build_case(const Case& c,
                                         const RunSettings& how) {
  auto g = std::make_unique<graph::Graph>(mesh_of(how));
  const Specs specs;
  const Parameters p = add_parameters(*g, c, how);
  const AttendResult made = attend(p.inputs, settings_of(c, how));
  g->result("out", made.out_BSHV, specs.heads);
  g->result("lse", made.lse_BSH, specs.rows);
  g->result("max_logits", made.max_BSH, specs.rows);
  if (p.dout.valid()) {
    graph::Values of = {p.inputs.q_BSHD, p.inputs.k_BTKD, p.inputs.v_BTKV};
    if (p.inputs.sinks_H.valid()) of.push_back(p.inputs.sinks_H);
    const graph::Values d = graph::vjp({made.out_BSHV}, {p.dout}, of);
    g->result("dq", d[0], specs.heads);
    g->result("dk", d[1], specs.heads);
    g->result("dv", d[2], specs.heads);
    if (d.size() > 3) g->result("dsinks", d[3], specs.whole);
  }
  return g;
}

AttendPlan plan_case(const Case& c, const RunSettings& how) {
  graph::Graph g(mesh_of(how));
  return plan_of(add_parameters(g, c, how).inputs, settings_of(c, how));
}

ReferenceOutputs AttendRunner::run(const Case& c, const RunSettings& how) {
  const ReferenceInputs& in = c.inputs;
  const std::string key = fmt::format(
      "{} {} {} {} {} {} {} {} {} {} {} {} {} {}", how.to_string(),
      c.mask.to_string(), c.mask.hash(), in.batch, in.queries, in.keys,
      in.query_heads, in.kv_heads, in.head_dim, in.value_dim,
      fmt::format("{} {}", in.scale, in.soft_cap.value_or(0)),
      in.query_segments.empty(), in.sinks.empty(), in.dout.empty());
  Made& made = made_[key];
  if (!made.program) {
    made.graph = build_case(c, how);
    made.program = std::make_unique<ringmax::testing::CompiledGraph>(
        *made.graph, ringmax::testing::Compile::kQuick);
  }
  const Layouts layouts(in, how);
  std::vector<HostArray> arguments;
  for (const graph::Parameter& parameter : made.graph->parameters()) {
    arguments.push_back(array_of(parameter, c, layouts));
  }
  const std::vector<HostArray> out = made.program->run(arguments);
  ReferenceOutputs result;
  for (std::size_t i = 0; i < out.size(); ++i) {
    const std::string& name = made.graph->results()[i].name;
    const auto put = [&](const char* which, std::vector<double>& to,
                         const Layout* layout) {
      if (name != which) return;
      to = doubles(layout == nullptr ? out[i] : from_slots(out[i], *layout));
    };
    put("out", result.out, &layouts.q);
    put("lse", result.lse, &layouts.q);
    put("max_logits", result.max_logits, &layouts.q);
    put("dq", result.dq, &layouts.q);
    put("dk", result.dk, &layouts.kv);
    put("dv", result.dv, &layouts.kv);
    put("dsinks", result.dsinks, nullptr);
  }
  return result;
}

}  // namespace ringmax::attention::testing
