// For tests: compiles and runs a graph on the CPU plugin, whole arrays in and
// out, on as many of 8 virtual devices as the graph's mesh has.
#ifndef RINGMAX_TESTING_RUN_GRAPH_H_
#define RINGMAX_TESTING_RUN_GRAPH_H_

#include <vector>

#include "ringmax/base/array.h"
#include "ringmax/graph/graph.h"
#include "ringmax/pjrt/client.h"
#include "ringmax/train/program.h"

namespace ringmax::testing {

// One client for the whole test binary.
const pjrt::Client& cpu_client();

// kQuick leaves out LLVM's optimisations: half the time to compile, for
// programs that run once on small shapes.
enum class Compile { kAsUsers, kQuick };

class CompiledGraph {
 public:
  explicit CompiledGraph(const graph::Graph& graph,
                         Compile how = Compile::kAsUsers);
  std::vector<HostArray> run(const std::vector<HostArray>& arguments) const;
  const train::Program& program() const { return program_; }
  const pjrt::Executable& executable() const {
    return program_.executable().executable();
  }

 private:
  const graph::Graph& graph_;
  train::Program program_;
};

std::vector<HostArray> run_graph(const graph::Graph& graph,
                                 const std::vector<HostArray>& arguments);

}  // namespace ringmax::testing

#endif  // RINGMAX_TESTING_RUN_GRAPH_H_
