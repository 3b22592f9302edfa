// Which physical device stands at which place of the mesh.
//
// A ring over `context` sends to its neighbour in every step, so the devices
// of one context group should form a cycle of neighbours on the machine's
// torus. The machine is cut into equal boxes, one for each coordinate of the
// other axes; inside a box the context axis walks a cycle through all its
// chips. Where no cycle exists (an odd number of chips without wrap-around
// links, a row) it walks a path and comes home over more than one link, which
// the result says.
#ifndef RINGMAX_MESH_DEVICE_ORDER_H_
#define RINGMAX_MESH_DEVICE_ORDER_H_

#include <cstdint>
#include <string_view>
#include <vector>

#include "ringmax/hw/target.h"
#include "ringmax/mesh/mesh.h"

namespace ringmax::mesh {

// Devices in the order of their ids: for each logical device, row-major by
// mesh coordinates, the id of the physical one. Always a permutation of
// 0 .. devices - 1. Throws kInvalidArgument when the mesh and the topology
// have different numbers of devices. `ring_axis` is the axis whose neighbours
// come first; axes after it in the mesh are kept as near to each other as the
// boxes allow, those before it get whole boxes.
std::vector<int> device_order(const hw::Topology& topology, const Mesh& mesh,
                              std::string_view ring_axis = "context");

struct RingHops {
  // Links between neighbours of the ring, over all its groups: the most any
  // hop takes (home included), and the mean.
  std::int64_t max = 0;
  double mean = 0;
};

// What an order costs a ring over an axis; zeros when the axis has size 1.
RingHops ring_hops(const hw::Topology& topology, const Mesh& mesh,
                   const std::vector<int>& order,
                   std::string_view ring_axis = "context");

}  // namespace ringmax::mesh

#endif  // RINGMAX_MESH_DEVICE_ORDER_H_
