#include "ringmax/cli/attention_case.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>

#include "ringmax/attention/attend.h"
#include "ringmax/attention/reference.h"
#include "ringmax/attention/reorder.h"
#include "ringmax/base/problems.h"
#include "ringmax/base/suggest.h"
#include "ringmax/graph/gradient.h"
#include "ringmax/graph/print.h"
#include "ringmax/mesh/axis_rules.h"
#include "ringmax/pjrt/client.h"
#include "ringmax/train/native_kernels.h"
#include "ringmax/train/program.h"

namespace ringmax::cli {
namespace {

using attention::Layout;
using attention::Strategy;
using Shapes = std::map<std::string, Shape>;

constexpr std::string_view kValidTensors =
    "valid are q, k, v, do, q_segment_ids, kv_segment_ids, sinks and mask";

bool is_real(DType dtype) {
  return dtype == DType::kF64 || dtype == DType::kF32 || dtype == DType::kBF16;
}

void check_names(const Shapes& shapes, Problems& problems) {
  const std::vector<std::string> known = {
      "q", "k", "v", "do", "q_segment_ids", "kv_segment_ids", "sinks", "mask"};
  for (const auto& [name, shape] : shapes) {
    if (std::find(known.begin(), known.end(), name) == known.end()) {
      const std::string meant = closest_name(name, known);
      problems.add("unknown tensor {}{}; {}", name,
                   meant.empty() ? "" : "; did you mean " + meant + "?",
                   kValidTensors);
      continue;
    }
    if (std::count(shape.dims.begin(), shape.dims.end(), 0) > 0) {
      problems.add("tensor {} is {}; no dimension may be 0", name,
                   shape.to_string());
    }
    const bool of_heads =
        name == "q" || name == "k" || name == "v" || name == "do";
    if (of_heads && !is_real(shape.dtype)) {
      problems.add("tensor {} is {}; its dtype must be F64, F32 or BF16", name,
                   shape.to_string());
    }
    if (of_heads && shape.rank() != 4) {
      problems.add(
          "tensor {} is {}; it must have 4 dimensions: batch, tokens, heads, "
          "head size",
          name, shape.to_string());
    }
  }
  for (const char* name : {"q", "k", "v"}) {
    if (!shapes.contains(name)) problems.add("tensor {} is missing", name);
  }
}

// The shapes of q, k and v are there and of rank 4.
void check_shapes(const CaseSettings& settings, const Shapes& shapes,
                  Problems& problems) {
  const Shape& q = shapes.at("q");
  const Shape& k = shapes.at("k");
  const Shape& v = shapes.at("v");
  const auto same = [&](const char* what, const char* a, std::size_t dim,
                        const char* b) {
    if (shapes.at(a).dims[dim] != shapes.at(b).dims[dim]) {
      problems.add("{} {} and {} {} must agree in {} (dimension {})", a,
                   shapes.at(a).to_string(), b, shapes.at(b).to_string(), what,
                   dim);
    }
  };
  same("batch", "q", 0, "k");
  same("batch", "k", 0, "v");
  same("keys", "k", 1, "v");
  same("kv heads", "k", 2, "v");
  same("head size", "q", 3, "k");
  if (q.dims[2] % k.dims[2] != 0) {
    problems.add("q {} has {} heads, not a multiple of the {} kv heads of k {}",
                 q.to_string(), q.dims[2], k.dims[2], k.to_string());
  }
  for (const char* name : {"k", "v", "do"}) {
    if (shapes.contains(name) && shapes.at(name).dtype != q.dtype) {
      problems.add("{} {} and q {} must have one dtype", name,
                   shapes.at(name).to_string(), q.to_string());
    }
  }
  const auto exactly = [&](const char* name, const char* what,
                           const Shape& expected) {
    if (!shapes.contains(name) || shapes.at(name) == expected) return;
    problems.add("{} {} must be {} = {}", name, shapes.at(name).to_string(),
                 what, expected.to_string());
  };
  if (shapes.contains("do")) {
    exactly(
        "do", "[B, S, Hq, Dv]",
        {shapes.at("do").dtype, {q.dims[0], q.dims[1], q.dims[2], v.dims[3]}});
  }
  exactly("q_segment_ids", "[B, S] I32", {DType::kI32, {q.dims[0], q.dims[1]}});
  exactly("kv_segment_ids", "[B, T] I32",
          {DType::kI32, {k.dims[0], k.dims[1]}});
  exactly("sinks", "[Hq] F32", {DType::kF32, {q.dims[2]}});
  const std::pair<const char*, const char*> both[] = {
      {"q_segment_ids", "kv_segment_ids"}, {"kv_segment_ids", "q_segment_ids"}};
  for (const auto& [given, missing] : both) {
    if (shapes.contains(given) && !shapes.contains(missing)) {
      problems.add("{} is given without {}; give both or neither", given,
                   missing);
    }
  }
  if (shapes.contains("mask") && settings.mask.find_dense() == nullptr) {
    problems.add("tensor mask is given, but mask={} does not use it",
                 settings.mask.to_string());
  }
}

void check_reference(const CaseSettings& settings, Problems& problems) {
  if (settings.context_parallel > 1) {
    problems.add(
        "kernel=reference runs on one device; context_parallel={} needs "
        "another kernel, for example kernel=stablehlo",
        settings.context_parallel);
  }
  if (settings.strategy != Strategy::kAuto &&
      settings.strategy != Strategy::kSingle) {
    problems.add("kernel=reference has no strategy={}; valid is single",
                 name_of(attention::kStrategies, settings.strategy));
  }
  if (settings.bidirectional) {
    problems.add("kernel=reference has no bidirectional=true; valid is false");
  }
}

// How attend() is asked, on devices.
struct Setup {
  mesh::Mesh mesh;
  mesh::PartitionSpec heads, rows, tokens;
  Layout q_layout, kv_layout;
  attention::AttendSettings attend;
  DType dtype;

