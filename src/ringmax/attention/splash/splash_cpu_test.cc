// Holds the splash kernels to the known cases in two ways: through their twin
// on the CPU plugin, and through the interpreter of their Mosaic text.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "ringmax/attention/partial.h"
#include "ringmax/attention/splash/backward_kernel.h"
#include "ringmax/attention/splash/blocks.h"
#include "ringmax/attention/splash/splash.h"
#include "ringmax/attention/testing/cases.h"
#include "ringmax/graph/ops.h"
#include "ringmax/kernel/testing/mosaic_interpreter.h"
#include "ringmax/testing/run_graph.h"

namespace ringmax::attention::splash {
namespace {

using attention::testing::Case;
namespace g = ringmax::graph;

// The twin and the text do the same float32 operations, fused and summed in
// another order. A logit of size L carries an error of L / 2^24, which the
// exponential makes a relative one of what follows.
constexpr double kTwinTolerance = 2e-6;

double largest_logit(const ReferenceOutputs& outputs) {
  double largest = 1;
  for (const double x : outputs.max_logits) {
    if (std::isfinite(x)) largest = std::max(largest, std::fabs(x));
  }
  return largest;
}

HostArray f32_array(const Dims& dims, const std::vector<double>& values) {
  HostArray array(Shape(DType::kF64, dims));
  std::copy(values.begin(), values.end(), array.data<double>().begin());
  return array.convert(DType::kF32);
}

std::vector<double> doubles(const HostArray& array) {
  const HostArray wide = array.convert(DType::kF64);
  const auto data = wide.data<double>();
  return {data.begin(), data.end()};
}

HostArray counting(std::int64_t n) {
  HostArray array(Shape(DType::kI32, {n}));
  for (std::int64_t i = 0; i < n; ++i) {
    array.data<std::int32_t>()[static_cast<std::size_t>(i)] =
        static_cast<std::int32_t>(i);
  }
  return array;
}

// A case as one program: results of the twin, and the operands of each kernel
// that it called, so that the kernels' text can be run on the same numbers.
struct CaseProgram {
  // `in_runs`: with blocks of 128 and so little memory that the backward kernel
  // takes the keys in runs; the kernels' operands are not recorded then.
  explicit CaseProgram(const Case& c, bool in_runs = false) {
    const ReferenceInputs& in = c.inputs;
    KernelRequest r;
    r.mask = c.mask;
    r.scale = in.scale;
    r.batch = in.batch;
    r.kv_heads = in.kv_heads;
    r.groups = in.query_heads / in.kv_heads;
    r.queries = in.queries;
    r.keys = in.keys;
    r.head_dim = in.head_dim;
    r.value_dim = in.value_dim;
    r.dtype = DType::kF32;
    if (in_runs) {
      constexpr std::int64_t kMuch = std::int64_t{1} << 30;
      r.forward_blocks = r.backward_blocks = {128, 128, 128};
      r.vmem_bytes = kMuch;
      const std::int64_t whole = backward_spec(r).keys;
      constexpr std::int64_t kTemporaries = std::int64_t{6} << 20;
      r.vmem_bytes =
          kTemporaries + backward_kernel(backward_spec(r))->vmem_bytes() - 1;
      EXPECT_LT(backward_spec(r).keys, whole);
    }
    KernelOperands o;
    const auto heads_first = [&](const std::string& name, std::int64_t length,
                                 std::int64_t heads, std::int64_t width,
                                 const std::vector<double>& values) {
      arguments.push_back(f32_array({in.batch, length, heads, width}, values));
      const g::Value x = graph.parameter(name, arguments.back().shape());
      return g::transpose(x, {0, 2, 1, 3});
    };
    o.q_BKGSD = g::reshape(
        heads_first("q", in.queries, in.query_heads, in.head_dim, in.q),
        {in.batch, r.kv_heads, r.groups, in.queries, in.head_dim});
    o.k_BKTD = heads_first("k", in.keys, in.kv_heads, in.head_dim, in.k);
    o.v_BKTV = heads_first("v", in.keys, in.kv_heads, in.value_dim, in.v);
    o.q_positions_S = g::constant(graph, counting(in.queries));
    o.kv_positions_T = g::constant(graph, counting(in.keys));

    const Caller caller = [&](const kernel::Kernel& k,
                              const g::Values& operands) {
      if (in_runs) return kernel::call(k, kernel::Lowering::kTwin, operands);
      Call call{kernel::testing::MosaicProgram(k), graph.results().size(),
                operands.size(), 0};
      for (const g::Value operand : operands) add_result(operand);
      const g::Values results =
          kernel::call(k, kernel::Lowering::kTwin, operands);
      call.results = results.size();
      for (const g::Value result : results) add_result(result);
      calls.push_back(std::move(call));
      return results;
    };
    const KernelPartial partial = splash_forward(r, o, caller);
    outputs = {{"out", partial.out_BKGSV},
               {"lse", log_sum_exp(partial)},
               {"max_logits", partial.max_BKGS}};
    if (!in.dout.empty()) {
      const g::Value dout = g::reshape(
          heads_first("dout", in.queries, in.query_heads, in.value_dim,
                      in.dout),
          {in.batch, r.kv_heads, r.groups, in.queries, in.value_dim});
      const g::Value delta = g::reduce_sum(partial.out_BKGSV * dout, {4});
      // As attend() does for rows that see nothing.
      const g::Value lse = log_sum_exp(partial);
      const g::Value seen = g::is_finite(lse);
      const g::Value zero = g::zeros_like(lse);
      const g::Value clean_dout =
          g::select(g::broadcast_to(g::expand_dim(seen, 4), dout.dims()), dout,
                    g::zeros_like(dout));
      KernelGradients so_far;
      const auto nothing = [&](g::Value like) {
        return g::constant(graph, Shape(DType::kF32, like.dims()), 0);
      };
      so_far.dq_BKGSD = nothing(o.q_BKGSD);
      so_far.dk_BKTD = nothing(o.k_BKTD);
      so_far.dv_BKTV = nothing(o.v_BKTV);
      const KernelGradients gradients =
          splash_backward(r, o, clean_dout, g::select(seen, lse, zero),
                          g::select(seen, delta, zero), so_far, caller);
      outputs.emplace_back("dq", gradients.dq_BKGSD);
      outputs.emplace_back("dk", gradients.dk_BKTD);
      outputs.emplace_back("dv", gradients.dv_BKTV);
    }
    // Back to [B, S, H, ...].
    first_output = graph.results().size();
    for (auto& [name, x] : outputs) {
      if (x.rank() == 5 || name == "lse" || name == "max_logits") {
        Dims dims = {x.dim(0), x.dim(1) * x.dim(2)};
        dims.insert(dims.end(), x.dims().begin() + 3, x.dims().end());
        x = g::reshape(x, dims);
      }
      Dims order = {0, 2, 1};
      if (x.rank() == 4) order.push_back(3);
      add_result(g::transpose(x, order));
    }
  }

