#include "ringmax/pjrt/device_grid.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ringmax::pjrt {
namespace {

using ::testing::ElementsAre;

DeviceDescription device(int id, std::vector<std::int64_t> coords,
                         std::int64_t core = 0) {
  DeviceDescription result;
  result.id = id;
  result.attributes["coords"] = std::move(coords);
  result.attributes["core_on_chip"] = core;
  return result;
}

TEST(DeviceGridTest, PlacesAreCountedAlongTheDimensionsWhateverTheIds) {
  // Two hosts of 2 x 1 chips; the second one's come first.
  const std::vector<DeviceDescription> devices = {
      device(7, {2, 0, 0}), device(8, {3, 0, 0}), device(1, {0, 0, 0}),
      device(2, {1, 0, 0})};
  const auto grid =
      device_grid(devices, {{"wrap", std::vector<std::int64_t>{1, 0, 0}}});
  ASSERT_TRUE(grid.has_value());
  EXPECT_THAT(grid->ids, ElementsAre(1, 2, 7, 8));
  EXPECT_EQ(grid->topology, (hw::Topology{{4, 1, 1}, {true, false, false}, 1}));
}

TEST(DeviceGridTest, CoresOfAChipFollowEachOtherAndCornersMayLieAnywhere) {
  const std::vector<DeviceDescription> devices = {
      device(0, {4, 6}, 0), device(1, {4, 6}, 1), device(2, {4, 7}, 0),
      device(3, {4, 7}, 1)};
  const auto grid = device_grid(devices);
  ASSERT_TRUE(grid.has_value());
  EXPECT_THAT(grid->ids, ElementsAre(0, 1, 2, 3));
  EXPECT_EQ(grid->topology.dims[1], 2);
  EXPECT_EQ(grid->topology.devices_per_chip, 2);
}

TEST(DeviceGridTest, NothingWithoutCoordinatesOrWithHoles) {
  EXPECT_FALSE(device_grid({}).has_value());
  DeviceDescription nowhere;
  EXPECT_FALSE(device_grid(std::vector{nowhere}).has_value());
  EXPECT_FALSE(
      device_grid(std::vector{device(0, {0, 0, 0}), device(1, {2, 0, 0})})
          .has_value());
  EXPECT_FALSE(
      device_grid(std::vector{device(0, {0, 0, 0}), device(1, {0, 0, 0})})
          .has_value());
}

}  // namespace
}  // namespace ringmax::pjrt
