// Products with weights that 8 virtual devices share out among them, against
// float64 and against the gathered product.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "ringmax/base/philox.h"
#include "ringmax/base/testing/message_of.h"
#include "ringmax/graph/control.h"
#include "ringmax/graph/gradient.h"
#include "ringmax/graph/ops.h"
#include "ringmax/graph/parallel.h"
#include "ringmax/mesh/axis_rules.h"
#include "ringmax/model/cpu/exchange.h"
#include "ringmax/model/cpu/ffi.h"
#include "ringmax/model/shared_weights.h"
#include "ringmax/model/testing/small_options.h"
#include "ringmax/testing/run_graph.h"

namespace ringmax::model {
namespace {

using graph::Value;
using graph::Values;
using mesh::PartitionSpec;
using ::testing::HasSubstr;

constexpr std::int64_t kDevices = 8;

HostArray normal(Dims dims, std::uint64_t stream) {
  HostArray a(Shape(DType::kF32, std::move(dims)));
  std::uint64_t i = 0;
  for (float& v : a.data<float>()) v = approx_normal(5, stream, i++);
  return a;
}

mesh::Mesh mesh_of(const std::string& axis) {
  return mesh::make_mesh({{axis, kDevices}});
}

ModelContext context_of(const ModelOptions& options, const hw::Target& target) {
  static const attention::AttentionOptions attention;
  static const std::vector<ParameterInfo> none;
  return {options, attention, none, {}, target};
}

ModelOptions options_of(std::int64_t columns) {
  ModelOptions o = small_options();
  o.base_emb_dim = columns;
  return o;
}

std::optional<std::string> axis_of(
    const ModelOptions& options, const mesh::Mesh& mesh,
    const hw::Target& target = hw::cpu_target(kDevices)) {
  return sharing_axis(context_of(options, target), mesh);
}

TEST(SharedWeights, AreThoseThatAllDevicesOfThisProcessOwnInParts) {
  const ModelOptions o = options_of(128);
  EXPECT_EQ(axis_of(o, mesh_of("context")), "context");
  EXPECT_EQ(axis_of(o, mesh_of("fsdp")), "fsdp");
  EXPECT_EQ(axis_of(o, mesh_of("data")), std::nullopt);
  EXPECT_EQ(axis_of(o, mesh_of("tensor")), std::nullopt);
  EXPECT_EQ(axis_of(o, mesh::make_mesh({{"fsdp", 2}, {"context", 4}})),
            std::nullopt);
  EXPECT_EQ(axis_of(o, mesh::make_mesh({})), std::nullopt);
  EXPECT_EQ(axis_of(options_of(128 + 64), mesh_of("context")), std::nullopt);
  ModelOptions other = o;
  other.dtype = DType::kBF16;
  EXPECT_EQ(axis_of(other, mesh_of("context")), std::nullopt);
  other = o;
  other.weight_dtype = DType::kBF16;
  EXPECT_EQ(axis_of(other, mesh_of("context")), std::nullopt);
  hw::Target target = hw::cpu_target(kDevices);
  target.has_ffi = false;
  EXPECT_EQ(axis_of(o, mesh_of("context"), target), std::nullopt);
  EXPECT_EQ(axis_of(o, mesh_of("context"), hw::tpu_target("v5p-16")),
            std::nullopt);
}

struct Sizes {
  std::int64_t batch, tokens, columns;  // tokens and columns of all devices
  std::vector<std::int64_t> features;
  std::string axis = "context";
};

// How devices come by weights they do not own.
enum class How { kGathered, kShared, kKept };

// y_i = x W_i^T, z = sum of y_i V_i with weights W_i and V_i, and the gradients
// of <z, dz>: x, W..., V..., dz -> z, dx, dW..., dV..., the last of them again
// as a sum where weights are kept.
struct Program {
  graph::Graph g;
  std::vector<HostArray> arguments;

