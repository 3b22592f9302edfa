#include "ringmax/graph/testing/gradient_check.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <utility>

#include "ringmax/base/philox.h"
#include "ringmax/graph/gradient.h"
#include "ringmax/graph/ops.h"
#include "ringmax/testing/run_graph.h"

namespace ringmax::graph::testing {
namespace {

// The error of a central difference is h^2 f'''/6, here 1e-8 times a third
// derivative of order 10, plus rounding 1e-16 / h = 1e-12.
constexpr double kStep = 1e-4;
constexpr double kTolerance = 1e-6;
// A derivative that is this small checks nothing.
constexpr double kTrivial = 1e-4;

Value sum_all(Value x) {
  Dims all(static_cast<std::size_t>(x.rank()));
  std::iota(all.begin(), all.end(), 0);
  return reduce_sum(x, std::move(all));
}

}  // namespace

HostArray random_array(const Dims& dims, double low, double high,
                       std::uint64_t seed) {
  HostArray array(Shape(DType::kF64, dims));
  std::uint64_t index = 0;
  for (double& v : array.data<double>()) {
    const double unit = std::ldexp(
        static_cast<double>(random_bits(7, seed, index++) >> 11), -53);
    v = low + (high - low) * unit;
  }
  return array;
}

GradientCheck::GradientCheck(mesh::Mesh mesh) : graph_(std::move(mesh)) {}

void GradientCheck::add(const std::string& name,
                        const std::vector<HostArray>& inputs,
                        const Function& function) {
  Values x;
  for (const HostArray& input : inputs) {
    x.push_back(graph_.parameter("x" + std::to_string(arguments_.size()),
                                 input.shape(), mesh::PartitionSpec()));
    arguments_.push_back(input);
  }
  const std::uint64_t weights_seed = ++seed_;
  const auto loss = [&](const Values& at) {
    Value total = constant(graph_, Shape(DType::kF64, {}), 0);
    std::uint64_t k = 0;
    for (const Value& y : function(at)) {
      const Value w = constant(
          graph_, random_array(y.dims(), 0.5, 2, 1000 * weights_seed + k++));
      total = total + sum_all(y * w);
    }
    return total;
  };
  const Values gradients = gradient(loss(x), x);
  for (std::size_t k = 0; k < x.size(); ++k) {
    const Value direction =
        constant(graph_, random_array(x[k].dims(), 0.5, 1.5, ++seed_ + 77));
    Values plus = x;
    Values minus = x;
    plus[k] = x[k] + direction * kStep;
    minus[k] = x[k] - direction * kStep;
    graph_.result("difference", (loss(plus) - loss(minus)) / (2 * kStep),
                  mesh::PartitionSpec());
    graph_.result("derivative", sum_all(gradients[k] * direction),
                  mesh::PartitionSpec());
    names_.push_back(name + ", input " + std::to_string(k));
  }
}

void GradientCheck::add(const std::string& name,
                        const std::vector<Dims>& inputs, double low,
                        double high, const Function& function) {
  std::vector<HostArray> arrays;
  for (const Dims& dims : inputs) {
    arrays.push_back(random_array(dims, low, high, ++seed_));
  }
  add(name, arrays, function);
}

void GradientCheck::expect_all() const {
  const std::vector<HostArray> results =
      ringmax::testing::run_graph(graph_, arguments_);
  ASSERT_EQ(results.size(), 2 * names_.size());
  for (std::size_t i = 0; i < names_.size(); ++i) {
    const double difference = results[2 * i].data<double>()[0];
    const double derivative = results[2 * i + 1].data<double>()[0];
    EXPECT_NEAR(derivative, difference, kTolerance * (1 + std::abs(difference)))
        << names_[i];
    EXPECT_GT(std::abs(difference), kTrivial) << names_[i];
  }
}

}  // namespace ringmax::graph::testing
