#include "ringmax/pjrt/device_grid.h"

#include <algorithm>
#include <cstddef>

namespace ringmax::pjrt {
namespace {

struct Place {
  std::array<std::int64_t, 3> coords = {0, 0, 0};
  std::int64_t core = 0;
};

std::optional<Place> place_of(const DeviceDescription& device) {
  const auto coords = device.attributes.find("coords");
  if (coords == device.attributes.end()) return std::nullopt;
  const auto* list = std::get_if<std::vector<std::int64_t>>(&coords->second);
  if (list == nullptr || list->size() > 3) return std::nullopt;
  Place place;
  std::copy(list->begin(), list->end(), place.coords.begin());
  const auto core = device.attributes.find("core_on_chip");
  if (core != device.attributes.end()) {
    if (const auto* number = std::get_if<std::int64_t>(&core->second)) {
      place.core = *number;
    }
  }
  return place;
}

}  // namespace

std::optional<DeviceGrid> device_grid(
    std::span<const DeviceDescription> devices,
    const NamedValues& topology_attributes) {
  std::vector<Place> places;
  // A part of a machine may begin anywhere in it.
  Place first;
  Place last;
  for (const DeviceDescription& device : devices) {
    const std::optional<Place> place = place_of(device);
    if (!place) return std::nullopt;
    if (places.empty()) first = last = *place;
    for (std::size_t d = 0; d < 3; ++d) {
      first.coords[d] = std::min(first.coords[d], place->coords[d]);
      last.coords[d] = std::max(last.coords[d], place->coords[d]);
    }
    first.core = std::min(first.core, place->core);
    last.core = std::max(last.core, place->core);
    places.push_back(*place);
  }
  if (places.empty()) return std::nullopt;

  DeviceGrid grid;
  for (std::size_t d = 0; d < 3; ++d) {
    grid.topology.dims[d] = last.coords[d] - first.coords[d] + 1;
  }
  grid.topology.devices_per_chip = last.core - first.core + 1;
  const auto wrap = topology_attributes.find("wrap");
  if (wrap != topology_attributes.end()) {
    const auto* list = std::get_if<std::vector<std::int64_t>>(&wrap->second);
    for (std::size_t d = 0;
         list != nullptr && d < std::min<std::size_t>(3, list->size()); ++d) {
      grid.topology.wrap[d] = (*list)[d] != 0;
    }
  }
  const std::int64_t count = grid.topology.devices();
  if (count != static_cast<std::int64_t>(devices.size())) return std::nullopt;
  grid.ids.assign(devices.size(), -1);
  for (std::size_t i = 0; i < devices.size(); ++i) {
    std::int64_t at = 0;
    for (std::size_t d = 3; d-- > 0;) {
      at = at * grid.topology.dims[d] + places[i].coords[d] - first.coords[d];
    }
    at = at * grid.topology.devices_per_chip + places[i].core - first.core;
    std::int64_t& id = grid.ids[static_cast<std::size_t>(at)];
    if (id != -1) return std::nullopt;
    id = devices[i].id;
  }
  return grid;
}

}  // namespace ringmax::pjrt
