#include "ringmax/pjrt/topology.h"

#include <algorithm>
#include <utility>

#include "ringmax/pjrt/client_state.h"
#include "ringmax/pjrt/element_type.h"

namespace ringmax::pjrt {

Topology Topology::create(const Plugin& plugin, const std::string& name,
                          const NamedValues& options) {
  const std::vector<PJRT_NamedValue> values = to_c_values(options);
  RINGMAX_PJRT_ARGS(PJRT_TopologyDescription_Create_Args, args);
  args.topology_name = name.data();
  args.topology_name_size = name.size();
  args.create_options = values.data();
  args.num_options = values.size();
  RINGMAX_PJRT_CALL(*plugin.api(), PJRT_TopologyDescription_Create, args);
  return Topology(
      plugin,
      std::shared_ptr<PJRT_TopologyDescription>(
          args.topology, [api = plugin.api()](PJRT_TopologyDescription* t) {
            RINGMAX_PJRT_ARGS(PJRT_TopologyDescription_Destroy_Args, destroy);
            destroy.topology = t;
            RINGMAX_PJRT_CALL_QUIETLY(*api, PJRT_TopologyDescription_Destroy,
                                      destroy);
          }));
}

std::string Topology::platform_name() const {
  RINGMAX_PJRT_ARGS(PJRT_TopologyDescription_PlatformName_Args, args);
  args.topology = handle_.get();
  RINGMAX_PJRT_CALL(*plugin_.api(), PJRT_TopologyDescription_PlatformName,
                    args);
  return to_string(args.platform_name, args.platform_name_size);
}

std::string Topology::platform_version() const {
  RINGMAX_PJRT_ARGS(PJRT_TopologyDescription_PlatformVersion_Args, args);
  args.topology = handle_.get();
  RINGMAX_PJRT_CALL(*plugin_.api(), PJRT_TopologyDescription_PlatformVersion,
                    args);
  return to_string(args.platform_version, args.platform_version_size);
}

std::vector<DeviceDescription> Topology::devices() const {
  RINGMAX_PJRT_ARGS(PJRT_TopologyDescription_GetDeviceDescriptions_Args, args);
  args.topology = handle_.get();
  RINGMAX_PJRT_CALL(*plugin_.api(),
                    PJRT_TopologyDescription_GetDeviceDescriptions, args);
  std::vector<DeviceDescription> devices;
  for (std::size_t i = 0; i < args.num_descriptions; ++i) {
    devices.push_back(describe_device(*plugin_.api(), args.descriptions[i]));
  }
  std::sort(devices.begin(), devices.end(),
            [](const auto& a, const auto& b) { return a.id < b.id; });
  return devices;
}

NamedValues Topology::attributes() const {
  RINGMAX_PJRT_ARGS(PJRT_TopologyDescription_Attributes_Args, args);
  args.topology = handle_.get();
  RINGMAX_PJRT_CALL(*plugin_.api(), PJRT_TopologyDescription_Attributes, args);
  return from_c_values(args.attributes, args.num_attributes);
}

std::string Topology::serialize() const {
  RINGMAX_PJRT_ARGS(PJRT_TopologyDescription_Serialize_Args, args);
  args.topology = handle_.get();
  RINGMAX_PJRT_CALL(*plugin_.api(), PJRT_TopologyDescription_Serialize, args);
  std::string bytes =
      to_string(args.serialized_bytes, args.serialized_bytes_size);
  args.serialized_topology_deleter(args.serialized_topology);
  return bytes;
}

Executable Topology::compile(std::string_view mlir,
                             const CompileOptions& options) const {
  const std::string serialized = options.serialize();
  RINGMAX_PJRT_ARGS(PJRT_Program, program);
  // An input that the C struct declares as writable.
  program.code = const_cast<char*>(mlir.data());
  program.code_size = mlir.size();
  program.format = kMlirFormat.data();
  program.format_size = kMlirFormat.size();
  RINGMAX_PJRT_ARGS(PJRT_Compile_Args, args);
  args.topology = handle_.get();
  args.program = &program;
  args.compile_options = serialized.data();
  args.compile_options_size = serialized.size();
  RINGMAX_PJRT_CALL(*plugin_.api(), PJRT_Compile, args);
  return Executable(plugin_.api(), args.executable);
}

}  // namespace ringmax::pjrt
