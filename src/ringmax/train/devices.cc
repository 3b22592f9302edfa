#include "ringmax/train/devices.h"

#include <fmt/format.h>

#include <filesystem>
#include <string>
#include <string_view>

#include "ringmax/base/error.h"
#include "ringmax/model/cost.h"
#include "ringmax/pjrt/plugin.h"

namespace ringmax::train {
namespace {

using pjrt::Hardware;

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

// What a plugin drives, by the names that plugins' files have.
Hardware hardware_of(std::string_view plugin) {
  const auto has = [file = std::filesystem::path(plugin).filename().string()](
                       std::string_view part) {
    return file.find(part) != std::string::npos;
  };
  if (has("tpu")) return Hardware::kTpu;
  return has("cuda") || has("rocm") ? Hardware::kGpu : Hardware::kCpu;
}

}  // namespace

Hardware find_hardware(const pjrt::RuntimeOptions& runtime,
                       const hw::HostPaths& paths) {
  const std::string plugin = pjrt::chosen_plugin(runtime.pjrt_plugin);
  const bool has_tpu = hw::tpu_chips(paths) > 0;
  Hardware hardware = runtime.hardware;
  if (hardware == Hardware::kAuto) {
    hardware = !plugin.empty() ? hardware_of(plugin)
               : has_tpu       ? Hardware::kTpu
                               : Hardware::kCpu;
  }
  const std::string asked =
      runtime.hardware == Hardware::kAuto
          ? fmt::format("pjrt_plugin={}", plugin)
          : fmt::format("hardware={}", name_of(pjrt::kHardwareNames, hardware));
  if (hardware == Hardware::kGpu) {
    fail(ErrorCode::kFailedPrecondition,
         "{}: training on a GPU is not possible yet; valid are hardware=auto, "
         "cpu and tpu",
         asked);
  }
  if (hardware == Hardware::kTpu && !has_tpu) {
    fail(ErrorCode::kFailedPrecondition,
         "{}: this machine has no TPU (no such PCI device); valid here are "
         "hardware=auto and cpu with the CPU plugin, and `ringmax compile "
         "compile_topology=v5p-16` compiles for TPUs that are elsewhere",
         asked);
  }
  // libtpu without a TPU waits minutes for a metadata server.
  const Hardware named = plugin.empty() ? hardware : hardware_of(plugin);
  if (named != hardware && named != Hardware::kCpu) {
    fail(ErrorCode::kInvalidArgument,
         "{}: pjrt_plugin={} is named as a plugin for {}; give one for {}, or "
         "leave pjrt_plugin out for the one that set-up installed",
         asked, plugin, name_of(pjrt::kHardwareNames, named),
         name_of(pjrt::kHardwareNames, hardware));
  }
  return hardware;
}

config::DeviceFacts find_devices(const pjrt::RuntimeOptions& runtime) {
  if (find_hardware(runtime) != Hardware::kTpu) return {};
  return {"tpu",
          static_cast<std::int64_t>(tpu_client(runtime).devices().size())};
}

pjrt::Client open_client(const config::Config& config) {
  if (config.platform == "tpu") return tpu_client(config.runtime);
  return pjrt::cpu_client(
      config.runtime.pjrt_plugin, config.device_count,
      static_cast<double>(model::model_flops(config.model, config.global_batch,
                                             config.data.max_target_length)));
}

}  // namespace ringmax::train
