#include "ringmax/pjrt/client.h"

#include <numeric>
#include <utility>

#include "ringmax/base/error.h"
#include "ringmax/pjrt/api.h"

namespace ringmax::pjrt {

struct ClientHandle {
  ApiPtr api;
  PJRT_Client* client = nullptr;
  ~ClientHandle() {
    if (client == nullptr) return;
    RINGMAX_PJRT_ARGS(PJRT_Client_Destroy_Args, args);
    args.client = client;
    RINGMAX_PJRT_CALL_QUIETLY(*api, PJRT_Client_Destroy, args);
  }
};

namespace {

PJRT_Buffer_Type buffer_type(DType dtype) {
  switch (dtype) {
    case DType::kBool:
      return PJRT_Buffer_Type_PRED;
    case DType::kI8:
      return PJRT_Buffer_Type_S8;
    case DType::kU8:
      return PJRT_Buffer_Type_U8;
    case DType::kI16:
      return PJRT_Buffer_Type_S16;
    case DType::kU16:
      return PJRT_Buffer_Type_U16;
    case DType::kI32:
      return PJRT_Buffer_Type_S32;
    case DType::kU32:
      return PJRT_Buffer_Type_U32;
    case DType::kI64:
      return PJRT_Buffer_Type_S64;
    case DType::kU64:
      return PJRT_Buffer_Type_U64;
    case DType::kF16:
      return PJRT_Buffer_Type_F16;
    case DType::kBF16:
      return PJRT_Buffer_Type_BF16;
    case DType::kF32:
      return PJRT_Buffer_Type_F32;
    case DType::kF64:
      return PJRT_Buffer_Type_F64;
  }
  fail(ErrorCode::kInternal, "unknown dtype");
}

DType dtype_of_buffer(PJRT_Buffer_Type type) {
  for (int i = 0; i <= static_cast<int>(DType::kF64); ++i) {
    if (buffer_type(static_cast<DType>(i)) == type) {
      return static_cast<DType>(i);
    }
  }
  fail(ErrorCode::kPlugin, "the plugin made a buffer of unknown type {}",
       static_cast<int>(type));
}

// Waits for an event and frees it; null is ready.
void await_event(const Api& api, PJRT_Event* event, const char* what) {
  if (event == nullptr) return;
  RINGMAX_PJRT_ARGS(PJRT_Event_Await_Args, wait);
  wait.event = event;
  PJRT_Error* error = api.table()->PJRT_Event_Await(&wait);
  RINGMAX_PJRT_ARGS(PJRT_Event_Destroy_Args, destroy);
  destroy.event = event;
  RINGMAX_PJRT_CALL_QUIETLY(api, PJRT_Event_Destroy, destroy);
  api.check(error, what);
}

std::int64_t device_id(const Api& api, PJRT_Device* device) {
  RINGMAX_PJRT_ARGS(PJRT_Device_GetDescription_Args, describe);
  describe.device = device;
  RINGMAX_PJRT_CALL(api, PJRT_Device_GetDescription, describe);
  RINGMAX_PJRT_ARGS(PJRT_DeviceDescription_Id_Args, id);
  id.device_description = describe.device_description;
  RINGMAX_PJRT_CALL(api, PJRT_DeviceDescription_Id, id);
  return id.id;
}

std::span<PJRT_Device* const> addressable(const ClientHandle& handle) {
  RINGMAX_PJRT_ARGS(PJRT_Client_AddressableDevices_Args, args);
  args.client = handle.client;
  RINGMAX_PJRT_CALL(*handle.api, PJRT_Client_AddressableDevices, args);
  return {args.addressable_devices, args.num_addressable_devices};
}

// The executable behind a loaded one, freed at the end of the scope.
class Unloaded {
 public:
  Unloaded(ApiPtr api, PJRT_LoadedExecutable* loaded) : api_(std::move(api)) {
    RINGMAX_PJRT_ARGS(PJRT_LoadedExecutable_GetExecutable_Args, args);
    args.loaded_executable = loaded;
    RINGMAX_PJRT_CALL(*api_, PJRT_LoadedExecutable_GetExecutable, args);
    executable_ = args.executable;
  }
  ~Unloaded() {
    RINGMAX_PJRT_ARGS(PJRT_Executable_Destroy_Args, args);
    args.executable = executable_;
    RINGMAX_PJRT_CALL_QUIETLY(*api_, PJRT_Executable_Destroy, args);
  }
  Unloaded(const Unloaded&) = delete;
  Unloaded& operator=(const Unloaded&) = delete;
  PJRT_Executable* get() const { return executable_; }

