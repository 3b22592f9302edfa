// Which device each logical device of a mesh is: `context` as a cycle of
// neighbours where the machine has one.
#ifndef RINGMAX_TRAIN_DEVICE_ASSIGNMENT_H_
#define RINGMAX_TRAIN_DEVICE_ASSIGNMENT_H_

#include <cstdint>
#include <span>
#include <vector>

#include "ringmax/mesh/device_order.h"
#include "ringmax/mesh/mesh.h"
#include "ringmax/pjrt/device.h"
#include "ringmax/pjrt/named_value.h"

namespace ringmax::train {

struct DeviceAssignment {
  // Device id of each logical device.
  std::vector<std::int64_t> ids;
  // Its place in the topology's own order; empty without coordinates.
  std::vector<std::int64_t> places;
  // Links between neighbours along context; zeros where the plugin tells no
  // coordinates.
  mesh::RingHops hops;
};

// `devices` ascending by id. Without coordinates, or when the mesh has fewer
// devices than there are, they are taken by id. Throws kInvalidArgument when
// the mesh has more.
DeviceAssignment device_assignment(
    std::span<const pjrt::DeviceDescription> devices, const mesh::Mesh& mesh,
    const pjrt::NamedValues& topology_attributes = {});

}  // namespace ringmax::train

#endif  // RINGMAX_TRAIN_DEVICE_ASSIGNMENT_H_