  Setup(const CaseSettings& s, const Shapes& shapes)
      : mesh(mesh::make_mesh({{"context", s.context_parallel / s.ulysses_size},
                              {"context_usp_ulysses", s.ulysses_size}})),
        q_layout(s.layout, shapes.at("q").dims[1], s.context_parallel),
        kv_layout(s.layout, shapes.at("k").dims[1], s.context_parallel),
        dtype(s.dtype.value_or(shapes.at("q").dtype)) {
    // usp takes two axes, also of size 1; the others one.
    std::vector<std::string> sequence = {"context"};
    if (s.ulysses_size > 1 || s.strategy == Strategy::kUsp) {
      sequence.emplace_back("context_usp_ulysses");
    }
    heads = {{}, sequence, {}, {}};
    rows = {{}, sequence, {}};
    tokens = {{}, sequence};
    attend.mask = s.mask;
    attend.layout = s.layout;
    attend.queries = q_layout.tokens();
    attend.keys = kv_layout.tokens();
    attend.scale = s.scale;
    attend.soft_cap = s.soft_cap;
    attend.strategy = s.strategy;
    attend.bidirectional = s.bidirectional;
    attend.ring_scan_unroll = s.ring_scan_unroll;
    attend.ring_transport = s.ring_transport;
    attend.kernel = s.kernel;
    attend.blocks.block_q = s.block_q;
    attend.blocks.block_kv = s.block_kv;
    attend.q_spec = attend.kv_spec = heads;
    attend.target = hw::cpu_target(s.context_parallel);
  }

