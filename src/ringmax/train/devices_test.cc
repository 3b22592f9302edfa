#include "ringmax/train/devices.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "ringmax/base/error.h"
#include "ringmax/base/testing/temp_dir.h"

namespace ringmax::train {
namespace {

using ::testing::HasSubstr;

pjrt::RuntimeOptions on(pjrt::Hardware hardware) {
  pjrt::RuntimeOptions runtime;
  runtime.hardware = hardware;
  return runtime;
}

std::string refusal(pjrt::Hardware hardware, const hw::HostPaths& paths) {
  try {
    check_hardware(on(hardware), paths);
    return "";
  } catch (const Error& error) {
    EXPECT_EQ(exit_code_for(error.code()), 2);
    return error.message();
  }
}

TEST(DevicesTest, ATpuIsAskedForByNameOnlyWhereThereIsOne) {
  const TempDir dir;
  hw::HostPaths paths;
  paths.sys = dir.path();
  EXPECT_THAT(refusal(pjrt::Hardware::kTpu, paths),
              HasSubstr("hardware=tpu: this machine has no TPU"));
  const std::string device = dir.path() + "/bus/pci/devices/0000:00:05.0";
  std::filesystem::create_directories(device);
  std::ofstream(device + "/vendor") << "0x1ae0\n";
  std::ofstream(device + "/device") << "0x0062\n";
  EXPECT_EQ(refusal(pjrt::Hardware::kTpu, paths), "");
}

TEST(DevicesTest, GpusAreNotThereYet) {
  EXPECT_THAT(refusal(pjrt::Hardware::kGpu, {}),
              HasSubstr("valid are auto, cpu and tpu"));
  EXPECT_EQ(refusal(pjrt::Hardware::kAuto, {}), "");
  EXPECT_EQ(refusal(pjrt::Hardware::kCpu, {}), "");
}

TEST(DevicesTest, TheCpuHasAsManyDevicesAsTheMeshAsks) {
  EXPECT_EQ(find_devices(on(pjrt::Hardware::kAuto)).device_count, 0);
  EXPECT_EQ(find_devices(on(pjrt::Hardware::kAuto)).platform, "cpu");
}

}  // namespace
}  // namespace ringmax::train
