#include "ringmax/pjrt/client.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <utility>

#include "ringmax/base/error.h"
#include "ringmax/pjrt/client_state.h"
#include "ringmax/pjrt/element_type.h"

namespace ringmax::pjrt {
namespace {

Device read_device(const Api& api, PJRT_Device* handle) {
  RINGMAX_PJRT_ARGS(PJRT_Device_GetDescription_Args, get);
  get.device = handle;
  RINGMAX_PJRT_CALL(api, PJRT_Device_GetDescription, get);
  Device device{describe_device(api, get.device_description)};
  device.handle = handle;
  RINGMAX_PJRT_ARGS(PJRT_Device_IsAddressable_Args, is);
  is.device = handle;
  RINGMAX_PJRT_CALL(api, PJRT_Device_IsAddressable, is);
  device.addressable = is.is_addressable;
  if (device.addressable &&
      RINGMAX_PJRT_HAS(api, PJRT_Device_LocalHardwareId)) {
    RINGMAX_PJRT_ARGS(PJRT_Device_LocalHardwareId_Args, local);
    local.device = handle;
    RINGMAX_PJRT_CALL(api, PJRT_Device_LocalHardwareId, local);
    device.local_hardware_id = local.local_hardware_id;
  }
  return device;
}

void read_facts(ClientState& state) {
  const Api& api = state.api();
  RINGMAX_PJRT_ARGS(PJRT_Client_PlatformName_Args, name);
  name.client = state.client;
  RINGMAX_PJRT_CALL(api, PJRT_Client_PlatformName, name);
  state.platform_name = to_string(name.platform_name, name.platform_name_size);
  RINGMAX_PJRT_ARGS(PJRT_Client_PlatformVersion_Args, version);
  version.client = state.client;
  RINGMAX_PJRT_CALL(api, PJRT_Client_PlatformVersion, version);
  state.platform_version =
      to_string(version.platform_version, version.platform_version_size);
  RINGMAX_PJRT_ARGS(PJRT_Client_ProcessIndex_Args, process);
  process.client = state.client;
  RINGMAX_PJRT_CALL(api, PJRT_Client_ProcessIndex, process);
  state.process_index = process.process_index;

  RINGMAX_PJRT_ARGS(PJRT_Client_Devices_Args, devices);
  devices.client = state.client;
  RINGMAX_PJRT_CALL(api, PJRT_Client_Devices, devices);
  for (std::size_t i = 0; i < devices.num_devices; ++i) {
    state.devices.push_back(read_device(api, devices.devices[i]));
  }
  std::sort(state.devices.begin(), state.devices.end(),
            [](const Device& a, const Device& b) { return a.id < b.id; });
  for (const Device& device : state.devices) {
    if (device.addressable) state.addressable_devices.push_back(device);
  }
}

}  // namespace

ClientState::~ClientState() {
  if (client == nullptr) return;
  RINGMAX_PJRT_ARGS(PJRT_Client_Destroy_Args, args);
  args.client = client;
  RINGMAX_PJRT_CALL_QUIETLY(api(), PJRT_Client_Destroy, args);
}

const Device& ClientState::device(int id) const {
  const auto found = std::lower_bound(
      devices.begin(), devices.end(), id,
      [](const Device& d, int wanted) { return d.id < wanted; });
  if (found == devices.end() || found->id != id) {
    fail_invalid("there is no device {}; the {} client has {} devices", id,
                 platform_name, devices.size());
  }
  return *found;
}

DeviceDescription describe_device(const Api& api,
                                  PJRT_DeviceDescription* description) {
  DeviceDescription result;
  RINGMAX_PJRT_ARGS(PJRT_DeviceDescription_Id_Args, id);
  id.device_description = description;
  RINGMAX_PJRT_CALL(api, PJRT_DeviceDescription_Id, id);
  result.id = id.id;
  RINGMAX_PJRT_ARGS(PJRT_DeviceDescription_ProcessIndex_Args, process);
  process.device_description = description;
  RINGMAX_PJRT_CALL(api, PJRT_DeviceDescription_ProcessIndex, process);
  result.process_index = process.process_index;
  RINGMAX_PJRT_ARGS(PJRT_DeviceDescription_Kind_Args, kind);
  kind.device_description = description;
  RINGMAX_PJRT_CALL(api, PJRT_DeviceDescription_Kind, kind);
  result.kind = to_string(kind.device_kind, kind.device_kind_size);
  RINGMAX_PJRT_ARGS(PJRT_DeviceDescription_ToString_Args, text);
  text.device_description = description;
  RINGMAX_PJRT_CALL(api, PJRT_DeviceDescription_ToString, text);
  result.description = to_string(text.to_string, text.to_string_size);
  RINGMAX_PJRT_ARGS(PJRT_DeviceDescription_Attributes_Args, attributes);
  attributes.device_description = description;
  RINGMAX_PJRT_CALL(api, PJRT_DeviceDescription_Attributes, attributes);
  result.attributes =
      from_c_values(attributes.attributes, attributes.num_attributes);
  return result;
}

int device_id(const Api& api, PJRT_Device* device) {
  RINGMAX_PJRT_ARGS(PJRT_Device_GetDescription_Args, get);
  get.device = device;
  RINGMAX_PJRT_CALL(api, PJRT_Device_GetDescription, get);
  RINGMAX_PJRT_ARGS(PJRT_DeviceDescription_Id_Args, id);
  id.device_description = get.device_description;
  RINGMAX_PJRT_CALL(api, PJRT_DeviceDescription_Id, id);
  return id.id;
}

Client Client::create(const Plugin& plugin, const ClientOptions& options) {
  auto state = std::make_shared<ClientState>(plugin);
  const std::vector<PJRT_NamedValue> values = to_c_values(options.values);
  RINGMAX_PJRT_ARGS(PJRT_Client_Create_Args, args);
  args.create_options = values.data();
  args.num_options = values.size();
  if (options.key_value_store) {
    state->key_value_store = options.key_value_store;
    set_key_value_callbacks(*state->key_value_store, args);
  }
  RINGMAX_PJRT_CALL(state->api(), PJRT_Client_Create, args);
  state->client = args.client;
  read_facts(*state);
  return Client(std::move(state));
}

const Plugin& Client::plugin() const { return state_->plugin; }
const std::string& Client::platform_name() const {
  return state_->platform_name;
}
const std::string& Client::platform_version() const {
  return state_->platform_version;
}
int Client::process_index() const { return state_->process_index; }
const std::vector<Device>& Client::devices() const { return state_->devices; }
const std::vector<Device>& Client::addressable_devices() const {
  return state_->addressable_devices;
}
const Device& Client::device(int id) const { return state_->device(id); }

Topology Client::topology() const {
  RINGMAX_PJRT_ARGS(PJRT_Client_TopologyDescription_Args, args);
  args.client = state_->client;
  RINGMAX_PJRT_CALL(state_->api(), PJRT_Client_TopologyDescription, args);
  // Owned by the client, so the handle keeps the client alive.
  return Topology(state_->plugin,
                  std::shared_ptr<PJRT_TopologyDescription>(
                      args.topology, [keep = state_](auto*) {}));
}

LoadedExecutable Client::compile(std::string_view mlir,
                                 const CompileOptions& options) const {
  const std::string serialized = options.serialize();
  RINGMAX_PJRT_ARGS(PJRT_Program, program);
  // An input that the C struct declares as writable.
  program.code = const_cast<char*>(mlir.data());
  program.code_size = mlir.size();
  program.format = kMlirFormat.data();
  program.format_size = kMlirFormat.size();
  RINGMAX_PJRT_ARGS(PJRT_Client_Compile_Args, args);
  args.client = state_->client;
  args.program = &program;
  args.compile_options = serialized.data();
  args.compile_options_size = serialized.size();
  RINGMAX_PJRT_CALL(state_->api(), PJRT_Client_Compile, args);
  return LoadedExecutable(state_, args.executable);
}

LoadedExecutable Client::deserialize(std::string_view bytes) const {
  RINGMAX_PJRT_ARGS(PJRT_Executable_DeserializeAndLoad_Args, args);
  args.client = state_->client;
  args.serialized_executable = bytes.data();
  args.serialized_executable_size = bytes.size();
  RINGMAX_PJRT_CALL(state_->api(), PJRT_Executable_DeserializeAndLoad, args);
  return LoadedExecutable(state_, args.loaded_executable);
}

LoadedExecutable Client::load(const Executable& executable) const {
  return deserialize(executable.serialize());
}

Buffer Client::to_device(const HostArray& array, int device_id,
                         HostUse use) const {
  const Device& device = state_->device(device_id);
  if (!device.addressable) {
    fail_invalid(
        "device {} belongs to process {}; process {} cannot copy to it",
        device_id, device.process_index, state_->process_index);
  }
  const Shape& shape = array.shape();
  RINGMAX_PJRT_ARGS(PJRT_Client_BufferFromHostBuffer_Args, args);
  args.client = state_->client;
  args.data = array.bytes().data();
  args.type = to_element_type(shape.dtype);
  args.dims = shape.dims.data();
  args.num_dims = shape.dims.size();
  args.host_buffer_semantics =
      use == HostUse::kDuringCall
          ? PJRT_HostBufferSemantics_kImmutableOnlyDuringCall
          : PJRT_HostBufferSemantics_kImmutableUntilTransferCompletes;
  args.device = device.handle;
  RINGMAX_PJRT_CALL(state_->api(), PJRT_Client_BufferFromHostBuffer, args);
  Buffer buffer(state_, args.buffer);
  const Event done(state_->plugin.api(), args.done_with_host_buffer,
                   "PJRT_Client_BufferFromHostBuffer");
  if (use == HostUse::kUntilTransferred) {
    // Keeps the bytes until the plugin has read them. An error is not lost: the
    // buffer carries it too.
    done.on_ready([keep = array](const Error*) {});
  }
  return buffer;
}

DeviceMemoryStats Client::memory_stats(int device_id) const {
  RINGMAX_PJRT_ARGS(PJRT_Device_MemoryStats_Args, args);
  args.device = state_->device(device_id).handle;
  RINGMAX_PJRT_CALL(state_->api(), PJRT_Device_MemoryStats, args);
  DeviceMemoryStats stats;
  stats.bytes_in_use = args.bytes_in_use;
  if (args.peak_bytes_in_use_is_set) {
    stats.peak_bytes_in_use = args.peak_bytes_in_use;
  }
  if (args.bytes_limit_is_set) stats.bytes_limit = args.bytes_limit;
  return stats;
}

namespace {

// XLA ends the process when a device is 40 s late for a collective. A busy
// machine, and long attention on few cores, make devices later than that; one
// that never comes should not look like a long step either. XLA reads these
// limits from the environment when its first client is made, and no later.
void let_devices_be_late(double largest_program_flops) {
  constexpr const char* kFlags = "XLA_FLAGS";
  const char* given = std::getenv(kFlags);
  std::string flags = given == nullptr ? "" : given;
  if (flags.find("xla_cpu_collective") != std::string::npos) return;
  constexpr int kWarn_s = 60;  // a line of XLA for each device that waits
  constexpr double kEnd_s = 300;
  constexpr double kMost_s = 86400;
  // A tenth of what two cores do: no device is later than its whole program.
  constexpr double kSlowFlopsPerSecond = 1e10;
  const double end_s =
      std::clamp(largest_program_flops / kSlowFlopsPerSecond, kEnd_s, kMost_s);
  flags += fmt::format(
      " --xla_cpu_collective_call_warn_stuck_timeout_seconds={}"
      " --xla_cpu_collective_call_terminate_timeout_seconds={:.0f}",
      kWarn_s, end_s);
  ::setenv(kFlags, flags.c_str(), /*overwrite=*/1);
}

}  // namespace

Client cpu_client(const std::string& plugin_path, std::int64_t cpu_devices,
                  double largest_program_flops) {
  let_devices_be_late(largest_program_flops);
  PluginQuery query;
  query.explicit_path = plugin_path;
  ClientOptions options;
  options.values["cpu_device_count"] = cpu_devices;
  const Plugin plugin = Plugin::load(find_plugin(query));
  Client client = Client::create(plugin, options);
  if (client.platform_name() != "cpu") {
    fail(ErrorCode::kFailedPrecondition,
         "pjrt_plugin={}: its platform is {} and these settings ask for the "
         "CPU; give a CPU plugin, or leave the setting out",
         plugin.path(), client.platform_name());
  }
  return client;
}

}  // namespace ringmax::pjrt