  Program(const Sizes& s, How how) : g(mesh_of(s.axis)) {
    const PartitionSpec kept{{}, {s.axis}};
    PartitionSpec tokens =
        mesh::logical_to_spec({"activation_batch", "activation_length"},
                              mesh::default_axis_rules(), g.mesh());
    tokens.dims.resize(3);
    std::uint64_t stream = 0;
    const auto parameter = [&](Dims dims, const PartitionSpec& spec) {
      arguments.push_back(normal(dims, stream++));
      return g.parameter("p" + std::to_string(stream), Shape(DType::kF32, dims),
                         spec);
    };
    const Dims x_dims = {s.batch, s.tokens, s.columns};
    const Value x = parameter(x_dims, tokens);
    Values all = {x};
    for (int k = 0; k < 2; ++k) {
      for (const std::int64_t f : s.features) {
        all.push_back(parameter({f, s.columns}, kept));
      }
    }
    const Value dz = parameter(x_dims, tokens);
    const std::size_t n = s.features.size();
    const Values up(all.begin() + 1, all.begin() + 1 + n);
    std::optional<KeptWeights> weights;
    const auto tickets = [&](std::size_t group) {
      return weights ? weights->group(group).at(
                           graph::constant(g, Shape(DType::kI32, {}), 0))
                     : Tickets{};
    };
    if (how == How::kKept) {
      const auto stack = [](Value w) {
        return graph::reshape(w, {1, w.dim(0), w.dim(1)});
      };
      std::vector<Values> groups(1);
      for (std::size_t i = 0; i < n; ++i) {
        groups[0].push_back(stack(up[i]));
        groups.push_back({stack(all[1 + n + i])});
      }
      weights.emplace(groups, s.axis);
    }
    Values y;
    if (how != How::kGathered) {
      y = to_features(x, up, s.axis, tickets(0));
    } else {
      for (const Value& w : up) y.push_back(graph::einsum("bse,fe->bsf", x, w));
    }
    Value z;
    for (std::size_t i = 0; i < n; ++i) {
      const Value v = all[1 + n + i];
      const Value part = how == How::kGathered
                             ? graph::einsum("bsf,fe->bse", y[i], v)
                             : from_features(y[i], v, s.axis, tickets(1 + i));
      z = i == 0 ? part : z + part;
    }
    g.result("z", z, tokens);
    const Values gradients = graph::vjp({z}, {dz}, all);
    for (std::size_t i = 0; i < gradients.size(); ++i) {
      g.result("d" + std::to_string(i), gradients[i], i == 0 ? tokens : kept);
    }
    if (!weights) return;
    Value sum = graph::constant(g, Shape(DType::kF32, {}), 0);
    for (const Value& d : gradients) {
      std::vector<std::int64_t> dims(static_cast<std::size_t>(d.rank()));
      std::iota(dims.begin(), dims.end(), 0);
      sum = sum + graph::reduce_sum(d, dims);
    }
    g.result("sum", weights->release(sum));
  }
};

using Doubles = std::vector<double>;
struct Matrix {
  std::int64_t rows, columns;
  Doubles at;
};
Matrix matrix(const HostArray& a) {
  const Dims& dims = a.shape().dims;
  Matrix m{a.shape().elements() / dims.back(), dims.back(), {}};
  for (const float v : a.data<float>()) m.at.push_back(v);
  return m;
}
Matrix turned(const Matrix& m) {
  Matrix t{m.columns, m.rows, Doubles(m.at.size())};
  for (std::int64_t i = 0; i < m.rows; ++i) {
    for (std::int64_t j = 0; j < m.columns; ++j) {
      t.at[j * m.rows + i] = m.at[i * m.columns + j];
    }
  }
  return t;
}
Matrix product(const Matrix& a, const Matrix& b) {
  Matrix c{a.rows, b.columns,
           Doubles(static_cast<std::size_t>(a.rows * b.columns))};
  for (std::int64_t i = 0; i < a.rows; ++i) {
    for (std::int64_t k = 0; k < a.columns; ++k) {
      for (std::int64_t j = 0; j < b.columns; ++j) {
        c.at[i * c.columns + j] +=
            a.at[i * a.columns + k] * b.at[k * b.columns + j];
      }
    }
  }
  return c;
}
Matrix plus(Matrix a, const Matrix& b) {
  for (std::size_t i = 0; i < b.at.size(); ++i) a.at[i] += b.at[i];
  return a;
}

std::vector<Matrix> expected(const Sizes& s,
                             const std::vector<HostArray>& arguments) {
  const std::size_t n = s.features.size();
  const Matrix x = matrix(arguments[0]);
  const Matrix dz = matrix(arguments.back());
  Matrix z{x.rows, x.columns, Doubles(x.at.size())};
  Matrix dx = z;
  std::vector<Matrix> dw, dv;
  for (std::size_t i = 0; i < n; ++i) {
    const Matrix w = matrix(arguments[1 + i]);
    const Matrix v = matrix(arguments[1 + n + i]);
    const Matrix y = product(x, turned(w));
    const Matrix dy = product(dz, turned(v));
    z = plus(z, product(y, v));
    dx = plus(dx, product(dy, w));
    dw.push_back(product(turned(dy), x));
    dv.push_back(product(turned(y), dz));
  }
  std::vector<Matrix> all = {z, dx};
  all.insert(all.end(), dw.begin(), dw.end());
  all.insert(all.end(), dv.begin(), dv.end());
  return all;
}

void expect_near(const std::vector<HostArray>& got,
                 const std::vector<Matrix>& want) {
  // Sums of some hundreds of float32 products.
  constexpr double kTolerance = 2e-6;
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    const auto values = got[i].data<float>();
    ASSERT_EQ(values.size(), want[i].at.size());
    double most = 0, error = 0;
    for (std::size_t j = 0; j < values.size(); ++j) {
      most = std::max(most, std::abs(want[i].at[j]));
      error = std::max(error, std::abs(values[j] - want[i].at[j]));
    }
    EXPECT_LE(error, kTolerance * most) << "result " << i;
  }
}

std::int64_t waiting() { return cpu::Exchange::instance().waiting(); }

TEST(SharedWeights, MultiplyAsFloat64DoesWithGradients) {
  for (const Sizes& s : {
           Sizes{1, 8 * 32, 256, {96, 32, 32}},
           Sizes{2, 8 * 7, 128, {83}},
           Sizes{1, 8, 128, {1, 33}},
           Sizes{8, 5, 384, {40, 24}, "fsdp"},
       }) {
    const Program p(s, How::kShared);
    const std::vector<HostArray> got = testing::run_graph(p.g, p.arguments);
    expect_near(got, expected(s, p.arguments));
    EXPECT_EQ(waiting(), 0);
    // Kept for the whole program they give the same bits.
    const Program k(s, How::kKept);
    const std::vector<HostArray> same = testing::run_graph(k.g, k.arguments);
    ASSERT_EQ(same.size(), got.size() + 1);
    double sum = 0;
    for (std::size_t i = 0; i < got.size(); ++i) {
      const auto a = got[i].bytes();
      const auto b = same[i].bytes();
      EXPECT_TRUE(std::equal(a.begin(), a.end(), b.begin(), b.end())) << i;
      for (const float v : got[i].data<float>()) sum += i == 0 ? 0 : v;
    }
    // Of some ten thousand numbers that cancel.
    EXPECT_NEAR(same.back().data<float>()[0], sum, 0.5);
    EXPECT_EQ(waiting(), 0);
  }
}

TEST(SharedWeights, GatheredOnesGiveTheSame) {
  const Sizes s{1, 8 * 16, 128, {64, 48}};
  const Program p(s, How::kGathered);
  expect_near(testing::run_graph(p.g, p.arguments), expected(s, p.arguments));
}

// Steps are handed out without waiting for their results: devices run into the
// next one while others are in the last. (XLA itself stands still with some 40
// of them, whatever the program.)
void expect_the_same_bits_in_flight(How how) {
  const Sizes s{1, 8 * 9, 128, {40, 24}};
  const Program p(s, how);
  const testing::CompiledGraph compiled(p.g);
  const std::vector<HostArray> first = compiled.run(p.arguments);
  std::vector<train::DeviceArray> arguments;
  for (std::size_t i = 0; i < p.arguments.size(); ++i) {
    arguments.push_back(train::upload(testing::cpu_client(), p.arguments[i],
                                      *p.g.parameters()[i].spec, p.g.mesh()));
  }
  std::vector<const train::DeviceArray*> pointers;
  for (const auto& a : arguments) pointers.push_back(&a);
  constexpr int kInFlight = 3;
  for (int round = 0; round < 6; ++round) {
    std::vector<std::vector<train::DeviceArray>> steps;
    for (int i = 0; i < kInFlight; ++i) {
      steps.push_back(compiled.program().run(pointers));
    }
    for (const auto& step : steps) {
      for (std::size_t i = 0; i < step.size(); ++i) {
        const HostArray got = train::download(step[i]);
        const auto a = got.bytes();
        const auto b = first[i].bytes();
        ASSERT_TRUE(std::equal(a.begin(), a.end(), b.begin(), b.end())) << i;
      }
    }
  }
  EXPECT_EQ(waiting(), 0);
}
TEST(SharedWeights, StepsInFlightTogetherGiveTheSameBits) {
  expect_the_same_bits_in_flight(How::kShared);
  expect_the_same_bits_in_flight(How::kKept);
}

// A call of one device by itself.
std::string error_of(const char* target, const std::vector<Shape>& operands,
                     const std::vector<Shape>& results,
                     const std::string& attributes) {
  graph::Graph g;
  Values in;
  std::vector<HostArray> arguments;
  for (const Shape& shape : operands) {
    in.push_back(g.parameter("p" + std::to_string(in.size()), shape));
    arguments.emplace_back(shape);
  }
  graph::CustomCallAttr attr;
  attr.target = target;
  attr.backend_config = attributes;
  attr.has_side_effect = true;
  for (const Value& v : graph::custom_call(g, in, results, attr)) {
    g.result("r" + std::to_string(g.results().size()), v);
  }
  return message_of([&] { testing::run_graph(g, arguments); });
}

TEST(SharedWeights, CallsThatDoNotFitAreErrors) {
  const auto f32 = [](Dims dims) {
    return Shape(DType::kF32, std::move(dims));
  };
  const Shape ticket(DType::kI64, {1});
  const Shape index(DType::kI32, {});
  const std::string one = cpu::attributes(1);
  EXPECT_THAT(error_of(cpu::kShareWeights, {f32({8, 20})}, {ticket},
                       cpu::share_attributes(1, true)),
              HasSubstr("20 columns a device are no multiple of 16"));
  EXPECT_THAT(error_of(cpu::kShareWeights, {f32({2})}, {ticket},
                       cpu::share_attributes(1, false)),
              HasSubstr("weight is f32[2], not a matrix of f32"));
  EXPECT_THAT(error_of(cpu::kShareWeights, {f32({3, 2, 16})}, {ticket},
                       cpu::share_attributes(1, false)),
              HasSubstr("ticket is s64[1], not s64[3]"));
  EXPECT_THAT(error_of(cpu::kShareWeights, {f32({3, 2, 16}), f32({2, 2, 16})},
                       {ticket}, cpu::share_attributes(1, false)),
              HasSubstr("matrices of a weight are 2, not 3"));
  EXPECT_THAT(error_of(cpu::kRelease, {ticket, f32({})}, {f32({})}, "{}"),
              HasSubstr("array 0 is not kept"));
  EXPECT_THAT(error_of(cpu::kRelease, {f32({1}), f32({})}, {f32({})}, "{}"),
              HasSubstr("tickets is f32[1], not a list"));
  EXPECT_THAT(error_of(cpu::kShareWeights, {f32({8, 16})}, {ticket}, one),
              HasSubstr("attribute turned is missing"));
  EXPECT_THAT(error_of(cpu::kShareWeights, {f32({8, 16})}, {f32({1})},
                       cpu::share_attributes(1, true)),
              HasSubstr("ticket is f32[1]"));
  EXPECT_THAT(error_of(cpu::kShareActivations, {f32({8, 16}), f32({7, 3})},
                       {ticket}, one),
              HasSubstr("rows of y are 7, not 8"));
  EXPECT_THAT(
      error_of(cpu::kToFeatures, {f32({8, 16}), ticket}, {f32({8, 3})}, one),
      HasSubstr("there is no array 0"));
  EXPECT_THAT(
      error_of(cpu::kToFeatures, {f32({8, 16}), ticket}, {f32({7, 3})}, one),
      HasSubstr("rows of y are 7, not 8"));
  EXPECT_THAT(error_of(cpu::kToFeatures, {f32({8, 16}), ticket}, {f32({8, 3})},
                       cpu::attributes(2)),
              HasSubstr("tickets is s64[1], not s64[2]"));
  EXPECT_THAT(
      error_of(cpu::kFromFeatures, {f32({8, 3}), ticket}, {f32({8, 24})}, one),
      HasSubstr("no multiple of 16"));
  EXPECT_THAT(error_of(cpu::kFromFeatures, {f32({8, 3}), f32({1})},
                       {f32({8, 16})}, one),
              HasSubstr("tickets is f32[1]"));
  EXPECT_THAT(error_of(cpu::kWeightGradients, {ticket, index}, {f32({3, 16})},
                       cpu::gradient_attributes(1, 8)),
              HasSubstr("there is no array 0"));
  EXPECT_THAT(
      error_of(cpu::kWeightGradients, {ticket, index}, {f32({3, 16})}, one),
      HasSubstr("attribute tokens is missing"));
  EXPECT_THAT(error_of(cpu::kFromFeatures, {f32({8, 3}), ticket},
                       {f32({8, 16})}, "{devices = 0 : i64}"),
              HasSubstr("attribute devices is 0"));
  cpu::Exchange::instance().clear();
}

}  // namespace
}  // namespace ringmax::model
