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

std::string refusal(const pjrt::RuntimeOptions& runtime,
                    const hw::HostPaths& paths) {
  try {
    find_hardware(runtime, paths);
    return "";
  } catch (const Error& error) {
    EXPECT_EQ(exit_code_for(error.code()), 2);
    return error.message();
  }
}

// As Linux shows a TPU on the PCI bus.
void add_tpu(const TempDir& sys) {
  const std::string device = sys.path() + "/bus/pci/devices/0000:00:05.0";
  std::filesystem::create_directories(device);
  std::ofstream(device + "/vendor") << "0x1ae0\n";
  std::ofstream(device + "/device") << "0x0062\n";
}

TEST(DevicesTest, ATpuIsAskedForByNameOnlyWhereThereIsOne) {
  const TempDir dir;
  hw::HostPaths paths;
  paths.sys = dir.path();
  EXPECT_THAT(refusal(on(pjrt::Hardware::kTpu), paths),
              HasSubstr("hardware=tpu: this machine has no TPU"));
  add_tpu(dir);
  EXPECT_EQ(refusal(on(pjrt::Hardware::kTpu), paths), "");
}

TEST(DevicesTest, GpusAreNotThereYet) {
  EXPECT_THAT(refusal(on(pjrt::Hardware::kGpu), {}),
              HasSubstr("valid are hardware=auto, cpu and tpu"));
  EXPECT_EQ(refusal({}, {}), "");
  EXPECT_EQ(refusal(on(pjrt::Hardware::kCpu), {}), "");
}

TEST(DevicesTest, AutoIsWhatThePluginIsNamedForOrWhatTheMachineHas) {
  const TempDir dir;
  hw::HostPaths paths;
  paths.sys = dir.path();
  pjrt::RuntimeOptions runtime;
  EXPECT_EQ(find_hardware(runtime, paths), pjrt::Hardware::kCpu);
  runtime.pjrt_plugin = "/elsewhere/libtpu.so";
  EXPECT_THAT(refusal(runtime, paths),
              HasSubstr("pjrt_plugin=/elsewhere/libtpu.so: this machine has no "
                        "TPU"));
  runtime.pjrt_plugin = "/elsewhere/xla_cuda_plugin.so";
  EXPECT_THAT(refusal(runtime, paths),
              HasSubstr("pjrt_plugin=/elsewhere/xla_cuda_plugin.so: training "
                        "on a GPU is not possible yet"));
  runtime.hardware = pjrt::Hardware::kCpu;
  EXPECT_THAT(refusal(runtime, paths),
              HasSubstr("hardware=cpu: pjrt_plugin=/elsewhere/"
                        "xla_cuda_plugin.so is named as a plugin for gpu"));
  add_tpu(dir);
  runtime = {};
  EXPECT_EQ(find_hardware(runtime, paths), pjrt::Hardware::kTpu);
  runtime.pjrt_plugin = "/elsewhere/libtpu.so";
  EXPECT_EQ(find_hardware(runtime, paths), pjrt::Hardware::kTpu);
}

TEST(DevicesTest, TheCpuHasAsManyDevicesAsTheMeshAsks) {
  EXPECT_EQ(find_devices(on(pjrt::Hardware::kAuto)).device_count, 0);
  EXPECT_EQ(find_devices(on(pjrt::Hardware::kAuto)).platform, "cpu");
}

}  // namespace
}  // namespace ringmax::train
