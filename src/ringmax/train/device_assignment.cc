#include "ringmax/train/device_assignment.h"

#include <cstddef>
#include <optional>

#include "ringmax/base/error.h"
#include "ringmax/pjrt/device_grid.h"

namespace ringmax::train {

DeviceAssignment device_assignment(
    std::span<const pjrt::DeviceDescription> devices, const mesh::Mesh& mesh,
    const pjrt::NamedValues& topology_attributes) {
  const auto needed = static_cast<std::size_t>(mesh.device_count());
  if (needed > devices.size()) {
    fail_invalid("the mesh ({}) has {} devices and there are {}",
                 mesh.to_string(), needed, devices.size());
  }
  DeviceAssignment result;
  const std::optional<pjrt::DeviceGrid> grid =
      pjrt::device_grid(devices, topology_attributes);
  if (!grid || needed < devices.size()) {
    for (std::size_t i = 0; i < needed; ++i) {
      result.ids.push_back(devices[i].id);
    }
    return result;
  }
  const std::vector<int> order = mesh::device_order(grid->topology, mesh);
  for (const int place : order) {
    result.places.push_back(place);
    result.ids.push_back(grid->ids[static_cast<std::size_t>(place)]);
  }
  result.hops = mesh::ring_hops(grid->topology, mesh, order);
  return result;
}

}  // namespace ringmax::train
