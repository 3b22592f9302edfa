// Runs a graph on a client: compiles it for the graph's mesh, moves whole host
// arrays in and out by the parameters' and results' partition specs.
#ifndef RINGMAX_TRAIN_PROGRAM_H_
#define RINGMAX_TRAIN_PROGRAM_H_

#include <string>
#include <vector>

#include "ringmax/base/array.h"
#include "ringmax/graph/graph.h"
#include "ringmax/mesh/mesh.h"
#include "ringmax/pjrt/client.h"

namespace ringmax::train {

// A sharded array: one buffer per logical device of the mesh.
struct DeviceArray {
  Shape shape;  // global
  mesh::PartitionSpec spec;
  std::vector<pjrt::Buffer> shards;
};

class Program {
 public:
  // `executable` is what print_stablehlo(graph) was compiled to; the graph may
  // go away afterwards.
  Program(const graph::Graph& graph, pjrt::Executable executable);

  // Consumes the buffers of donated parameters. Results in program order.
  std::vector<DeviceArray> run(
      const std::vector<const DeviceArray*>& arguments) const;
  const pjrt::Executable& executable() const { return executable_; }

 private:
  struct Slot {
    std::string name;
    Shape shape;
    mesh::PartitionSpec spec;
  };
  std::vector<Slot> parameters_, results_;
  pjrt::Executable executable_;
};

DeviceArray upload(const pjrt::Client& client, const HostArray& array,
                   const mesh::PartitionSpec& spec, const mesh::Mesh& mesh);
HostArray download(const DeviceArray& array, const mesh::Mesh& mesh);

// One shard of a host array, and its way back.
HostArray cut(const HostArray& array, const mesh::ShardIndex& index);
void paste(HostArray& array, const HostArray& shard,
           const mesh::ShardIndex& index);

}  // namespace ringmax::train

#endif  // RINGMAX_TRAIN_PROGRAM_H_