  const Layout& layout_of(const std::string& tensor) const {
    const bool keys = tensor == "k" || tensor == "v" || tensor == "dk" ||
                      tensor == "dv" || tensor == "kv_segment_ids";
    return keys ? kv_layout : q_layout;
  }
  Shape slots(const std::string& tensor, Shape shape) const {
    shape.dims[1] = layout_of(tensor).padded_tokens();
    if (is_real(shape.dtype)) shape.dtype = dtype;
    return shape;
  }
};

attention::AttendPlan plan_case(const Setup& setup, const Shapes& shapes) {
  const auto maybe = [&](const char* name) {
    return shapes.contains(name)
               ? std::optional(setup.slots(name, shapes.at(name)))
               : std::nullopt;
  };
  return attention::plan_attend(
      {*maybe("q"), *maybe("k"), *maybe("v"), maybe("q_segment_ids"),
       maybe("kv_segment_ids"),
       shapes.contains("sinks") ? std::optional(shapes.at("sinks"))
                                : std::nullopt},
      setup.attend, setup.mesh);
}

void check_devices(const CaseSettings& settings, const Shapes& shapes,
                   Problems& problems) {
  const Shape& q = shapes.at("q");
  if (q.dtype == DType::kF64) {
    problems.add(
        "q is {}: F64 is computed by kernel=reference only, not by kernel={}",
        q.to_string(), settings.kernel);
  }
  const std::int64_t ring = settings.context_parallel;
  if (ring > q.dims[1] || ring > shapes.at("k").dims[1]) {
    problems.add(
        "context_parallel={} is more than the {} queries or the {} keys; every "
        "device needs at least one of each",
        ring, q.dims[1], shapes.at("k").dims[1]);
  }
  if (settings.strategy == Strategy::kSingle && ring > 1) {
    problems.add(
        "strategy=single runs on one device; context_parallel={} needs "
        "strategy=ring, all_gather, ulysses or usp",
        ring);
  }
  if (ring % settings.ulysses_size != 0) {
    problems.add("ulysses_size={} does not divide context_parallel={}",
                 settings.ulysses_size, ring);
  }
  if (settings.ulysses_size > 1 && settings.strategy != Strategy::kUsp &&
      settings.strategy != Strategy::kAuto) {
    problems.add("ulysses_size={} is for strategy=usp, not strategy={}",
                 settings.ulysses_size,
                 name_of(attention::kStrategies, settings.strategy));
  }
}

std::vector<double> doubles(const HostArray& array) {
  const HostArray wide = array.convert(DType::kF64);
  const auto values = wide.data<double>();
  return {values.begin(), values.end()};
}

std::vector<std::int32_t> integers(const HostArray& array) {
  const auto values = array.data<std::int32_t>();
  return {values.begin(), values.end()};
}

CaseResult run_reference(const CaseSettings& settings,
                         const CaseTensors& tensors) {
  const Shape& q = tensors.at("q").shape();
  const Shape& v = tensors.at("v").shape();
  attention::ReferenceInputs in;
  in.batch = q.dims[0];
  in.queries = q.dims[1];
  in.query_heads = q.dims[2];
  in.head_dim = q.dims[3];
  in.keys = v.dims[1];
  in.kv_heads = v.dims[2];
  in.value_dim = v.dims[3];
  in.scale =
      settings.scale.value_or(1 / std::sqrt(static_cast<double>(q.dims[3])));
  in.mask = [&](std::int64_t i, std::int64_t j) {
    return settings.mask.visible(i, j);
  };
  const auto read = [&](const char* name) {
    return doubles(tensors.at(name).convert(settings.dtype.value_or(q.dtype)));
  };
  in.q = read("q");
  in.k = read("k");
  in.v = read("v");
  if (tensors.contains("do")) in.dout = read("do");
  if (settings.soft_cap > 0) in.soft_cap = settings.soft_cap;
  if (tensors.contains("sinks")) in.sinks = doubles(tensors.at("sinks"));
  if (tensors.contains("q_segment_ids")) {
    in.query_segments = integers(tensors.at("q_segment_ids"));
    in.kv_segments = integers(tensors.at("kv_segment_ids"));
  }
  const attention::ReferenceOutputs made = attention::reference_attention(in);

  CaseResult result;
  const auto put = [&](const char* name, Dims dims, DType dtype,
                       const std::vector<double>& values) {
    result.tensors[name] =
        HostArray::from<double>(std::move(dims), values).convert(dtype);
  };
  const Dims rows = {q.dims[0], q.dims[1], q.dims[2]};
  put("out", {q.dims[0], q.dims[1], q.dims[2], v.dims[3]}, q.dtype, made.out);
  put("lse", rows, DType::kF32, made.lse);
  put("max_logits", rows, DType::kF32, made.max_logits);
  if (tensors.contains("do")) {
    put("dq", q.dims, q.dtype, made.dq);
    put("dk", tensors.at("k").shape().dims, q.dtype, made.dk);
    put("dv", v.dims, q.dtype, made.dv);
    if (!in.sinks.empty()) put("dsinks", {q.dims[2]}, DType::kF32, made.dsinks);
  }
  result.kernel = "reference";
  result.strategy = name_of(attention::kStrategies, Strategy::kSingle);
  result.summary = "single, kernel reference (float64 on the host)";
  result.pairs_per_device = {
      settings.mask.count(attention::PositionRange{0, in.queries},
                          attention::PositionRange{0, in.keys})};
  return result;
}

Shapes shapes_of(const CaseTensors& tensors) {
  Shapes shapes;
  for (const auto& [name, array] : tensors) shapes[name] = array.shape();
  return shapes;
}

// Forward and backward, of the visible pairs.
double flops_of(const CaseSettings& settings, const Shapes& shapes) {
  const Dims& q = shapes.at("q").dims;
  const Dims& v = shapes.at("v").dims;
  const auto pairs = static_cast<double>(settings.mask.count(
      attention::PositionRange{0, q[1]}, attention::PositionRange{0, v[1]}));
  return 3.5 * 2 * pairs * static_cast<double>(q[0] * q[2] * (q[3] + v[3]));
}

}  // namespace

// What a compiled case holds.
struct CompiledCase::Parts {
  Parts(const CaseSettings& settings, const CaseTensors& tensors)
      : shapes(shapes_of(tensors)),
        client(pjrt::cpu_client(settings.pjrt_plugin, settings.context_parallel,
                                flops_of(settings, shapes))),
        setup(settings, shapes),
        graph(setup.mesh) {
    setup.attend.target.has_ffi =
        train::register_native_kernels(client.plugin());
    plan = plan_case(setup, shapes);
    const auto begin = std::chrono::steady_clock::now();
    std::vector<HostArray> arguments = build(tensors);
    text = ringmax::graph::print_stablehlo(graph);
    pjrt::CompileOptions options;
    options.num_partitions = settings.context_parallel;
    program =
        std::make_unique<train::Program>(graph, client.compile(text, options));
    compile_s =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begin)
            .count();
    for (std::size_t i = 0; i < arguments.size(); ++i) {
      uploaded.push_back(train::upload(
          client, arguments[i], *graph.parameters()[i].spec, setup.mesh));
    }
  }

