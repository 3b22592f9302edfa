// attend() on virtual devices: known answers, the reference, the collectives.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <utility>

#include "ringmax/attention/attend.h"
#include "ringmax/attention/testing/cases.h"
#include "ringmax/graph/gradient.h"
#include "ringmax/graph/print.h"
#include "ringmax/mesh/axis_rules.h"
#include "ringmax/testing/run_graph.h"

namespace ringmax::attention {
namespace {

using testing::Case;
using testing::random_case;

// Float32 against float64: sums of some dozen products of rounded factors,
// each rounding 6e-8 of values up to 16; gradients go through two such sums.
constexpr double kForwardTolerance = 2e-5;
constexpr double kGradientTolerance = 5e-5;
// bfloat16 keeps 8 bits: inputs, probabilities and results are each rounded by
// up to 2^-9, and gradients round their factor ds once more.
constexpr double kBf16Tolerance = 3e-2;

struct Setting {
  std::int64_t ring = 1;
  ContextStrategy strategy = ContextStrategy::kRing;
  DType dtype = DType::kF32;
  std::int64_t block = 512;
  bool gradients = true;
};

std::unique_ptr<graph::Graph> build(const Case& c, const Setting& how) {
  const ReferenceInputs& in = c.inputs;
  auto g =
      std::make_unique<graph::Graph>(mesh::make_mesh({{"context", how.ring}}));
  const mesh::PartitionSpec whole{{}, {"context"}, {}, {}};
  const mesh::PartitionSpec rows{{}, {"context"}, {}};
  const auto parameter = [&](const char* name, std::int64_t length,
                             std::int64_t heads, std::int64_t size) {
    return g->parameter(name, Shape(how.dtype, {in.batch, length, heads, size}),
                        whole);
  };
  const graph::Value q =
      parameter("q", in.queries, in.query_heads, in.head_dim);
  const graph::Value k = parameter("k", in.keys, in.kv_heads, in.head_dim);
  const graph::Value v = parameter("v", in.keys, in.kv_heads, in.value_dim);
  AttendSettings settings;
  settings.strategy = how.strategy;
  settings.causal = c.mask.kind() == Mask::Kind::kCausal;
  settings.causal_offset = c.mask.offset();
  settings.scale = in.scale;
  settings.block_q = settings.block_kv = how.block;
  const AttendResult made = attend(q, k, v, settings);
  g->result("out", made.out_BSHV, whole);
  g->result("lse", made.lse_BSH, rows);
  g->result("max_logits", made.max_BSH, rows);
  if (how.gradients) {
    const graph::Value dout =
        parameter("do", in.queries, in.query_heads, in.value_dim);
    const graph::Values d = graph::vjp({made.out_BSHV}, {dout}, {q, k, v});
    g->result("dq", d[0], whole);
    g->result("dk", d[1], whole);
    g->result("dv", d[2], whole);
  }
  return g;
}

HostArray array_of(const Shape& shape, const std::vector<double>& values) {
  return HostArray::from<double>(shape.dims, values).convert(shape.dtype);
}

std::vector<double> doubles(const HostArray& array) {
  const HostArray wide = array.convert(DType::kF64);
  const auto values = wide.data<double>();
  return {values.begin(), values.end()};
}

// Runs cases; those that differ in values alone share a program.
class Runner {
 public:
  ReferenceOutputs run(const Case& c, Setting how) {
    const ReferenceInputs& in = c.inputs;
    how.gradients = !in.dout.empty();
    const std::string key = fmt::format(
        "{} {} {} {} {} {} {} {} {} {} {} {} {} {}", c.mask.to_string(),
        in.batch, in.queries, in.keys, in.query_heads, in.kv_heads, in.head_dim,
        in.value_dim, in.scale, how.ring, static_cast<int>(how.strategy),
        dtype_name(how.dtype), how.block, how.gradients);
    Made& made = made_[key];
    if (!made.program) {
      made.graph = build(c, how);
      made.program =
          std::make_unique<ringmax::testing::CompiledGraph>(*made.graph);
    }
    const auto& parameters = made.graph->parameters();
    std::vector<HostArray> arguments = {
        array_of(parameters[0].value.shape(), in.q),
        array_of(parameters[1].value.shape(), in.k),
        array_of(parameters[2].value.shape(), in.v)};
    if (how.gradients) {
      arguments.push_back(array_of(parameters[3].value.shape(), in.dout));
    }
    const std::vector<HostArray> out = made.program->run(arguments);
    ReferenceOutputs result;
    result.out = doubles(out[0]);
    result.lse = doubles(out[1]);
    result.max_logits = doubles(out[2]);
    if (how.gradients) {
      result.dq = doubles(out[3]);
      result.dk = doubles(out[4]);
      result.dv = doubles(out[5]);
    }
    return result;
  }

