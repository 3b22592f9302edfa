// Where a plugin says that its devices stand: a grid of chips, and the id of
// the device at each of its places.
#ifndef RINGMAX_PJRT_DEVICE_GRID_H_
#define RINGMAX_PJRT_DEVICE_GRID_H_

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "ringmax/hw/target.h"
#include "ringmax/pjrt/device.h"
#include "ringmax/pjrt/named_value.h"

namespace ringmax::pjrt {

struct DeviceGrid {
  hw::Topology topology;
  // ids[n] is the device that the topology counts as its n-th; plugins number
  // them host by host.
  std::vector<std::int64_t> ids;
};

// From the attributes `coords` and `core_on_chip` of the devices, and `wrap` of
// the topology where the plugin tells it. Nothing when a device has no
// coordinates, or when the devices do not fill a box.
std::optional<DeviceGrid> device_grid(
    std::span<const DeviceDescription> devices,
    const NamedValues& topology_attributes = {});

}  // namespace ringmax::pjrt

#endif  // RINGMAX_PJRT_DEVICE_GRID_H_
