#include "ringmax/hw/target.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ringmax/base/error.h"

namespace ringmax::hw {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(TpuTarget, MapsMaxTextNames) {
  const Target v5p = tpu_target("v5p-16");
  EXPECT_EQ(v5p.topology_name, "v5p:2x2x2");
  EXPECT_EQ(v5p.devices(), 8);  // N counts cores, a megacore is one device
  EXPECT_NEAR(static_cast<double>(v5p.hbm_bytes), 102.8e9, 0.1e9);
  EXPECT_EQ(tpu_target("v4-8").topology_name, "v4:2x2x1");
  EXPECT_EQ(tpu_target("v4-8").devices(), 8);  // two devices a chip
  EXPECT_EQ(tpu_target("v5e-8").topology_name, "v5e:2x4");
  EXPECT_EQ(tpu_target("v6e-256").topology_name, "v6e:16x16");
  EXPECT_EQ(tpu_target("v6e-256").devices(), 256);
  EXPECT_EQ(tpu_target("tpu7x-8").topology_name, "tpu7x:2x2x1");
  EXPECT_EQ(tpu_target("tpu7x-8").devices(), 8);
  EXPECT_EQ(tpu_target("v5p:2x2x4").devices(), 16);
  EXPECT_EQ(tpu_target("v5p-16").topology, tpu_target("v5p:2x2x2").topology);
}

TEST(TpuTarget, RefusesByNameWithWhatIsKnown) {
  for (const char* name :
       {"", "v5p", "v5p-", "v5p-15", "v5p-7", "v5p:2x2", "v5p:2x2x2x2",
        "v5p:0x2x2", "v5p:-2x2x2", "v5p:x", "v5p:2x2x", "v5e:2x2x2", "v9-8",
        "v5litepod-8", "v5p-99999999999999999999", "v5p-16 "}) {
    EXPECT_THAT([&] { tpu_target(name); },
                ThrowsMessage<Error>(
                    AllOf(HasSubstr("compile_topology="), HasSubstr(name))))
        << name;
  }
  EXPECT_THAT([] { tpu_target("v5p-15"); },
              ThrowsMessage<Error>(HasSubstr("v5p-16")));
}

TEST(Topology, CoordinatesAreUniqueAndDistancesSymmetric) {
  const Topology grid{{2, 3, 4}, {false, true, true}, 2};
  ASSERT_EQ(grid.devices(), 48);
  EXPECT_EQ(grid.distance(0, 1), 0);  // two devices of one chip
  for (std::int64_t a = 0; a < grid.devices(); ++a) {
    const auto c = grid.coordinates(a);
    EXPECT_EQ((c[0] + 2 * (c[1] + 3 * c[2])), a / 2);
    for (std::int64_t b = 0; b < grid.devices(); ++b) {
      EXPECT_EQ(grid.distance(a, b), grid.distance(b, a));
      EXPECT_EQ(grid.distance(a, b) == 0, a / 2 == b / 2);
      EXPECT_LE(grid.distance(a, b), 1 + 1 + 2);
    }
  }
  EXPECT_THROW(grid.coordinates(48), Error);
}

TEST(CpuTarget, HasSoManyDevicesAndFfi) {
  EXPECT_EQ(cpu_target(8).devices(), 8);
  EXPECT_TRUE(cpu_target(8).has_ffi);
  EXPECT_EQ(cpu_target(8).peak_flops(DType::kF32), 0);
  EXPECT_THROW(cpu_target(0), Error);
}

TEST(KnownChips, AreAllNamedAndPlausible) {
  for (const Chip& chip : known_chips()) {
    EXPECT_EQ(&find_chip(chip.name), &chip);
    EXPECT_GT(chip.hbm_bytes, 0);
    EXPECT_GT(chip.peak_bf16_flops, 1e14);
  }
  EXPECT_THROW(find_chip("v3"), Error);
}

}  // namespace
}  // namespace ringmax::hw