 private:
  ApiPtr api_;
  PJRT_Executable* executable_;
};

}  // namespace

// --- Buffer ------------------------------------------------------------------

Buffer::Buffer(std::shared_ptr<ClientHandle> client, PJRT_Buffer* buffer)
    : client_(std::move(client)), buffer_(buffer) {}

Buffer::~Buffer() {
  if (buffer_ == nullptr) return;
  RINGMAX_PJRT_ARGS(PJRT_Buffer_Destroy_Args, args);
  args.buffer = buffer_;
  RINGMAX_PJRT_CALL_QUIETLY(*client_->api, PJRT_Buffer_Destroy, args);
}

Buffer::Buffer(Buffer&& other) noexcept
    : client_(std::move(other.client_)),
      buffer_(std::exchange(other.buffer_, nullptr)) {}

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  std::swap(client_, other.client_);
  std::swap(buffer_, other.buffer_);
  return *this;
}

Shape Buffer::shape() const {
  RINGMAX_PJRT_ARGS(PJRT_Buffer_ElementType_Args, type);
  type.buffer = buffer_;
  RINGMAX_PJRT_CALL(*client_->api, PJRT_Buffer_ElementType, type);
  RINGMAX_PJRT_ARGS(PJRT_Buffer_Dimensions_Args, dims);
  dims.buffer = buffer_;
  RINGMAX_PJRT_CALL(*client_->api, PJRT_Buffer_Dimensions, dims);
  return Shape(dtype_of_buffer(type.type),
               Dims(dims.dims, dims.dims + dims.num_dims));
}

HostArray Buffer::to_host() const {
  HostArray array(shape());
  // Devices choose their own layouts; the host always sees row major.
  Dims minor_to_major(array.shape().dims.size());
  std::iota(minor_to_major.rbegin(), minor_to_major.rend(), 0);
  RINGMAX_PJRT_ARGS(PJRT_Buffer_MemoryLayout, layout);
  layout.type = PJRT_Buffer_MemoryLayout_Type_Tiled;
  layout.tiled.struct_size = PJRT_Buffer_MemoryLayout_Tiled_STRUCT_SIZE;
  layout.tiled.minor_to_major = minor_to_major.data();
  layout.tiled.minor_to_major_size = minor_to_major.size();
  RINGMAX_PJRT_ARGS(PJRT_Buffer_ToHostBuffer_Args, args);
  args.src = buffer_;
  args.host_layout = &layout;
  args.dst = array.bytes().data();
  args.dst_size = array.bytes().size();
  RINGMAX_PJRT_CALL(*client_->api, PJRT_Buffer_ToHostBuffer, args);
  await_event(*client_->api, args.event, "PJRT_Buffer_ToHostBuffer");
  return array;
}

void Buffer::await() const {
  RINGMAX_PJRT_ARGS(PJRT_Buffer_ReadyEvent_Args, args);
  args.buffer = buffer_;
  RINGMAX_PJRT_CALL(*client_->api, PJRT_Buffer_ReadyEvent, args);
  await_event(*client_->api, args.event, "PJRT_Buffer_ReadyEvent");
}

// --- Executable --------------------------------------------------------------

Executable::Executable(std::shared_ptr<ClientHandle> client,
                       PJRT_LoadedExecutable* executable)
    : client_(std::move(client)), executable_(executable) {}

Executable::~Executable() {
  if (executable_ == nullptr) return;
  RINGMAX_PJRT_ARGS(PJRT_LoadedExecutable_Destroy_Args, args);
  args.executable = executable_;
  RINGMAX_PJRT_CALL_QUIETLY(*client_->api, PJRT_LoadedExecutable_Destroy, args);
}

Executable::Executable(Executable&& other) noexcept
    : client_(std::move(other.client_)),
      executable_(std::exchange(other.executable_, nullptr)) {}

Executable& Executable::operator=(Executable&& other) noexcept {
  std::swap(client_, other.client_);
  std::swap(executable_, other.executable_);
  return *this;
}