 private:
  struct Made {
    std::unique_ptr<graph::Graph> graph;
    std::unique_ptr<ringmax::testing::CompiledGraph> program;
  };
  std::map<std::string, Made> made_;
};

void expect_near(const ReferenceOutputs& got, const ReferenceOutputs& want,
                 double forward, double gradient) {
  EXPECT_LE(attention_error(got.out, want.out), forward);
  EXPECT_LE(attention_error(got.lse, want.lse), forward);
  EXPECT_LE(attention_error(got.max_logits, want.max_logits), forward);
  EXPECT_LE(attention_error(got.dq, want.dq), gradient);
  EXPECT_LE(attention_error(got.dk, want.dk), gradient);
  EXPECT_LE(attention_error(got.dv, want.dv), gradient);
}

std::int64_t count_of(const std::string& text, std::string_view word) {
  std::int64_t count = 0;
  for (std::size_t at = text.find(word); at != std::string::npos;
       at = text.find(word, at + 1)) {
    ++count;
  }
  return count;
}

void expect_known_answers(ContextStrategy strategy) {
  Runner runner;
  const auto findings = testing::run_known_cases(
      [&](const Case& c, std::int64_t ring, LayoutKind) {
        Setting how;
        how.ring = ring;
        how.strategy = strategy;
        return runner.run(c, how);
      });
  for (const std::string& finding : findings) ADD_FAILURE() << finding;
}

TEST(AttendCpuTest, RingGivesTheKnownAnswers) {
  expect_known_answers(ContextStrategy::kRing);
}

TEST(AttendCpuTest, AllGatherGivesTheKnownAnswers) {
  expect_known_answers(ContextStrategy::kAllGather);
}

TEST(AttendCpuTest, AgreesWithTheReferenceAndWithOneDevice) {
  Runner runner;
  for (const Mask& mask :
       {Mask::causal(), Mask::causal(-7), Mask::causal(9), Mask::causal(-40),
        Mask::causal(-100), Mask::full()}) {
    const Case c = random_case("gqa", mask, 2, 48, 48, 8, 2, 16, 4, 5);
    const ReferenceOutputs reference = reference_attention(c.inputs);
    Setting how;
    how.block = 5;  // divides no shard
    const ReferenceOutputs single = runner.run(c, how);
    for (ContextStrategy strategy :
         {ContextStrategy::kRing, ContextStrategy::kAllGather}) {
      for (std::int64_t ring : {1, 2, 3, 4, 8}) {
        // Gathering has one program shape; one uneven ring stands for it here.
        if (strategy == ContextStrategy::kAllGather && ring != 3) continue;
        SCOPED_TRACE(fmt::format("{} ring {} {}", mask.to_string(), ring,
                                 name_of(kContextStrategies, strategy)));
        how.ring = ring;
        how.strategy = strategy;
        const ReferenceOutputs got = runner.run(c, how);
        expect_near(got, reference, kForwardTolerance, kGradientTolerance);
        expect_near(got, single, kForwardTolerance, kGradientTolerance);
      }
    }
  }
}

TEST(AttendCpuTest, MoreKeysThanQueriesAndTheOtherWayRound) {
  Runner runner;
  for (const auto& [queries, keys] : {std::pair{12, 36}, std::pair{36, 12}}) {
    const Case c =
        random_case("uneven", Mask::causal(5), 1, queries, keys, 4, 4, 8, 4, 6);
    Setting how;
    how.ring = 4;
    how.block = 5;
    expect_near(runner.run(c, how), reference_attention(c.inputs),
                kForwardTolerance, kGradientTolerance);
  }
}

TEST(AttendCpuTest, Bf16StaysNearTheReferenceOfItsOwnInputs) {
  Runner runner;
  Case c = random_case("bf16", Mask::causal(), 1, 32, 32, 4, 2, 16, 1, 7);
  for (auto* values : {&c.inputs.q, &c.inputs.k, &c.inputs.v, &c.inputs.dout}) {
    for (double& value : *values) {
      value = bf16_to_float(float_to_bf16(static_cast<float>(value)));
    }
  }
  Setting how;
  how.ring = 4;
  how.dtype = DType::kBF16;
  expect_near(runner.run(c, how), reference_attention(c.inputs), kBf16Tolerance,
              kBf16Tolerance);
}

TEST(AttendCpuTest, ARingSendsEveryPayloadOnceAStep) {
  const Case c = random_case("sends", Mask::full(), 1, 24, 24, 4, 2, 8, 1, 8);
  for (std::int64_t ring : {1, 2, 3, 4, 6, 8}) {
    SCOPED_TRACE(ring);
    Setting how;
    how.ring = ring;
    how.gradients = false;
    const std::string forward = graph::print_stablehlo(*build(c, how));
    EXPECT_EQ(count_of(forward, "stablehlo.collective_permute"), ring - 1);
    how.gradients = true;
    const std::string both = graph::print_stablehlo(*build(c, how));
    // Forward, backward, and the gradients on their way round and home.
    EXPECT_EQ(count_of(both, "stablehlo.collective_permute"), 3 * (ring - 1));
    for (const char* other : {"all_gather", "all_reduce", "reduce_scatter"}) {
      EXPECT_EQ(count_of(both, fmt::format("stablehlo.{}", other)), 0);
    }
    // Every send is one payload: keys and values side by side.
    EXPECT_EQ(count_of(forward, "ring_send") > 0, ring > 1);
  }
}

TEST(AttendCpuTest, AllGatherGathersOnceAndScattersOnce) {
  const Case c = random_case("gathers", Mask::full(), 1, 24, 24, 4, 2, 8, 1, 8);
  Setting how;
  how.ring = 4;
  how.strategy = ContextStrategy::kAllGather;
  const std::string text = graph::print_stablehlo(*build(c, how));
  EXPECT_EQ(count_of(text, "stablehlo.all_gather"), 2);
  EXPECT_EQ(count_of(text, "stablehlo.reduce_scatter"), 1);
  EXPECT_EQ(count_of(text, "stablehlo.collective_permute"), 0);
}

}  // namespace
}  // namespace ringmax::attention