  // Builds the graph and returns its arguments in order.
  std::vector<HostArray> build(const CaseTensors& tensors) {
    std::vector<HostArray> arguments;
    const auto parameter = [&](const char* name,
                               const mesh::PartitionSpec& spec) {
      if (!tensors.contains(name)) return ringmax::graph::Value{};
      HostArray given = tensors.at(name);
      if (!spec.dims.empty()) {
        if (is_real(given.shape().dtype)) given = given.convert(setup.dtype);
        given = attention::to_slots(given, setup.layout_of(name));
      }
      arguments.push_back(given);
      return graph.parameter(name, given.shape(), spec);
    };
    attention::AttendInputs in;
    in.q_BSHD = parameter("q", setup.heads);
    in.k_BTKD = parameter("k", setup.heads);
    in.v_BTKV = parameter("v", setup.heads);
    in.q_segments_BS = parameter("q_segment_ids", setup.tokens);
    in.kv_segments_BT = parameter("kv_segment_ids", setup.tokens);
    in.sinks_H = parameter("sinks", {});
    const attention::AttendResult made = attention::attend(in, plan);
    graph.result("out", made.out_BSHV, setup.heads);
    graph.result("lse", made.lse_BSH, setup.rows);
    graph.result("max_logits", made.max_BSH, setup.rows);
    if (tensors.contains("do")) {
      ringmax::graph::Values of = {in.q_BSHD, in.k_BTKD, in.v_BTKV};
      if (in.sinks_H.valid()) of.push_back(in.sinks_H);
      const ringmax::graph::Values d = ringmax::graph::vjp(
          {made.out_BSHV}, {parameter("do", setup.heads)}, of);
      graph.result("dq", d[0], setup.heads);
      graph.result("dk", d[1], setup.heads);
      graph.result("dv", d[2], setup.heads);
      if (d.size() > 3) graph.result("dsinks", d[3], mesh::PartitionSpec());
    }
    return arguments;
  }

