// For tests: compares vjp() with central differences in float64, many functions
// in one compiled program. Not for other dtypes: differences need the digits.
#ifndef RINGMAX_GRAPH_TESTING_GRADIENT_CHECK_H_
#define RINGMAX_GRAPH_TESTING_GRADIENT_CHECK_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "ringmax/base/array.h"
#include "ringmax/graph/control.h"
#include "ringmax/graph/graph.h"

namespace ringmax::graph::testing {

// f64 values uniform in [low, high), other ones for every seed.
HostArray random_array(const Dims& dims, double low, double high,
                       std::uint64_t seed);

class GradientCheck {
 public:
  // f64 inputs to f64 outputs of any shapes.
  using Function = std::function<Values(const Values& inputs)>;

  explicit GradientCheck(mesh::Mesh mesh = mesh::Mesh());

  Graph& graph() { return graph_; }
  // Inputs are parameters of the program. The derivative is checked along one
  // random direction per input, of a randomly weighted sum of the outputs.
  void add(const std::string& name, const std::vector<HostArray>& inputs,
           const Function& function);
  // Inputs uniform in [low, high).
  void add(const std::string& name, const std::vector<Dims>& inputs, double low,
           double high, const Function& function);
  // Compiles, runs, and expects every derivative to fit and to be non-zero.
  void expect_all() const;

 private:
  Graph graph_;
  std::vector<HostArray> arguments_;
  std::vector<std::string> names_;
  std::uint64_t seed_ = 1;
};

}  // namespace ringmax::graph::testing

#endif  // RINGMAX_GRAPH_TESTING_GRADIENT_CHECK_H_
