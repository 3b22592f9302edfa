#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "ringmax/base/error.h"
#include "ringmax/base/philox.h"
#include "ringmax/graph/gradient.h"
#include "ringmax/graph/ops.h"
#include "ringmax/graph/print.h"
#include "ringmax/mesh/axis_rules.h"
#include "ringmax/model/loss.h"
#include "ringmax/testing/run_graph.h"

namespace ringmax::model {
namespace {

constexpr std::int64_t kBatch = 2;
constexpr std::int64_t kLength = 16;
constexpr std::int64_t kWidth = 8;
constexpr std::int64_t kVocab = 48;
constexpr std::int64_t kTokens = kBatch * kLength;
// Sums of at most kVocab float32 numbers of order 10, relative.
constexpr double kRounding = 5e-6;

struct Case {
  HostArray hidden{Shape(DType::kF32, {kBatch, kLength, kWidth})};
  HostArray head{Shape(DType::kF32, {kVocab, kWidth})};
  HostArray targets{Shape(DType::kI32, {kBatch, kLength})};
  HostArray weights{Shape(DType::kF32, {kBatch, kLength})};
};

// Logits with a standard deviation of about 8; every third label missing.
Case random_case() {
  Case c;
  std::uint64_t i = 0;
  for (float& v : c.hidden.data<float>()) v = approx_normal(3, 0, i++) * 2;
  for (float& v : c.head.data<float>()) v = approx_normal(3, 1, i++) * 1.5f;
  for (std::int32_t& t : c.targets.data<std::int32_t>()) {
    t = static_cast<std::int32_t>(random_below(3, 2, i++, kVocab));
  }
  for (float& w : c.weights.data<float>()) w = i++ % 3 == 0 ? 0.0f : 1.0f;
  return c;
}

struct Answer {
  double loss = 0;
  double valid = 0;
  std::vector<double> hidden, head;  // gradients
};

double norm(const Answer& a) {
  double sum = 0;
  for (const double v : a.hidden) sum += v * v;
  for (const double v : a.head) sum += v * v;
  return std::sqrt(sum);
}

Answer on_host(const Case& c) {
  const auto hidden = c.hidden.data<float>();
  const auto head = c.head.data<float>();
  const auto targets = c.targets.data<std::int32_t>();
  const auto weights = c.weights.data<float>();
  Answer a;
  a.hidden.resize(hidden.size());
  a.head.resize(head.size());
  for (const float w : weights) a.valid += w;
  const double count = std::max(a.valid, 1.0);
  for (std::size_t t = 0; t < kTokens; ++t) {
    std::vector<double> logits(kVocab);
    double top = -INFINITY;
    for (std::size_t v = 0; v < kVocab; ++v) {
      for (std::size_t e = 0; e < kWidth; ++e) {
        logits[v] += static_cast<double>(hidden[t * kWidth + e]) *
                     static_cast<double>(head[v * kWidth + e]);
      }
      top = std::max(top, logits[v]);
    }
    double sum = 0;
    for (const double l : logits) sum += std::exp(l - top);
    const double lse = top + std::log(sum);
    const auto target = static_cast<std::size_t>(targets[t]);
    const double scale = weights[t] / count;
    a.loss += (lse - logits[target]) * scale;
    for (std::size_t v = 0; v < kVocab; ++v) {
      const double d =
          (std::exp(logits[v] - lse) - (v == target ? 1 : 0)) * scale;
      for (std::size_t e = 0; e < kWidth; ++e) {
        a.hidden[t * kWidth + e] +=
            d * static_cast<double>(head[v * kWidth + e]);
        a.head[v * kWidth + e] +=
            d * static_cast<double>(hidden[t * kWidth + e]);
      }
    }
  }
  return a;
}

std::vector<double> f64(const HostArray& a) {
  const auto v = a.data<float>();
  return {v.begin(), v.end()};
}

class LossProgram {
 public:
  LossProgram(const mesh::Mesh& mesh, std::int64_t tiling) : graph_(mesh) {
    const auto spec = [&](std::initializer_list<std::string_view> names) {
      return mesh::logical_to_spec(names, mesh::default_axis_rules(), mesh);
    };
    const mesh::PartitionSpec tokens =
        spec({"activation_batch", "activation_length"});
    const mesh::PartitionSpec hidden_spec =
        spec({"activation_batch", "activation_length", "activation_embed"});
    const mesh::PartitionSpec head_spec = spec({"vocab", "embed"});
    const Case shapes;
    const graph::Value hidden =
        graph_.parameter("hidden", shapes.hidden.shape(), hidden_spec);
    const graph::Value head =
        graph_.parameter("head", shapes.head.shape(), head_spec);
    const graph::Value targets =
        graph_.parameter("targets", shapes.targets.shape(), tokens);
    const graph::Value weights =
        graph_.parameter("weights", shapes.weights.shape(), tokens);
    const Loss loss = cross_entropy(hidden, head, targets, weights, tiling);
    const graph::Values d = graph::gradient(loss.mean, {hidden, head});
    graph_.result("loss", loss.mean, mesh::PartitionSpec());
    graph_.result("valid", loss.weights, mesh::PartitionSpec());
    graph_.result("d_hidden", d[0], hidden_spec);
    graph_.result("d_head", d[1], head_spec);
  }

