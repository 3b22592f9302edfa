#include "ringmax/cli/attention_case.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "ringmax/attention/attend.h"
#include "ringmax/attention/reference.h"
#include "ringmax/attention/ring_schedule.h"
#include "ringmax/base/problems.h"
#include "ringmax/base/suggest.h"
#include "ringmax/graph/gradient.h"
#include "ringmax/graph/print.h"
#include "ringmax/mesh/axis_rules.h"
#include "ringmax/pjrt/client.h"
#include "ringmax/train/program.h"

namespace ringmax::cli {
namespace {

// What files may hold one day; never ignored until then.
constexpr std::string_view kNotYet[] = {"q_segment_ids", "kv_segment_ids",
                                        "mask", "sinks"};

std::int64_t padded(std::int64_t length, std::int64_t multiple) {
  return (length + multiple - 1) / multiple * multiple;
}

// Zeros after, or only the first `length`, of dimension 1 of [B, S, ...].
HostArray resize_tokens(const HostArray& array, std::int64_t length) {
  if (array.shape().dims[1] == length) return array;
  Shape shape = array.shape();
  shape.dims[1] = length;
  HostArray result(shape);
  const std::int64_t batch = shape.dims[0];
  const auto from = static_cast<std::size_t>(array.shape().bytes() / batch);
  const auto to = static_cast<std::size_t>(shape.bytes() / batch);
  for (std::size_t b = 0; b < static_cast<std::size_t>(batch); ++b) {
    std::memcpy(result.bytes().data() + b * to, array.bytes().data() + b * from,
                std::min(from, to));
  }
  return result;
}

void check_names(const std::map<std::string, Shape>& shapes,
                 Problems& problems) {
  const std::vector<std::string> known = {"q", "k", "v", "do"};
  for (const auto& [name, shape] : shapes) {
    if (std::find(known.begin(), known.end(), name) != known.end()) {
      if (shape.dtype != DType::kF64 && shape.dtype != DType::kF32 &&
          shape.dtype != DType::kBF16) {
        problems.add("tensor {} is {}; its dtype must be F64, F32 or BF16",
                     name, shape.to_string());
      }
      if (shape.rank() != 4) {
        problems.add(
            "tensor {} is {}; it must have 4 dimensions: batch, tokens, heads, "
            "head size",
            name, shape.to_string());
      } else if (std::count(shape.dims.begin(), shape.dims.end(), 0) > 0) {
        problems.add("tensor {} is {}; no dimension may be 0", name,
                     shape.to_string());
      }
    } else if (std::find(std::begin(kNotYet), std::end(kNotYet), name) !=
               std::end(kNotYet)) {
      problems.add("tensor {} is not supported yet; valid are q, k, v and do",
                   name);
    } else {
      const std::string meant = closest_name(name, known);
      problems.add("unknown tensor {}{}; valid are q, k, v and do", name,
                   meant.empty() ? "" : "; did you mean " + meant + "?");
    }
  }
  for (const char* name : {"q", "k", "v"}) {
    if (!shapes.contains(name)) problems.add("tensor {} is missing", name);
  }
}

// The shapes of q, k and v are there and of rank 4.
void check_shapes(const std::map<std::string, Shape>& shapes,
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
  const Dims out = {q.dims[0], q.dims[1], q.dims[2], v.dims[3]};
  if (shapes.contains("do") && shapes.at("do").dims != out) {
    problems.add("do {} must be [B, S, Hq, Dv] = {}",
                 shapes.at("do").to_string(), dims_string(out));
  }
  for (const auto& [name, shape] : shapes) {
    if (shape.dtype != q.dtype) {
      problems.add("{} {} must have the dtype of q {}", name, shape.to_string(),
                   q.to_string());
    }
  }
}

void check_settings(const CaseSettings& settings,
                    const std::map<std::string, Shape>& shapes,
                    Problems& problems) {
  const Shape& q = shapes.at("q");
  const Shape& k = shapes.at("k");
  const std::int64_t ring = settings.context_parallel;
  const bool reference = settings.kernel == CaseKernel::kReference;
  if (!reference && q.dtype == DType::kF64) {
    problems.add(
        "q is {}: F64 is computed by kernel=reference only, not by kernel={}",
        q.to_string(), name_of(kCaseKernels, settings.kernel));
  }
  const bool plain = settings.mask.kind() == attention::Mask::Kind::kFull ||
                     settings.mask.kind() == attention::Mask::Kind::kCausal;
  if (!reference && !plain) {
    problems.add(
        "mask={} is not supported by kernel={} yet; valid are full and causal",
        settings.mask.to_string(), name_of(kCaseKernels, settings.kernel));
  }
  if (settings.layout != attention::LayoutKind::kContiguous) {
    problems.add("layout={} is not supported yet; valid is contiguous",
                 attention::layout_name(settings.layout));
  }
  if (ring > q.dims[1] || ring > k.dims[1]) {
    problems.add(
        "context_parallel={} is more than the {} queries or the {} keys; every "
        "device needs at least one of each",
        ring, q.dims[1], k.dims[1]);
  }
  if (reference && ring > 1) {
    problems.add(
        "kernel=reference runs on one device; context_parallel={} needs "
        "kernel=stablehlo",
        ring);
  }
  if (reference && (settings.strategy == CaseStrategy::kRing ||
                    settings.strategy == CaseStrategy::kAllGather)) {
    problems.add("kernel=reference has no strategy={}; valid is single",
                 name_of(kCaseStrategies, settings.strategy));
  }
  if (settings.strategy == CaseStrategy::kSingle && ring > 1) {
    problems.add(
        "strategy=single runs on one device; context_parallel={} needs "
        "strategy=ring or all_gather",
        ring);
  }
}

double scale_of(const CaseSettings& settings, const Shape& q) {
  return settings.scale.value_or(1 / std::sqrt(static_cast<double>(q.dims[3])));
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
  in.scale = scale_of(settings, q);
  in.mask = [&](std::int64_t i, std::int64_t j) {
    return settings.mask.visible(i, j);
  };
  const auto read = [&](const char* name) {
    const HostArray wide = tensors.at(name)
                               .convert(settings.dtype.value_or(q.dtype))
                               .convert(DType::kF64);
    const auto values = wide.data<double>();
    return std::vector<double>(values.begin(), values.end());
  };
  in.q = read("q");
  in.k = read("k");
  in.v = read("v");
  if (tensors.contains("do")) in.dout = read("do");
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
  }
  result.pairs_per_device = {
      settings.mask.count(attention::PositionRange{0, in.queries},
                          attention::PositionRange{0, in.keys})};
  return result;
}

attention::AttendSettings attend_settings(const CaseSettings& settings,
                                          const CaseTensors& tensors) {
  attention::AttendSettings s;
  s.strategy = settings.strategy == CaseStrategy::kAllGather
                   ? attention::ContextStrategy::kAllGather
                   : attention::ContextStrategy::kRing;
  s.causal = settings.mask.kind() == attention::Mask::Kind::kCausal;
  s.causal_offset = settings.mask.offset();
  s.queries = tensors.at("q").shape().dims[1];
  s.keys = tensors.at("k").shape().dims[1];
  s.scale = scale_of(settings, tensors.at("q").shape());
  s.block_q = settings.block_q;
  s.block_kv = settings.block_kv;
  return s;
}

// What the forward pass sends and computes, by the schedule it follows.
void count_work(const CaseSettings& settings,
                const attention::RingSchedule& schedule,
                std::int64_t shard_bytes, CaseResult& result) {
  result.pairs_per_device = schedule.pairs_per_device();
  result.pairs_per_device.resize(
      static_cast<std::size_t>(settings.context_parallel));
  if (settings.strategy == CaseStrategy::kAllGather) {
    result.bytes_sent_per_device =
        (settings.context_parallel - 1) * shard_bytes;
    return;
  }
  result.ring_steps_sent = schedule.steps_sent();
  std::vector<std::int64_t> sent(
      static_cast<std::size_t>(settings.context_parallel));
  for (const attention::RingStep& step : schedule.tracks.front().steps) {
    for (const auto& [source, target] : step.source_target_pairs) {
      sent[static_cast<std::size_t>(source)] += shard_bytes;
    }
  }
  result.bytes_sent_per_device = *std::max_element(sent.begin(), sent.end());
}

CaseResult run_on_devices(const CaseSettings& settings,
                          const CaseTensors& tensors) {
  const std::int64_t ring = settings.context_parallel;
  const DType result_dtype = tensors.at("q").shape().dtype;
  const DType dtype = settings.dtype.value_or(result_dtype);
  const attention::AttendSettings how = attend_settings(settings, tensors);
  const mesh::Mesh mesh = mesh::make_mesh({{"context", ring}});
  const mesh::PartitionSpec whole{{}, {"context"}, {}, {}};
  const mesh::PartitionSpec rows{{}, {"context"}, {}};

  graph::Graph g(mesh);
  std::vector<HostArray> arguments;
  const auto parameter = [&](const char* name) {
    const HostArray& given = tensors.at(name);
    arguments.push_back(resize_tokens(given.convert(dtype),
                                      padded(given.shape().dims[1], ring)));
    return g.parameter(name, arguments.back().shape(), whole);
  };
  const graph::Value q = parameter("q");
  const graph::Value k = parameter("k");
  const graph::Value v = parameter("v");
  const attention::AttendResult made = attention::attend(q, k, v, how);
  g.result("out", made.out_BSHV, whole);
  g.result("lse", made.lse_BSH, rows);
  g.result("max_logits", made.max_BSH, rows);
  if (tensors.contains("do")) {
    const graph::Values d =
        graph::vjp({made.out_BSHV}, {parameter("do")}, {q, k, v});
    g.result("dq", d[0], whole);
    g.result("dk", d[1], whole);
    g.result("dv", d[2], whole);
  }

  CaseResult result;
  result.program = graph::print_stablehlo(g);
  const pjrt::Client client = pjrt::cpu_client(settings.pjrt_plugin, ring);
  pjrt::CompileOptions options;
  options.num_partitions = ring;
  pjrt::set_cpu_collective_timeouts(options, 1);
  const train::Program program(g, client.compile(result.program, options));
  result.temporaries_bytes =
      program.executable().executable().memory_stats().temporaries;

  std::vector<train::DeviceArray> uploaded;
  for (const HostArray& argument : arguments) {
    uploaded.push_back(train::upload(client, argument, whole, mesh));
  }
  std::vector<const train::DeviceArray*> pointers;
  for (const train::DeviceArray& each : uploaded) pointers.push_back(&each);
  const std::vector<train::DeviceArray> out = program.run(pointers);
  for (std::size_t i = 0; i < out.size(); ++i) {
    const std::string& name = g.results()[i].name;
    const bool of_keys = name == "dk" || name == "dv";
    const bool statistic = name == "lse" || name == "max_logits";
    result.tensors[name] =
        resize_tokens(train::download(out[i]), of_keys ? how.keys : how.queries)
            .convert(statistic ? DType::kF32 : result_dtype);
  }
  const std::int64_t shard_bytes =
      (arguments[1].shape().bytes() + arguments[2].shape().bytes()) / ring;
  count_work(settings, attention::ring_schedule(how, q.dim(1), k.dim(1), ring),
             shard_bytes, result);
  return result;
}

}  // namespace

void check_case(const CaseSettings& settings,
                const std::map<std::string, Shape>& shapes) {
  Problems problems;
  check_names(shapes, problems);
  problems.throw_if_any();
  check_shapes(shapes, problems);
  check_settings(settings, shapes, problems);
  problems.throw_if_any();
}

CaseResult run_case(const CaseSettings& settings, const CaseTensors& tensors) {
  std::map<std::string, Shape> shapes;
  for (const auto& [name, array] : tensors) shapes[name] = array.shape();
  check_case(settings, shapes);
  const bool reference = settings.kernel == CaseKernel::kReference;
  CaseResult result = reference ? run_reference(settings, tensors)
                                : run_on_devices(settings, tensors);
  const CaseStrategy by_default = settings.context_parallel > 1
                                      ? CaseStrategy::kRing
                                      : CaseStrategy::kSingle;
  result.kernel = reference ? "reference" : "stablehlo";
  result.strategy =
      name_of(kCaseStrategies, settings.strategy == CaseStrategy::kAuto
                                   ? by_default
                                   : settings.strategy);
  result.layout = attention::layout_name(settings.layout);
  result.devices = settings.context_parallel;
  return result;
}

}  // namespace ringmax::cli
