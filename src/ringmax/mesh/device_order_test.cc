#include "ringmax/mesh/device_order.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "ringmax/base/error.h"
#include "ringmax/mesh/axis_rules.h"

namespace ringmax::mesh {
namespace {

void expect_permutation(const std::vector<int>& order, std::int64_t count) {
  ASSERT_EQ(static_cast<std::int64_t>(order.size()), count);
  std::vector<int> sorted = order;
  std::sort(sorted.begin(), sorted.end());
  for (std::size_t i = 0; i < sorted.size(); ++i) {
    EXPECT_EQ(sorted[i], static_cast<int>(i));
  }
}

std::int64_t longest_hop(const hw::Topology& topology, const Mesh& mesh) {
  const std::vector<int> order = device_order(topology, mesh);
  expect_permutation(order, topology.devices());
  return ring_hops(topology, mesh, order).max;
}

TEST(DeviceOrder, ContextIsACycleOfNeighboursOnV5p16) {
  const hw::Topology topology = hw::tpu_target("v5p-16").topology;
  for (const Mesh& mesh :
       {make_mesh({{"context", 8}}), make_mesh({{"fsdp", 2}, {"context", 4}}),
        make_mesh({{"context", 4}, {"tensor", 2}}),
        make_mesh({{"data", 2}, {"context", 2}, {"tensor", 2}})}) {
    EXPECT_EQ(longest_hop(topology, mesh), 1) << mesh.to_string();
  }
  // The plugin's own order is not one.
  std::vector<int> plain = {0, 1, 2, 3, 4, 5, 6, 7};
  EXPECT_GT(ring_hops(topology, make_mesh({{"context", 8}}), plain).max, 1);
}

TEST(DeviceOrder, EveryRingOfA4x4x4IsACycle) {
  for (const hw::Topology& topology :
       {hw::tpu_target("v5p:4x4x4").topology,
        hw::Topology{{4, 4, 4}, {false, false, false}, 1}}) {
    for (std::int64_t context : {2, 4, 8, 16, 32, 64}) {
      for (std::int64_t tensor = 1; tensor <= 64 / context; tensor *= 2) {
        const Mesh mesh = make_mesh(
            {{"fsdp", -1}, {"context", context}, {"tensor", tensor}}, 64);
        EXPECT_EQ(longest_hop(topology, mesh), 1) << mesh.to_string();
      }
    }
  }
}

// Every box of chips with an even number and two dimensions has a cycle, and
// where there is none no hop is longer than a few links.
TEST(DeviceOrder, EveryBoxHasACycleOrAShortWalk) {
  for (std::int64_t x = 1; x <= 5; ++x) {
    for (std::int64_t y = 1; y <= 5; ++y) {
      for (std::int64_t z = 1; z <= 5; ++z) {
        const hw::Topology grid{{x, y, z}, {false, false, false}, 1};
        if (grid.devices() == 1) continue;
        const int wide = (x > 1) + (y > 1) + (z > 1);
        const std::int64_t hop =
            longest_hop(grid, make_mesh({{"context", grid.devices()}}));
        if (grid.devices() == 2 || (wide >= 2 && grid.devices() % 2 == 0)) {
          EXPECT_EQ(hop, 1) << x << "x" << y << "x" << z;
        } else {
          EXPECT_EQ(hop, 2) << x << "x" << y << "x" << z;
        }
      }
    }
  }
}

TEST(DeviceOrder, RowsCloseOverTheirWrapLink) {
  const hw::Topology ring{{7, 1, 1}, {true, false, false}, 1};
  EXPECT_EQ(longest_hop(ring, make_mesh({{"context", 7}})), 1);
}

// Two devices a chip: tensor stays within the chip, the ring goes round.
TEST(DeviceOrder, DevicesOfAChipStayTogether) {
  const hw::Topology topology = hw::tpu_target("v4-16").topology;
  ASSERT_EQ(topology.devices(), 16);
  EXPECT_LE(longest_hop(topology, make_mesh({{"context", 16}})), 1);
  const Mesh mesh = make_mesh({{"context", 8}, {"tensor", 2}});
  EXPECT_EQ(longest_hop(topology, mesh), 1);
  EXPECT_EQ(
      ring_hops(topology, mesh, device_order(topology, mesh), "tensor").max, 0);
}

// Whatever the mesh, the result is a permutation.
TEST(DeviceOrder, IsAPermutationForOddCases) {
  for (const hw::Topology& topology :
       {hw::Topology{{3, 4, 1}, {false, false, false}, 1},
        hw::Topology{{2, 3, 2}, {true, false, true}, 1},
        hw::Topology{{6, 1, 1}, {false, false, false}, 2},
        hw::Topology{{1, 1, 1}, {false, false, false}, 12}}) {
    for (std::int64_t context : {1, 2, 3, 4, 6, 12}) {
      for (std::int64_t tensor : {1, 2, 3, 4, 6, 12}) {
        if (12 % (context * tensor) != 0) continue;
        longest_hop(
            topology,
            make_mesh({{"data", -1}, {"context", context}, {"tensor", tensor}},
                      12));
      }
    }
  }
}

TEST(DeviceOrder, IsTheIdentityOnVirtualDevicesOfOneRing) {
  const std::vector<int> order =
      device_order(hw::cpu_target(8).topology, make_mesh({{"context", 8}}));
  EXPECT_EQ(order, (std::vector<int>{0, 1, 2, 3, 4, 5, 6, 7}));
}

TEST(DeviceOrder, RefusesAnotherNumberOfDevices) {
  EXPECT_THROW(
      device_order(hw::cpu_target(8).topology, make_mesh({{"context", 4}})),
      Error);
}

}  // namespace
}  // namespace ringmax::mesh