std::vector<std::int64_t> Executable::device_ids() const {
  RINGMAX_PJRT_ARGS(PJRT_LoadedExecutable_AddressableDevices_Args, args);
  args.executable = executable_;
  RINGMAX_PJRT_CALL(*client_->api, PJRT_LoadedExecutable_AddressableDevices,
                    args);
  std::vector<std::int64_t> ids;
  for (std::size_t i = 0; i < args.num_addressable_devices; ++i) {
    ids.push_back(device_id(*client_->api, args.addressable_devices[i]));
  }
  return ids;
}

std::size_t Executable::output_count() const {
  const Unloaded unloaded(client_->api, executable_);
  RINGMAX_PJRT_ARGS(PJRT_Executable_NumOutputs_Args, args);
  args.executable = unloaded.get();
  RINGMAX_PJRT_CALL(*client_->api, PJRT_Executable_NumOutputs, args);
  return args.num_outputs;
}

std::vector<std::vector<Buffer>> Executable::execute(
    const std::vector<std::vector<const Buffer*>>& arguments) const {
  RINGMAX_CHECK(!arguments.empty());
  // The plugin reads num_args pointers of every list and does not check them.
  for (const auto& list : arguments) {
    RINGMAX_CHECK(list.size() == arguments[0].size());
    for (const Buffer* b : list) RINGMAX_CHECK(b != nullptr && b->valid());
  }
  const std::size_t outputs = output_count();
  std::vector<std::vector<PJRT_Buffer*>> in(arguments.size());
  std::vector<std::vector<PJRT_Buffer*>> out(
      arguments.size(), std::vector<PJRT_Buffer*>(outputs));
  std::vector<PJRT_Buffer* const*> in_lists;
  std::vector<PJRT_Buffer**> out_lists;
  for (std::size_t d = 0; d < arguments.size(); ++d) {
    for (const Buffer* b : arguments[d]) in[d].push_back(b->get());
    in_lists.push_back(in[d].data());
    out_lists.push_back(out[d].data());
  }
  RINGMAX_PJRT_ARGS(PJRT_ExecuteOptions, options);
  RINGMAX_PJRT_ARGS(PJRT_LoadedExecutable_Execute_Args, args);
  args.executable = executable_;
  args.options = &options;
  args.argument_lists = in_lists.data();
  args.num_devices = arguments.size();
  args.num_args = arguments[0].size();
  args.output_lists = out_lists.data();
  RINGMAX_PJRT_CALL(*client_->api, PJRT_LoadedExecutable_Execute, args);
  std::vector<std::vector<Buffer>> results(arguments.size());
  for (std::size_t d = 0; d < arguments.size(); ++d) {
    for (PJRT_Buffer* b : out[d]) results[d].emplace_back(client_, b);
  }
  return results;
}

std::string Executable::serialize() const {
  const Unloaded unloaded(client_->api, executable_);
  RINGMAX_PJRT_ARGS(PJRT_Executable_Serialize_Args, args);
  args.executable = unloaded.get();
  RINGMAX_PJRT_CALL(*client_->api, PJRT_Executable_Serialize, args);
  std::string bytes(args.serialized_bytes, args.serialized_bytes_size);
  args.serialized_executable_deleter(args.serialized_executable);
  return bytes;
}

MemoryStats Executable::memory_stats() const {
  const Unloaded unloaded(client_->api, executable_);
  RINGMAX_PJRT_ARGS(PJRT_Executable_GetCompiledMemoryStats_Args, args);
  args.executable = unloaded.get();
  RINGMAX_PJRT_CALL(*client_->api, PJRT_Executable_GetCompiledMemoryStats,
                    args);
  return {args.generated_code_size_in_bytes, args.argument_size_in_bytes,
          args.output_size_in_bytes, args.alias_size_in_bytes,
          args.temp_size_in_bytes};
}

// --- Client ------------------------------------------------------------------

Client::Client(const Plugin& plugin, const NamedValues& options)
    : plugin_(plugin), handle_(std::make_shared<ClientHandle>()) {
  handle_->api = plugin.api();
  const std::vector<PJRT_NamedValue> values = to_c_values(options);
  RINGMAX_PJRT_ARGS(PJRT_Client_Create_Args, args);
  args.create_options = values.data();
  args.num_options = values.size();
  RINGMAX_PJRT_CALL(*handle_->api, PJRT_Client_Create, args);
  handle_->client = args.client;
}