  const graph::Graph& graph() const { return graph_; }

  Answer answer(const Case& c) const {
    const std::vector<HostArray> out =
        testing::run_graph(graph_, {c.hidden, c.head, c.targets, c.weights});
    return {f64(out[0])[0], f64(out[1])[0], f64(out[2]), f64(out[3])};
  }

 private:
  graph::Graph graph_;
};

void expect_near(const Answer& got, const Answer& want) {
  EXPECT_NEAR(got.loss, want.loss, kRounding * (1 + want.loss));
  EXPECT_EQ(got.valid, want.valid);
  ASSERT_EQ(got.hidden.size(), want.hidden.size());
  for (std::size_t i = 0; i < want.hidden.size(); ++i) {
    ASSERT_NEAR(got.hidden[i], want.hidden[i], kRounding) << "hidden " << i;
  }
  ASSERT_EQ(got.head.size(), want.head.size());
  for (std::size_t i = 0; i < want.head.size(); ++i) {
    ASSERT_NEAR(got.head[i], want.head[i], kRounding) << "head " << i;
  }
}

TEST(CrossEntropy, EqualsTheHostForEveryChunking) {
  const Case c = random_case();
  const Answer want = on_host(c);
  for (const std::int64_t tiling : {1, 2, 3, 16, 48}) {
    SCOPED_TRACE(tiling);
    expect_near(LossProgram(mesh::make_mesh({}), tiling).answer(c), want);
  }
}

TEST(CrossEntropy, EqualsTheHostOnMeshes) {
  const Case c = random_case();
  const Answer want = on_host(c);
  const mesh::Mesh meshes[] = {
      mesh::make_mesh({{"tensor", 2}}), mesh::make_mesh({{"tensor", 8}}),
      mesh::make_mesh({{"data", 2}, {"context", 2}, {"tensor", 2}}),
      mesh::make_mesh({{"fsdp", 2}, {"context", 4}})};
  for (const mesh::Mesh& mesh : meshes) {
    for (const std::int64_t tiling : {1, 3}) {
      SCOPED_TRACE(mesh.to_string() + ", tiling " + std::to_string(tiling));
      expect_near(LossProgram(mesh, tiling).answer(c), want);
    }
  }
}

TEST(CrossEntropy, OfAZeroHeadIsTheLogarithmOfTheVocabulary) {
  Case c = random_case();
  for (float& v : c.head.data<float>()) v = 0;
  for (const std::int64_t r : {1, 4}) {
    const Answer got =
        LossProgram(mesh::make_mesh({{"context", r}}), 1).answer(c);
    EXPECT_NEAR(got.loss, std::log(double{kVocab}), kRounding * got.loss);
  }
}

TEST(CrossEntropy, WithoutAValidTokenIsZeroAndSoIsItsGradient) {
  Case c = random_case();
  for (float& w : c.weights.data<float>()) w = 0;
  for (const std::int64_t r : {1, 8}) {
    const Answer got =
        LossProgram(mesh::make_mesh({{"context", r}}), 1).answer(c);
    EXPECT_EQ(got.loss, 0);
    EXPECT_EQ(got.valid, 0);
    EXPECT_EQ(norm(got), 0);
  }
}

TEST(CrossEntropy, OfOneLabelIsTheSameForEveryRing) {
  Case c = random_case();
  for (float& w : c.weights.data<float>()) w = 0;
  c.weights.data<float>()[kLength + 11] = 1;
  const Answer want = on_host(c);
  ASSERT_GT(norm(want), 0.1);
  for (const std::int64_t r : {1, 2, 4, 8}) {
    SCOPED_TRACE(r);
    const Answer got =
        LossProgram(mesh::make_mesh({{"context", r}}), 1).answer(c);
    expect_near(got, want);
    EXPECT_NEAR(norm(got), norm(want), kRounding * norm(want));
  }
}

// The host's gradient is what the tests above compare with: it must be that of
// the host's loss.
TEST(CrossEntropy, HostGradientMeetsDifferences) {
  const Case c = random_case();
  const Answer at = on_host(c);
  // Steps are exact in float32; the error is h^2 times a third derivative of
  // order 10.
  constexpr float kStep = 1.0f / 256;
  constexpr double kTolerance = 3e-4;
  for (std::size_t i = 0; i < 40; ++i) {
    const auto central = [&](HostArray Case::*which) {
      Case plus = c;
      Case minus = c;
      plus.*which = (c.*which).clone();
      minus.*which = (c.*which).clone();
      float& p = (plus.*which).data<float>()[i * 3];
      float& m = (minus.*which).data<float>()[i * 3];
      p += kStep;
      m -= kStep;
      return (on_host(plus).loss - on_host(minus).loss) / (double{p} - m);
    };
    EXPECT_NEAR(central(&Case::hidden), at.hidden[i * 3], kTolerance);
    EXPECT_NEAR(central(&Case::head), at.head[i * 3], kTolerance);
  }
}

TEST(CrossEntropy, NoArrayIsTokensByVocabulary) {
  const LossProgram program(mesh::make_mesh({}), 1);
  const std::string text = graph::print_stablehlo(program.graph());
  for (const char* shape : {"2x16x48x", "32x48x", "2x16x2x24x"}) {
    EXPECT_EQ(text.find(shape), std::string::npos) << shape;
  }
  EXPECT_NE(text.find("2x16x24xf32"), std::string::npos)
      << "the chunk of logits itself";
}

TEST(CrossEntropy, RefusesWhatDoesNotFit) {
  EXPECT_THROW(vocabulary_chunks(48, 5), Error);
  EXPECT_EQ(vocabulary_chunks(48, 4), 4);
  EXPECT_EQ(vocabulary_chunks(128256, 1), 6);   // 21376 = 167 * 128 columns
  EXPECT_EQ(vocabulary_chunks(32000, 1), 5);    // 6400 = 50 * 128
  EXPECT_EQ(vocabulary_chunks(49152, 1), 6);    // 8192
  EXPECT_EQ(vocabulary_chunks(50000, 1), 8);    // 6250: no multiple of 128
  EXPECT_EQ(vocabulary_chunks(151936, 1), 32);  // 4748; 128 would be too few
  EXPECT_EQ(vocabulary_chunks(7, 1), 1);
  graph::Graph g;
  const auto p = [&](DType dtype, Dims dims) {
    return g.parameter("p", Shape(dtype, std::move(dims)));
  };
  EXPECT_THROW(cross_entropy(p(DType::kF32, {2, 4, 8}), p(DType::kF32, {10, 6}),
                             p(DType::kI32, {2, 4}), p(DType::kF32, {2, 4}), 1),
               Error);
}

}  // namespace
}  // namespace ringmax::model
