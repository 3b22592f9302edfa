#include "ringmax/attention/splash/kernel_alone.h"

#include <fmt/format.h>

#include "ringmax/attention/splash/backward_kernel.h"
#include "ringmax/attention/splash/forward_kernel.h"
#include "ringmax/graph/print.h"
#include "ringmax/kernel/call.h"

namespace ringmax::attention::splash {

std::string kernel_alone(const KernelSpec& spec, bool backward) {
  const auto kernel = backward ? backward_kernel(spec) : forward_kernel(spec);
  graph::Graph graph;
  const graph::Scope named(graph, "kernel_alone");
  graph::Values operands;
  const auto parameter = [&](const Shape& shape) {
    operands.push_back(
        graph.parameter(fmt::format("operand{}", operands.size()), shape));
  };
  parameter(Shape(DType::kI32, {}));  // length of the walk
  for (const auto kind :
       {kernel::RefKind::kPrefetch, kernel::RefKind::kInput}) {
    for (const kernel::RefId id : kernel->refs_of(kind)) {
      parameter(kernel->ref(id).array);
    }
  }
  std::size_t count = 0;
  for (const graph::Value result :
       kernel::call(*kernel, kernel::Lowering::kMosaic, operands)) {
    graph.result(fmt::format("result{}", count++), result);
  }
  return graph::print_stablehlo(graph);
}

}  // namespace ringmax::attention::splash
