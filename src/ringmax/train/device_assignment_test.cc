#include "ringmax/train/device_assignment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ringmax/base/error.h"
#include "ringmax/mesh/axis_rules.h"

namespace ringmax::train {
namespace {

using ::testing::ElementsAre;

std::vector<pjrt::DeviceDescription> row(int count, bool coordinates) {
  std::vector<pjrt::DeviceDescription> devices;
  for (int i = 0; i < count; ++i) {
    pjrt::DeviceDescription& device = devices.emplace_back();
    device.id = 10 + i;
    if (coordinates) {
      device.attributes["coords"] = std::vector<std::int64_t>{i % 2, i / 2, 0};
    }
  }
  return devices;
}

TEST(DeviceAssignmentTest, ContextIsACycleOfNeighbours) {
  const mesh::Mesh mesh = mesh::make_mesh({{"context", 4}});
  const DeviceAssignment found = device_assignment(row(4, true), mesh);
  // Round the square; any start and either way would do.
  EXPECT_EQ(found.hops.max, 1);
  EXPECT_EQ(found.hops.mean, 1);
  EXPECT_THAT(found.ids, ::testing::UnorderedElementsAre(10, 11, 12, 13));
  EXPECT_NE(found.ids, (std::vector<std::int64_t>{10, 11, 12, 13}));
}

TEST(DeviceAssignmentTest, ByIdWithoutCoordinatesOrWithDevicesToSpare) {
  const mesh::Mesh mesh = mesh::make_mesh({{"context", 4}});
  EXPECT_THAT(device_assignment(row(4, false), mesh).ids,
              ElementsAre(10, 11, 12, 13));
  EXPECT_THAT(device_assignment(row(6, true), mesh).ids,
              ElementsAre(10, 11, 12, 13));
  EXPECT_THROW(device_assignment(row(3, true), mesh), Error);
}

}  // namespace
}  // namespace ringmax::train