  void add_result(g::Value value) {
    graph.result("r" + std::to_string(graph.results().size()), value);
  }

  // A kernel's text, and where its operands are among the program's results;
  // its results follow them.
  struct Call {
    kernel::testing::MosaicProgram text;
    std::size_t first = 0;
    std::size_t operands = 0;
    std::size_t results = 0;
  };

  g::Graph graph;
  std::vector<HostArray> arguments;
  std::vector<Call> calls;
  std::vector<std::pair<std::string, g::Value>> outputs;
  std::size_t first_output = 0;
};

ReferenceOutputs outputs_of(const CaseProgram& program,
                            const std::vector<HostArray>& results) {
  ReferenceOutputs outputs;
  for (std::size_t i = 0; i < program.outputs.size(); ++i) {
    const std::string& name = program.outputs[i].first;
    std::vector<double>& to = name == "out"          ? outputs.out
                              : name == "lse"        ? outputs.lse
                              : name == "max_logits" ? outputs.max_logits
                              : name == "dq"         ? outputs.dq
                              : name == "dk"         ? outputs.dk
                                                     : outputs.dv;
    to = doubles(results[program.first_output + i]);
  }
  return outputs;
}

TEST(Splash, TwinAndTextAnswerTheKnownCases) {
  for (const Case& c : attention::testing::known_cases()) {
    SCOPED_TRACE(c.name);
    CaseProgram program(c);
    const std::vector<HostArray> results =
        ringmax::testing::run_graph(program.graph, program.arguments);
    const ReferenceOutputs outputs = outputs_of(program, results);
    // The kernels' text on the same operands.
    for (const CaseProgram::Call& call : program.calls) {
      const auto first =
          results.begin() + static_cast<std::ptrdiff_t>(call.first);
      const std::vector<HostArray> interpreted = call.text.run(
          {first, first + static_cast<std::ptrdiff_t>(call.operands)});
      ASSERT_EQ(interpreted.size(), call.results);
      for (std::size_t i = 0; i < interpreted.size(); ++i) {
        EXPECT_LT(
            attention_error(doubles(interpreted[i]),
                            doubles(results[call.first + call.operands + i])),
            kTwinTolerance * largest_logit(outputs))
            << "result " << i;
      }
    }
    for (const std::string& finding :
         attention::testing::check_case(c, outputs)) {
      ADD_FAILURE() << "twin: " << finding;
    }
  }
}

// Keys that are no multiple of a run; every other query head of a group.
TEST(Splash, RunsOfKeysAddUp) {
  const Case c = attention::testing::random_case("runs", Mask::local(300, 40),
                                                 1, 384, 600, 4, 2, 16, 2, 29);
  const CaseProgram program(c, /*in_runs=*/true);
  const ReferenceOutputs got = outputs_of(
      program, ringmax::testing::run_graph(program.graph, program.arguments));
  const ReferenceOutputs want = reference_attention(c.inputs);
  EXPECT_LE(attention_error(got.out, want.out), 1e-5);
  EXPECT_LE(attention_error(got.dq, want.dq), 3e-5);
  EXPECT_LE(attention_error(got.dk, want.dk), 3e-5);
  EXPECT_LE(attention_error(got.dv, want.dv), 3e-5);
}

}  // namespace
}  // namespace ringmax::attention::splash