std::string Client::platform_name() const {
  RINGMAX_PJRT_ARGS(PJRT_Client_PlatformName_Args, args);
  args.client = handle_->client;
  RINGMAX_PJRT_CALL(*handle_->api, PJRT_Client_PlatformName, args);
  return to_string(args.platform_name, args.platform_name_size);
}

std::string Client::platform_version() const {
  RINGMAX_PJRT_ARGS(PJRT_Client_PlatformVersion_Args, args);
  args.client = handle_->client;
  RINGMAX_PJRT_CALL(*handle_->api, PJRT_Client_PlatformVersion, args);
  return to_string(args.platform_version, args.platform_version_size);
}

std::int64_t Client::process_index() const {
  RINGMAX_PJRT_ARGS(PJRT_Client_ProcessIndex_Args, args);
  args.client = handle_->client;
  RINGMAX_PJRT_CALL(*handle_->api, PJRT_Client_ProcessIndex, args);
  return args.process_index;
}

std::size_t Client::device_count() const {
  RINGMAX_PJRT_ARGS(PJRT_Client_Devices_Args, args);
  args.client = handle_->client;
  RINGMAX_PJRT_CALL(*handle_->api, PJRT_Client_Devices, args);
  return args.num_devices;
}

std::size_t Client::addressable_device_count() const {
  return addressable(*handle_).size();
}

std::vector<std::int64_t> Client::addressable_device_ids() const {
  std::vector<std::int64_t> ids;
  for (PJRT_Device* device : addressable(*handle_)) {
    ids.push_back(device_id(*handle_->api, device));
  }
  return ids;
}

Buffer Client::to_device(const HostArray& array, std::size_t device) const {
  const auto devices = addressable(*handle_);
  if (device >= devices.size()) {
    fail_invalid("device {} of {} addressable ones", device, devices.size());
  }
  RINGMAX_PJRT_ARGS(PJRT_Client_BufferFromHostBuffer_Args, args);
  args.client = handle_->client;
  args.data = array.bytes().data();
  args.type = buffer_type(array.shape().dtype);
  args.dims = array.shape().dims.data();
  args.num_dims = array.shape().dims.size();
  args.host_buffer_semantics =
      PJRT_HostBufferSemantics_kImmutableOnlyDuringCall;
  args.device = devices[device];
  RINGMAX_PJRT_CALL(*handle_->api, PJRT_Client_BufferFromHostBuffer, args);
  Buffer buffer(handle_, args.buffer);
  await_event(*handle_->api, args.done_with_host_buffer,
              "PJRT_Client_BufferFromHostBuffer");
  return buffer;
}

Executable Client::compile(const std::string& stablehlo,
                           const CompileOptions& options) const {
  const std::string serialized = options.serialize();
  std::string code = stablehlo;
  std::string format = "mlir";
  RINGMAX_PJRT_ARGS(PJRT_Program, program);
  program.code = code.data();
  program.code_size = code.size();
  program.format = format.data();
  program.format_size = format.size();
  RINGMAX_PJRT_ARGS(PJRT_Client_Compile_Args, args);
  args.client = handle_->client;
  args.program = &program;
  args.compile_options = serialized.data();
  args.compile_options_size = serialized.size();
  RINGMAX_PJRT_CALL(*handle_->api, PJRT_Client_Compile, args);
  return Executable(handle_, args.executable);
}

Executable Client::deserialize(const std::string& serialized) const {
  RINGMAX_PJRT_ARGS(PJRT_Executable_DeserializeAndLoad_Args, args);
  args.client = handle_->client;
  args.serialized_executable = serialized.data();
  args.serialized_executable_size = serialized.size();
  RINGMAX_PJRT_CALL(*handle_->api, PJRT_Executable_DeserializeAndLoad, args);
  return Executable(handle_, args.loaded_executable);
}

Client cpu_client(const std::string& plugin_path, std::int64_t cpu_devices) {
  PluginQuery query;
  query.explicit_path = plugin_path;
  return Client(Plugin::load(find_plugin(query)),
                {{"cpu_device_count", cpu_devices}});
}

}  // namespace ringmax::pjrt
