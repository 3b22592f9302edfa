#include "ringmax/train/devices.h"

#include <string>

#include "ringmax/base/error.h"
#include "ringmax/pjrt/plugin.h"

namespace ringmax::train {
namespace {

const pjrt::Client& tpu_client(const pjrt::RuntimeOptions& runtime) {
  // Never destroyed: libtpu's threads outlive static destructors.
  static const auto* client = [&] {
    pjrt::PluginQuery query;
    query.explicit_path = runtime.pjrt_plugin;
    query.file_name = std::string(pjrt::kTpuPluginFile);
    return new pjrt::Client(
        pjrt::Client::create(pjrt::Plugin::load(pjrt::find_plugin(query))));
  }();
  return *client;
}

}  // namespace

void check_hardware(const pjrt::RuntimeOptions& runtime,
                    const hw::HostPaths& paths) {
  if (runtime.hardware == pjrt::Hardware::kGpu) {
    fail(ErrorCode::kFailedPrecondition,
         "hardware=gpu: training there is not possible yet; valid are auto, "
         "cpu and tpu");
  }
  if (runtime.hardware == pjrt::Hardware::kTpu && hw::tpu_chips(paths) == 0) {
    fail(ErrorCode::kFailedPrecondition,
         "hardware=tpu: this machine has no TPU (no such PCI device); valid "
         "here are auto and cpu, and `ringmax compile compile_topology=v5p-16` "
         "compiles for TPUs that are elsewhere");
  }
}

config::DeviceFacts find_devices(const pjrt::RuntimeOptions& runtime) {
  check_hardware(runtime);
  if (runtime.hardware != pjrt::Hardware::kTpu) return {};
  return {"tpu",
          static_cast<std::int64_t>(tpu_client(runtime).devices().size())};
}

pjrt::Client open_client(const config::Config& config) {
  check_hardware(config.runtime);
  if (config.runtime.hardware == pjrt::Hardware::kTpu) {
    return tpu_client(config.runtime);
  }
  return pjrt::cpu_client(config.runtime.pjrt_plugin, config.device_count);
}

}  // namespace ringmax::train
