// The ring on a real machine's coordinates.
#include <gtest/gtest.h>

#include <cstdlib>

#include "ringmax/mesh/axis_rules.h"
#include "ringmax/pjrt/topology.h"
#include "ringmax/train/device_assignment.h"

namespace ringmax::train {
namespace {

TEST(DeviceAssignmentTpuTest, ContextOfEightOnV5pIsACycleOfNeighbours) {
  const pjrt::Topology topology =
      pjrt::Topology::create(pjrt::load_tpu_compiler(), "v5p:2x2x2");
  const std::vector<pjrt::DeviceDescription> devices = topology.devices();
  const DeviceAssignment found = device_assignment(
      devices, mesh::make_mesh({{"context", 8}}), topology.attributes());
  EXPECT_EQ(found.hops.max, 1);
  // The same from the plugin's own coordinates.
  for (std::size_t i = 0; i < 8; ++i) {
    const auto at = [&](std::size_t logical) {
      return std::get<std::vector<std::int64_t>>(
          devices[static_cast<std::size_t>(found.ids[logical % 8])]
              .attributes.at("coords"));
    };
    std::int64_t links = 0;
    for (std::size_t d = 0; d < 3; ++d) {
      links += std::abs(at(i)[d] - at(i + 1)[d]);
    }
    EXPECT_EQ(links, 1) << i;
  }
}

// Slices whose hosts number their chips in blocks.
TEST(DeviceAssignmentTpuTest, LargerSlicesToo) {
  for (const char* name : {"v5e:4x4", "v6e:4x8", "v4:2x2x4", "v5p:4x4x4"}) {
    const pjrt::Topology topology =
        pjrt::Topology::create(pjrt::load_tpu_compiler(), name);
    const std::vector<pjrt::DeviceDescription> devices = topology.devices();
    const auto count = static_cast<std::int64_t>(devices.size());
    EXPECT_EQ(device_assignment(devices, mesh::make_mesh({{"context", count}}),
                                topology.attributes())
                  .hops.max,
              1)
        << name;
  }
}

}  // namespace
}  // namespace ringmax::train
