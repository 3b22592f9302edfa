#include "ringmax/pjrt/testing/mock_plugin.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>

namespace ringmax::pjrt::testing {
namespace {

struct MockError {
  PJRT_Error_Code code;
  std::string text;
};

struct MockDevice {
  int id = 0;
  int process = 0;
  bool ours = false;
  std::string text;
  std::vector<std::int64_t> coords;
  std::vector<PJRT_NamedValue> attributes;
};

struct MockBuffer {
  PJRT_Buffer_Type type;
  std::vector<std::int64_t> dims;
  std::vector<std::byte> bytes;
  MockDevice* device = nullptr;
  bool deleted = false;
};

struct MockEvent {
  std::string error;
};

struct Mock {
  MockSettings settings;
  MockLog log;
  PJRT_Api table{};
  std::vector<std::unique_ptr<MockDevice>> devices;
  std::vector<PJRT_Device*> all, ours;
  std::map<std::string, MockError> failures;
  std::string work_error;
};

Mock& mock() {
  static Mock& instance = *new Mock;
  return instance;
}

template <typename To, typename From>
To* as(From* from) {
  return reinterpret_cast<To*>(from);
}

PJRT_Error* make_error(PJRT_Error_Code code, const std::string& text) {
  ++mock().log.live_errors;
  return as<PJRT_Error>(new MockError{code, text});
}

PJRT_Event* make_event() {
  ++mock().log.live_events;
  return as<PJRT_Event>(new MockEvent{mock().work_error});
}

PJRT_Error* work_error(const MockEvent& event) {
  return event.error.empty()
             ? nullptr
             : make_error(PJRT_Error_Code_INTERNAL, event.error);
}

PJRT_Buffer* make_buffer(MockBuffer buffer) {
  ++mock().log.live_buffers;
  return as<PJRT_Buffer>(new MockBuffer(std::move(buffer)));
}

std::size_t bytes_of(PJRT_Buffer_Type type) {
  switch (type) {
    case PJRT_Buffer_Type_PRED:
    case PJRT_Buffer_Type_S8:
    case PJRT_Buffer_Type_U8:
      return 1;
    case PJRT_Buffer_Type_BF16:
    case PJRT_Buffer_Type_F16:
      return 2;
    case PJRT_Buffer_Type_F64:
    case PJRT_Buffer_Type_S64:
    case PJRT_Buffer_Type_U64:
      return 8;
    default:
      return 4;
  }
}

// Reports the failure that a test asked for, else does what the body does.
template <typename Args, typename Body>
PJRT_Error* run(const char* function, Args* args, Body body) {
  const auto failure = mock().failures.find(function);
  if (failure != mock().failures.end()) {
    return make_error(failure->second.code, failure->second.text);
  }
  return body(args);
}

// table.NAME = a function of its argument struct `args`.
#define RINGMAX_MOCK(NAME, ...)                                        \
  mock().table.NAME = [](NAME##_Args* call) -> PJRT_Error* {           \
    return run(#NAME, call,                                            \
               []([[maybe_unused]] NAME##_Args* args) -> PJRT_Error* { \
                 __VA_ARGS__ return nullptr;                           \
               });                                                     \
  }

void fill_errors_and_events() {
  mock().table.PJRT_Error_Destroy = [](PJRT_Error_Destroy_Args* args) {
    --mock().log.live_errors;
    delete as<MockError>(args->error);
  };
  mock().table.PJRT_Error_Message = [](PJRT_Error_Message_Args* args) {
    const auto* error = as<const MockError>(args->error);
    args->message = error->text.data();
    args->message_size = error->text.size();
  };
  mock().table.PJRT_Error_GetCode =
      [](PJRT_Error_GetCode_Args* args) -> PJRT_Error* {
    args->code = as<const MockError>(args->error)->code;
    return nullptr;
  };
  RINGMAX_MOCK(PJRT_Event_Destroy, {
    --mock().log.live_events;
    delete as<MockEvent>(args->event);
  });
  RINGMAX_MOCK(PJRT_Event_IsReady, { args->is_ready = true; });
  RINGMAX_MOCK(PJRT_Event_Await,
               { return work_error(*as<MockEvent>(args->event)); });
  RINGMAX_MOCK(PJRT_Event_OnReady, {
    args->callback(work_error(*as<MockEvent>(args->event)), args->user_arg);
  });
}

void fill_client() {
  RINGMAX_MOCK(PJRT_Client_Create,
               { args->client = as<PJRT_Client>(&mock()); });
  RINGMAX_MOCK(PJRT_Client_Destroy, {});
  RINGMAX_MOCK(PJRT_Client_PlatformName, {
    args->platform_name = "mock";
    args->platform_name_size = 4;
  });
  RINGMAX_MOCK(PJRT_Client_PlatformVersion, {
    args->platform_version = "mock 1";
    args->platform_version_size = 6;
  });
  RINGMAX_MOCK(PJRT_Client_ProcessIndex,
               { args->process_index = mock().settings.process; });
  RINGMAX_MOCK(PJRT_Client_Devices, {
    args->devices = mock().all.data();
    args->num_devices = mock().all.size();
  });
  RINGMAX_MOCK(PJRT_Client_AddressableDevices, {
    args->addressable_devices = mock().ours.data();
    args->num_addressable_devices = mock().ours.size();
  });
  RINGMAX_MOCK(PJRT_Client_Compile, {
    mock().log.compile_options =
        std::string(args->compile_options, args->compile_options_size);
    args->executable = as<PJRT_LoadedExecutable>(&mock());
  });
  RINGMAX_MOCK(PJRT_Client_BufferFromHostBuffer, {
    MockBuffer buffer{args->type,
                      {args->dims, args->dims + args->num_dims},
                      {},
                      as<MockDevice>(args->device)};
    std::size_t size = bytes_of(args->type);
    for (const std::int64_t dim : buffer.dims) {
      size *= static_cast<std::size_t>(dim);
    }
    const auto* data = static_cast<const std::byte*>(args->data);
    buffer.bytes.assign(data, data + size);
    mock().log.uploaded_to.push_back(buffer.device->id);
    args->buffer = make_buffer(std::move(buffer));
    args->done_with_host_buffer = make_event();
  });
}

void fill_devices() {
  RINGMAX_MOCK(PJRT_Device_GetDescription, {
    args->device_description = as<PJRT_DeviceDescription>(args->device);
  });
  RINGMAX_MOCK(PJRT_Device_IsAddressable,
               { args->is_addressable = as<MockDevice>(args->device)->ours; });
  RINGMAX_MOCK(PJRT_DeviceDescription_Id,
               { args->id = as<MockDevice>(args->device_description)->id; });
  RINGMAX_MOCK(PJRT_DeviceDescription_ProcessIndex, {
    args->process_index = as<MockDevice>(args->device_description)->process;
  });
  RINGMAX_MOCK(PJRT_DeviceDescription_Kind, {
    args->device_kind = "mock device";
    args->device_kind_size = 11;
  });
  RINGMAX_MOCK(PJRT_DeviceDescription_ToString, {
    const auto* device = as<MockDevice>(args->device_description);
    args->to_string = device->text.data();
    args->to_string_size = device->text.size();
  });
  RINGMAX_MOCK(PJRT_DeviceDescription_Attributes, {
    const auto* device = as<MockDevice>(args->device_description);
    args->attributes = device->attributes.data();
    args->num_attributes = device->attributes.size();
  });
}

void fill_buffers() {
  RINGMAX_MOCK(PJRT_Buffer_Destroy, {
    --mock().log.live_buffers;
    delete as<MockBuffer>(args->buffer);
  });
  RINGMAX_MOCK(PJRT_Buffer_ElementType,
               { args->type = as<MockBuffer>(args->buffer)->type; });
  RINGMAX_MOCK(PJRT_Buffer_Dimensions, {
    const auto* buffer = as<MockBuffer>(args->buffer);
    args->dims = buffer->dims.data();
    args->num_dims = buffer->dims.size();
  });
  RINGMAX_MOCK(PJRT_Buffer_Device, {
    args->device = as<PJRT_Device>(as<MockBuffer>(args->buffer)->device);
  });
  RINGMAX_MOCK(PJRT_Buffer_Delete,
               { as<MockBuffer>(args->buffer)->deleted = true; });
  RINGMAX_MOCK(PJRT_Buffer_IsDeleted,
               { args->is_deleted = as<MockBuffer>(args->buffer)->deleted; });
  RINGMAX_MOCK(PJRT_Buffer_ReadyEvent, { args->event = make_event(); });
  RINGMAX_MOCK(PJRT_Buffer_ToHostBuffer, {
    const auto* buffer = as<MockBuffer>(args->src);
    if (args->dst_size != buffer->bytes.size()) {
      return make_error(PJRT_Error_Code_INVALID_ARGUMENT, "wrong size");
    }
    std::memcpy(args->dst, buffer->bytes.data(), buffer->bytes.size());
    mock().log.read_from.push_back(buffer->device->id);
    args->event = make_event();
  });
}

void fill_executables() {
  RINGMAX_MOCK(PJRT_LoadedExecutable_Destroy, {});
  RINGMAX_MOCK(PJRT_LoadedExecutable_GetExecutable,
               { args->executable = as<PJRT_Executable>(&mock()); });
  RINGMAX_MOCK(PJRT_LoadedExecutable_AddressableDevices, {
    args->addressable_devices = mock().ours.data();
    args->num_addressable_devices = mock().ours.size();
  });
  RINGMAX_MOCK(PJRT_Executable_Destroy, {});
  RINGMAX_MOCK(PJRT_Executable_NumOutputs,
               { args->num_outputs = mock().settings.outputs; });
  RINGMAX_MOCK(PJRT_LoadedExecutable_Execute, {
    ++mock().log.executions;
    const PJRT_ExecuteOptions& options = *args->options;
    mock().log.non_donatable.assign(
        options.non_donatable_input_indices,
        options.non_donatable_input_indices +
            options.num_non_donatable_input_indices);
    for (std::size_t d = 0; d < args->num_devices; ++d) {
      for (std::size_t i = 0; i < mock().settings.outputs; ++i) {
        args->output_lists[d][i] =
            make_buffer(*as<MockBuffer>(args->argument_lists[d][i]));
      }
      if (args->device_complete_events != nullptr) {
        args->device_complete_events[d] = make_event();
      }
    }
  });
}

}  // namespace

void reset_mock(const MockSettings& settings) {
  Mock& m = mock();
  m.settings = settings;
  m.log = {};
  m.table = {};
  m.devices.clear();
  m.all.clear();
  m.ours.clear();
  m.failures.clear();
  m.work_error.clear();
  m.table.struct_size = PJRT_Api_STRUCT_SIZE;
  m.table.pjrt_api_version.major_version = PJRT_API_MAJOR;
  m.table.pjrt_api_version.minor_version = settings.minor_version;
  for (int id = 0; id < settings.devices; ++id) {
    auto device = std::make_unique<MockDevice>();
    device->id = id;
    device->process = id / settings.devices_per_process;
    device->ours = device->process == settings.process;
    device->text = "mock device " + std::to_string(id);
    if (settings.coordinates) {
      device->coords = {id % 2, id / 2, 0};
      PJRT_NamedValue value{};
      value.struct_size = PJRT_NamedValue_STRUCT_SIZE;
      value.name = "coords";
      value.name_size = 6;
      value.type = PJRT_NamedValue_kInt64List;
      value.int64_array_value = device->coords.data();
      value.value_size = device->coords.size();
      device->attributes.push_back(value);
    }
    m.all.push_back(as<PJRT_Device>(device.get()));
    if (device->ours) m.ours.push_back(m.all.back());
    m.devices.push_back(std::move(device));
  }
  fill_errors_and_events();
  fill_client();
  fill_devices();
  fill_buffers();
  fill_executables();
}

MockLog& mock_log() { return mock().log; }

PJRT_Api& mock_table() { return mock().table; }

Plugin mock_plugin() { return Plugin::from_api(&mock().table, "mock.so"); }

void fail_mock_call(const std::string& function, PJRT_Error_Code code,
                    const std::string& text) {
  mock().failures[function] = {code, text};
}

void fail_mock_work(const std::string& text) { mock().work_error = text; }

}  // namespace ringmax::pjrt::testing
