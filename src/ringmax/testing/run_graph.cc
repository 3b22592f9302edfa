#include "ringmax/testing/run_graph.h"

#include "ringmax/graph/print.h"
#include "ringmax/train/native_kernels.h"
#include "ringmax/train/program.h"

namespace ringmax::testing {

const pjrt::Client& cpu_client() {
  static const pjrt::Client* const client = [] {
    const auto* made = new pjrt::Client(pjrt::cpu_client("", 8));
    train::register_native_kernels(made->plugin());
    return made;
  }();
  return *client;
}

namespace {
pjrt::CompileOptions options_for(const graph::Graph& graph, Compile how) {
  pjrt::CompileOptions options;
  options.num_partitions = graph.mesh().device_count();
  if (how == Compile::kQuick) {
    options.overrides["xla_backend_optimization_level"] = std::int64_t{0};
  }
  return options;
}
}  // namespace

CompiledGraph::CompiledGraph(const graph::Graph& graph, Compile how)
    : graph_(graph),
      program_(graph, cpu_client().compile(graph::print_stablehlo(graph),
                                           options_for(graph, how))) {}

std::vector<HostArray> CompiledGraph::run(
    const std::vector<HostArray>& arguments) const {
  const mesh::Mesh& mesh = graph_.mesh();
  std::vector<train::DeviceArray> uploaded;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    uploaded.push_back(train::upload(
        cpu_client(), arguments[i],
        graph_.parameters()[i].spec.value_or(mesh::PartitionSpec()), mesh));
  }
  std::vector<const train::DeviceArray*> pointers;
  for (const auto& a : uploaded) pointers.push_back(&a);
  std::vector<HostArray> results;
  for (const auto& a : program_.run(pointers)) {
    results.push_back(train::download(a));
  }
  return results;
}

std::vector<HostArray> run_graph(const graph::Graph& graph,
                                 const std::vector<HostArray>& arguments) {
  return CompiledGraph(graph).run(arguments);
}

}  // namespace ringmax::testing