  Shapes shapes;
  pjrt::Client client;
  Setup setup;
  attention::AttendPlan plan;
  ringmax::graph::Graph graph;
  std::string text;
  double compile_s = 0;
  std::unique_ptr<train::Program> program;
  std::vector<train::DeviceArray> uploaded, made;
};

CompiledCase::CompiledCase(const CaseSettings& settings,
                           const CaseTensors& tensors)
    : parts_(std::make_unique<Parts>(settings, tensors)) {}
CompiledCase::~CompiledCase() = default;

void CompiledCase::run() {
  std::vector<const train::DeviceArray*> pointers;
  for (const train::DeviceArray& each : parts_->uploaded) {
    pointers.push_back(&each);
  }
  parts_->made = parts_->program->run(pointers);
  for (const train::DeviceArray& each : parts_->made) {
    for (const pjrt::Buffer& shard : each.shards) shard.ready().await();
  }
}

const attention::AttendPlan& CompiledCase::plan() const { return parts_->plan; }
double CompiledCase::compile_s() const { return parts_->compile_s; }
std::int64_t CompiledCase::temporaries_bytes() const {
  return parts_->program->executable().executable().memory_stats().temporaries;
}

CaseResult CompiledCase::result() const {
  const Parts& parts = *parts_;
  const attention::AttendPlan& plan = parts.plan;
  const DType result_dtype = parts.shapes.at("q").dtype;
  CaseResult result;
  result.program = parts.text;
  result.temporaries_bytes = temporaries_bytes();
  for (std::size_t i = 0; i < parts.made.size(); ++i) {
    const std::string& name = parts.graph.results()[i].name;
    HostArray array = train::download(parts.made[i]);
    if (name != "dsinks") {
      array = attention::from_slots(array, parts.setup.layout_of(name));
    }
    const bool statistic =
        name == "lse" || name == "max_logits" || name == "dsinks";
    result.tensors[name] =
        array.convert(statistic ? DType::kF32 : result_dtype);
  }
  result.kernel = plan.backend->name();
  result.strategy = name_of(attention::kStrategies, plan.strategy);
  result.ring_steps_sent = plan.ring_steps_sent;
  result.bytes_sent_per_device = plan.bytes_sent_per_device;
  result.pairs_per_device = plan.pairs_per_device;
  result.summary = plan.summary();
  result.notes = plan.notes;
  result.refused = plan.refused;
  return result;
}

std::shared_ptr<const attention::DenseMask> array_mask(const HostArray& mask) {
  const Shape& shape = mask.shape();
  if (shape.rank() != 2 ||
      (shape.dtype != DType::kU8 && shape.dtype != DType::kBool)) {
    fail_invalid("tensor mask is {}; it must be [S, T] U8 or BOOL",
                 shape.to_string());
  }
  return attention::DenseMask::make(shape.dims[0], shape.dims[1],
                                    mask.raw<std::uint8_t>());
}

void check_case(const CaseSettings& settings, const Shapes& shapes) {
  Problems problems;
  check_names(shapes, problems);
  problems.throw_if_any();
  check_shapes(settings, shapes, problems);
  problems.throw_if_any();
  const bool reference = settings.kernel == "reference";
  if (reference) {
    check_reference(settings, problems);
  } else {
    check_devices(settings, shapes, problems);
  }
  problems.throw_if_any();
  if (reference) {
    settings.mask.check_shape(shapes.at("q").dims[1], shapes.at("k").dims[1]);
  } else {
    plan_case(Setup(settings, shapes), shapes);
  }
}

CaseResult run_case(const CaseSettings& settings, const CaseTensors& tensors) {
  check_case(settings, shapes_of(tensors));
  CaseResult result;
  if (settings.kernel == "reference") {
    result = run_reference(settings, tensors);
  } else {
    CompiledCase compiled(settings, tensors);
    compiled.run();
    result = compiled.result();
  }
  result.layout = attention::layout_name(settings.layout);
  result.devices = settings.context_parallel;
  return result;
}

}  // namespace ringmax::cli
