// Holds the splash kernels to the known cases in two ways: through their twin
// on the CPU plugin, and through the interpreter of their Mosaic text.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "ringmax/attention/splash/splash.h"
#include "ringmax/attention/testing/cases.h"
#include "ringmax/graph/ops.h"
#include "ringmax/kernel/testing/mosaic_interpreter.h"
#include "ringmax/testing/run_graph.h"

namespace ringmax::attention::splash {
namespace {

using attention::testing::Case;
namespace g = ringmax::graph;

// The twin and the text do the same float32 operations, sums in another order.
constexpr double kTwinTolerance = 2e-6;

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
  explicit CaseProgram(const Case& c) {
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

    const KernelPartial partial = splash_forward(
        r, o, [&](const kernel::Kernel& k, const g::Values& operands) {
          for (std::size_t i = 0; i < operands.size(); ++i) {
            graph.result("operand" + std::to_string(i), operands[i]);
          }
          text = std::make_unique<kernel::testing::MosaicProgram>(k);
          const g::Values results =
              kernel::call(k, kernel::Lowering::kTwin, operands);
          this->operands = operands.size();
          for (std::size_t i = 0; i < results.size(); ++i) {
            graph.result("result" + std::to_string(i), results[i]);
          }
          return results;
        });
    const auto heads_last = [&](g::Value x) {
      Dims dims = {in.batch, in.query_heads, in.queries};
      Dims order = {0, 2, 1};
      if (x.rank() == 5) {
        dims.push_back(in.value_dim);
        order.push_back(3);
      }
      return g::transpose(g::reshape(x, dims), order);
    };
    graph.result("out", heads_last(partial.out_BKGSV));
    graph.result("lse", heads_last(partial.lse_BKGS));
    graph.result("max", heads_last(partial.max_BKGS));
  }

  g::Graph graph;
  std::unique_ptr<kernel::testing::MosaicProgram> text;
  std::vector<HostArray> arguments;
  std::size_t operands = 0;
};

TEST(Splash, TwinAndTextAnswerTheKnownCases) {
  for (const Case& c : attention::testing::known_cases()) {
    SCOPED_TRACE(c.name);
    Case forward = c;
    std::erase_if(forward.expected,
                  [](const auto& e) { return e.tensor[0] == 'd'; });
    if (forward.expected.empty()) continue;
    CaseProgram program(forward);
    const std::vector<HostArray> results =
        ringmax::testing::run_graph(program.graph, program.arguments);
    ReferenceOutputs outputs;
    // The kernel's text on the same operands: equal up to the order of sums.
    const auto first = results.begin();
    const auto last = first + static_cast<std::ptrdiff_t>(program.operands);
    const std::vector<HostArray> interpreted = program.text->run({first, last});
    for (std::size_t i = 0; i < interpreted.size(); ++i) {
      EXPECT_LT(attention_error(doubles(interpreted[i]),
                                doubles(results[program.operands + i])),
                kTwinTolerance)
          << "result " << i;
    }
    const std::size_t n = program.operands + interpreted.size();
    outputs.out = doubles(results[n]);
    outputs.lse = doubles(results[n + 1]);
    outputs.max_logits = doubles(results[n + 2]);
    for (const std::string& finding :
         attention::testing::check_case(forward, outputs)) {
      ADD_FAILURE() << "twin: " << finding;
    }
  }
}

}  // namespace
}  // namespace ringmax::attention::splash
