// A compiled graph: takes and gives sharded arrays in the order of the graph's
// parameters and results.
#ifndef RINGMAX_TRAIN_PROGRAM_H_
#define RINGMAX_TRAIN_PROGRAM_H_

#include <string>
#include <vector>

#include "ringmax/graph/graph.h"
#include "ringmax/mesh/mesh.h"
#include "ringmax/pjrt/client.h"
#include "ringmax/train/device_array.h"

namespace ringmax::train {

class Program {
 public:
  // `executable` is what print_stablehlo(graph) was compiled to; the graph may
  // go away afterwards. Without a placement, the graph's mesh stands on the
  // client's devices by ascending id.
  Program(const graph::Graph& graph, pjrt::LoadedExecutable executable,
          PlacementPtr placement = nullptr);

  // Does not wait for the results; consumes the buffers of donated parameters.
  std::vector<DeviceArray> run(
      const std::vector<const DeviceArray*>& arguments) const;
  const pjrt::LoadedExecutable& executable() const { return executable_; }
  const PlacementPtr& placement() const { return placement_; }

 private:
  struct Slot {
    std::string name;
    Shape shape;
    mesh::PartitionSpec spec;
  };
  std::vector<Slot> parameters_, results_;
  pjrt::LoadedExecutable executable_;
  PlacementPtr placement_;
  // Position in placement_->local() of the executable's d-th device.
  std::vector<std::size_t> order_;
};

}  // namespace ringmax::train

#endif  // RINGMAX_TRAIN_PROGRAM_H_
