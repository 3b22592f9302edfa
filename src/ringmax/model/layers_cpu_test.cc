#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ringmax/base/philox.h"
#include "ringmax/graph/gradient.h"
#include "ringmax/graph/ops.h"
#include "ringmax/mesh/axis_rules.h"
#include "ringmax/model/decoder.h"
#include "ringmax/model/layers.h"
#include "ringmax/model/testing/small_options.h"
#include "ringmax/testing/run_graph.h"

namespace ringmax::model {
namespace {

constexpr std::int64_t kBatch = 4;
constexpr std::int64_t kLength = 32;

HostArray normal(Dims dims, std::uint64_t stream, float scale) {
  HostArray a(Shape(DType::kF32, std::move(dims)));
  std::uint64_t i = 0;
  for (float& v : a.data<float>()) v = scale * approx_normal(11, stream, i++);
  return a;
}

HostArray positions_from(std::int32_t first) {
  HostArray a(Shape(DType::kI32, {kBatch, kLength}));
  std::int64_t i = 0;
  for (std::int32_t& v : a.data<std::int32_t>()) {
    v = first + static_cast<std::int32_t>(i++ % kLength);
  }
  return a;
}

TEST(Layers, RmsNormEqualsTheHost) {
  constexpr double kEpsilon = 1e-2;
  constexpr std::size_t kWidth = 24;
  const HostArray x = normal({2, 3, kWidth}, 0, 3);
  const HostArray scale = normal({kWidth}, 1, 1);
  graph::Graph g;
  const graph::Value in_x = g.parameter("x", x.shape());
  const graph::Value in_scale = g.parameter("scale", scale.shape());
  g.result("y", rms_norm(in_x, in_scale, kEpsilon));
  const HostArray got = testing::run_graph(g, {x, scale})[0];
  const auto in = x.data<float>();
  for (std::size_t row = 0; row < 6; ++row) {
    double squares = 0;
    for (std::size_t e = 0; e < kWidth; ++e) {
      squares += std::pow(double{in[row * kWidth + e]}, 2);
    }
    const double root = std::sqrt(squares / kWidth + kEpsilon);
    for (std::size_t e = 0; e < kWidth; ++e) {
      const double want =
          in[row * kWidth + e] / root * double{scale.data<float>()[e]};
      // A sum of 24, a root and two products in float32.
      EXPECT_NEAR(got.data<float>()[row * kWidth + e], want,
                  1e-6 * (1 + std::abs(want)));
    }
  }
}

// Frequency `i` of Llama 3.1 as its paper's code words it, in float64.
double host_frequency(const ModelOptions& o, double i) {
  const double f =
      std::pow(o.rope_max_timescale, -2 * i / static_cast<double>(o.head_dim));
  if (!o.rope_scaling()) return f;
  const double turns = static_cast<double>(o.rope_llama3_original_length) * f /
                       (2 * std::numbers::pi);
  if (turns < o.rope_llama3_low_freq_factor) return f / o.rope_llama3_factor;
  if (turns > o.rope_llama3_high_freq_factor) return f;
  const double smooth =
      (turns - o.rope_llama3_low_freq_factor) /
      (o.rope_llama3_high_freq_factor - o.rope_llama3_low_freq_factor);
  return f * (smooth + (1 - smooth) / o.rope_llama3_factor);
}

TEST(Layers, RotaryEqualsTheHost) {
  ModelOptions plain = small_options();
  ModelOptions scaled = small_options();
  scaled.rope_type = RopeType::kLlama31;
  scaled.rope_max_timescale = 500000;
  constexpr std::int32_t kFirst = 100;
  constexpr std::int64_t kHeads = 3;
  for (const ModelOptions& o : {plain, scaled}) {
    const HostArray x = normal({kBatch, kLength, kHeads, o.head_dim}, 2, 1);
    graph::Graph g;
    const graph::Value in = g.parameter("x", x.shape());
    const graph::Value at =
        g.parameter("positions", Shape(DType::kI32, {kBatch, kLength}));
    g.result("y", apply_rotary(in, rotary_angles(at, o)));
    const HostArray got = testing::run_graph(g, {x, positions_from(kFirst)})[0];
    const auto half = static_cast<std::size_t>(o.head_dim / 2);
    std::size_t row = 0;
    for (std::int64_t bs = 0; bs < kBatch * kLength; ++bs) {
      for (std::int64_t h = 0; h < kHeads; ++h, ++row) {
        const float* a = x.data<float>().data() + row * 2 * half;
        const float* y = got.data<float>().data() + row * 2 * half;
        for (std::size_t i = 0; i < half; ++i) {
          const double angle = static_cast<double>(kFirst + bs % kLength) *
                               host_frequency(o, static_cast<double>(i));
          const double c = std::cos(angle);
          const double s = std::sin(angle);
          // An angle of at most 132 radians is rounded by 132 * 2^-24 and the
          // frequency as much again: 2e-5 of an operand of order 1.
          constexpr double kTolerance = 5e-5;
          EXPECT_NEAR(y[i], a[i] * c - a[i + half] * s, kTolerance);
          EXPECT_NEAR(y[i + half], a[i + half] * c + a[i] * s, kTolerance);
        }
      }
    }
  }
}

// The attention layer's output and gradients of x, query, key, value, out.
std::vector<HostArray> attention_on(const mesh::Mesh& mesh,
                                    attention::ContextStrategy strategy,
                                    std::int32_t first_position) {
  const ModelOptions options = small_options();
  attention::AttentionOptions attention;
  attention.sa_block_q = 4;
  attention.sa_block_kv = 4;
  const std::vector<ParameterInfo> infos = parameters(options, mesh);
  const auto spec = [&](std::initializer_list<std::string_view> names) {
    return mesh::logical_to_spec(names, mesh::default_axis_rules(), mesh);
  };
  graph::Graph g(mesh);
  std::vector<HostArray> arguments;
  const mesh::PartitionSpec x_spec =
      spec({"activation_batch", "activation_length", "activation_embed"});
  const auto input = [&](const char* name, HostArray value,
                         const mesh::PartitionSpec& at) {
    arguments.push_back(std::move(value));
    return g.parameter(name, arguments.back().shape(), at);
  };
  const std::int64_t e = options.base_emb_dim;
  const std::int64_t h = options.base_num_query_heads;
  const std::int64_t k = options.base_num_kv_heads;
  const std::int64_t d = options.head_dim;
  const graph::Value x =
      input("x", normal({kBatch, kLength, e}, 20, 1), x_spec);
  const mesh::PartitionSpec whole;
  // Scores with a standard deviation of several units.
  const AttentionWeights w = {
      input("query", normal({h * d, e}, 21, 0.3f), whole),
      input("key", normal({k * d, e}, 22, 0.3f), whole),
      input("value", normal({k * d, e}, 23, 0.2f), whole),
      input("out", normal({h * d, e}, 24, 0.2f), whole)};
  const graph::Value positions =
      input("positions", positions_from(first_position),
            spec({"activation_batch", "activation_length"}));
  const graph::Value weight =
      input("weight", normal({kBatch, kLength, e}, 25, 1), x_spec);
  ModelContext context{options, attention, infos};
  context.plan.strategy = strategy;
  const graph::Value y = attention_layer(context, x, {{}, positions, {}}, w);
  const graph::Value loss = graph::reduce_sum(y * weight, {0, 1, 2});
  g.result("y", y, x_spec);
  const graph::Values wrt = {x, w.query_PE, w.key_PE, w.value_PE, w.out_PE};
  const graph::Values gradients = graph::gradient(loss, wrt);
  for (std::size_t i = 0; i < wrt.size(); ++i) {
    g.result("d", gradients[i], i == 0 ? x_spec : whole);
  }
  return testing::run_graph(g, arguments);
}

// Relative to the largest element: sums of 128 tokens in another order.
constexpr double kReordered = 1e-5;

void expect_near(const std::vector<HostArray>& got,
                 const std::vector<HostArray>& want, double tolerance) {
  const char* names[] = {"y", "dx", "dquery", "dkey", "dvalue", "dout"};
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t k = 0; k < want.size(); ++k) {
    const auto a = got[k].data<float>();
    const auto b = want[k].data<float>();
    double largest = 0;
    double difference = 0;
    for (std::size_t i = 0; i < b.size(); ++i) {
      largest = std::max(largest, std::abs(double{b[i]}));
      difference = std::max(difference, std::abs(double{a[i]} - double{b[i]}));
    }
    EXPECT_GT(largest, 0.01) << names[k];
    EXPECT_LE(difference, tolerance * largest) << names[k];
  }
}

const std::vector<HostArray>& one_device() {
  static const auto& answer = *new std::vector<HostArray>(
      attention_on(mesh::make_mesh({}), attention::ContextStrategy::kRing, 0));
  return answer;
}

TEST(AttentionLayer, IsTheSameOnEveryMesh) {
  const mesh::Mesh meshes[] = {
      mesh::make_mesh({{"data", 2}, {"context", 2}, {"tensor", 2}}),
      mesh::make_mesh({{"fsdp", 2}, {"context", 4}}),
      mesh::make_mesh({{"context", 8}})};
  for (const mesh::Mesh& mesh : meshes) {
    for (const auto strategy : {attention::ContextStrategy::kRing,
                                attention::ContextStrategy::kAllGather}) {
      SCOPED_TRACE(mesh.to_string() +
                   (strategy == attention::ContextStrategy::kRing
                        ? ", ring"
                        : ", all_gather"));
      expect_near(attention_on(mesh, strategy, 0), one_device(), kReordered);
    }
  }
}

TEST(AttentionLayer, DoesNotSeeWherePositionsStart) {
  // Angles of up to 1032 radians are rounded by 6e-5 and enter scores of
  // several units.
  constexpr double kTolerance = 1e-3;
  for (const std::int64_t r : {1, 4}) {
    SCOPED_TRACE(r);
    expect_near(attention_on(mesh::make_mesh({{"context", r}}),
                             attention::ContextStrategy::kRing, 1000),
                one_device(), kTolerance);
  }
}

}  // namespace
}  // namespace ringmax::model
