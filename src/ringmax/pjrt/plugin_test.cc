// Plugins that are not there, not plugins, too old, of another version, or that
// answer with errors: tables made by hand stand in for them.
#include "ringmax/pjrt/plugin.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pjrt_c_api.h>

#include <fstream>

#include "ringmax/base/error.h"
#include "ringmax/base/testing/temp_dir.h"
#include "ringmax/pjrt/client.h"
#include "ringmax/pjrt/ffi.h"

namespace ringmax::pjrt {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// What a call throws.
template <typename Function>
Error error_of(Function function) {
  try {
    function();
  } catch (const Error& error) {
    return error;
  }
  return Error(ErrorCode::kInternal, "nothing was thrown");
}

// An opaque error of the mock: its code and text.
struct MockError {
  PJRT_Error_Code code;
  std::string text;
};

int live_errors = 0;

PJRT_Error* make_error(PJRT_Error_Code code, const char* text) {
  ++live_errors;
  return reinterpret_cast<PJRT_Error*>(new MockError{code, text});
}

// Four devices in two processes; the devices of process 1 are ours.
int mock_devices[4] = {0, 1, 2, 3};
PJRT_Device* mock_device(int id) {
  return reinterpret_cast<PJRT_Device*>(&mock_devices[id]);
}
PJRT_Device* all_devices[4];
PJRT_Device* our_devices[2];

PJRT_Api mock_table() {
  PJRT_Api table{};
  table.struct_size = PJRT_Api_STRUCT_SIZE;
  table.pjrt_api_version.major_version = PJRT_API_MAJOR;
  table.pjrt_api_version.minor_version = 40;
  table.PJRT_Error_Destroy = [](PJRT_Error_Destroy_Args* args) {
    --live_errors;
    delete reinterpret_cast<MockError*>(args->error);
  };
  table.PJRT_Error_Message = [](PJRT_Error_Message_Args* args) {
    const auto* error = reinterpret_cast<const MockError*>(args->error);
    args->message = error->text.data();
    args->message_size = error->text.size();
  };
  table.PJRT_Error_GetCode = [](PJRT_Error_GetCode_Args* args) -> PJRT_Error* {
    args->code = reinterpret_cast<const MockError*>(args->error)->code;
    return nullptr;
  };
  table.PJRT_Client_Create = [](PJRT_Client_Create_Args* args) -> PJRT_Error* {
    static int client;
    args->client = reinterpret_cast<PJRT_Client*>(&client);
    return nullptr;
  };
  table.PJRT_Client_Destroy = [](PJRT_Client_Destroy_Args*) -> PJRT_Error* {
    return nullptr;
  };
  table.PJRT_Client_Compile = [](PJRT_Client_Compile_Args*) {
    return make_error(PJRT_Error_Code_RESOURCE_EXHAUSTED, "E1000: no HBM left");
  };
  table.PJRT_Client_BufferFromHostBuffer =
      [](PJRT_Client_BufferFromHostBuffer_Args*) {
        return make_error(PJRT_Error_Code_RESOURCE_EXHAUSTED, "no room now");
      };
  table.PJRT_Client_PlatformName = [](PJRT_Client_PlatformName_Args*) {
    return make_error(PJRT_Error_Code_INTERNAL, "the name is lost");
  };
  table.PJRT_Client_ProcessIndex =
      [](PJRT_Client_ProcessIndex_Args* args) -> PJRT_Error* {
    args->process_index = 1;
    return nullptr;
  };
  table.PJRT_Client_Devices =
      [](PJRT_Client_Devices_Args* args) -> PJRT_Error* {
    for (int i = 0; i < 4; ++i) all_devices[i] = mock_device(i);
    args->devices = all_devices;
    args->num_devices = 4;
    return nullptr;
  };
  table.PJRT_Client_AddressableDevices =
      [](PJRT_Client_AddressableDevices_Args* args) -> PJRT_Error* {
    for (int i = 0; i < 2; ++i) our_devices[i] = mock_device(i + 2);
    args->addressable_devices = our_devices;
    args->num_addressable_devices = 2;
    return nullptr;
  };
  table.PJRT_Device_GetDescription =
      [](PJRT_Device_GetDescription_Args* args) -> PJRT_Error* {
    args->device_description =
        reinterpret_cast<PJRT_DeviceDescription*>(args->device);
    return nullptr;
  };
  table.PJRT_DeviceDescription_Id =
      [](PJRT_DeviceDescription_Id_Args* args) -> PJRT_Error* {
    args->id = *reinterpret_cast<int*>(args->device_description);
    return nullptr;
  };
  return table;
}

TEST(PluginTest, AnotherMajorVersionIsRefusedNamingBothAndThePath) {
  PJRT_Api table = mock_table();
  table.pjrt_api_version.major_version = PJRT_API_MAJOR + 7;
  const Error error =
      error_of([&] { Plugin::from_api(&table, "/opt/other_plugin.so"); });
  EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(exit_code_for(error.code()), 2);
  EXPECT_THAT(error.message(), AllOf(HasSubstr("/opt/other_plugin.so"),
                                     HasSubstr("7.40"), HasSubstr("0.81")));
}

TEST(PluginTest, MissingFileNamesThePathAndTheSetting) {
  const Error error = error_of([] { Plugin::load("/no/such/plugin.so"); });
  EXPECT_EQ(error.code(), ErrorCode::kNotFound);
  EXPECT_THAT(error.message(), HasSubstr("pjrt_plugin=/no/such/plugin.so"));
}

TEST(PluginTest, AFileThatIsNoLibraryIsAnInputError) {
  const TempDir dir;
  const std::string path = dir.path() + "/plugin.so";
  std::ofstream(path) << "not a library";
  const Error error = error_of([&] { Plugin::load(path); });
  EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
  EXPECT_THAT(error.message(), HasSubstr(path));
}

TEST(PluginTest, AFunctionBeyondTheTableIsNamedWithThePluginsVersion) {
  PJRT_Api table = mock_table();
  // As an old plugin that ends before the calls of clients.
  table.struct_size = offsetof(PJRT_Api, PJRT_Client_Create);
  const Plugin plugin = Plugin::from_api(&table, "old.so");
  const Error error = error_of([&] { Client(plugin, {}); });
  EXPECT_EQ(error.code(), ErrorCode::kUnimplemented);
  EXPECT_THAT(error.message(), AllOf(HasSubstr("PJRT_Client_Create"),
                                     HasSubstr("old.so"), HasSubstr("0.40")));
}

TEST(PluginTest, ANullEntryIsUnimplementedToo) {
  const PJRT_Api table = mock_table();
  const Client client(Plugin::from_api(&table, "mock.so"), {});
  const Error error = error_of([&] { client.platform_version(); });
  EXPECT_EQ(error.code(), ErrorCode::kUnimplemented);
  EXPECT_THAT(error.message(), HasSubstr("PJRT_Client_PlatformVersion"));
}

TEST(PluginTest, ErrorsCarryTheCallAndThePluginsTextAndAreFreed) {
  const PJRT_Api table = mock_table();
  const Client client(Plugin::from_api(&table, "mock.so"), {});
  const Error error = error_of([&] { client.platform_name(); });
  EXPECT_EQ(error.code(), ErrorCode::kPlugin);
  EXPECT_THAT(error.message(),
              AllOf(HasSubstr("PJRT_Client_PlatformName"),
                    HasSubstr("INTERNAL"), HasSubstr("the name is lost")));
  EXPECT_EQ(live_errors, 0);
}

TEST(PluginTest, RunningOutAtCompileIsTheMachinesAndLaterThePlugins) {
  const PJRT_Api table = mock_table();
  const Client client(Plugin::from_api(&table, "mock.so"), {});
  const Error compile = error_of([&] { client.compile("module {}", {}); });
  EXPECT_EQ(compile.code(), ErrorCode::kResourceExhausted);
  EXPECT_THAT(compile.message(), HasSubstr("E1000: no HBM left"));
  const Error upload = error_of(
      [&] { client.to_device(HostArray(Shape(DType::kF32, {2})), 0); });
  EXPECT_EQ(upload.code(), ErrorCode::kPlugin);
}

TEST(PluginTest, GlobalAndAddressableDevicesAreToldApart) {
  const PJRT_Api table = mock_table();
  const Client client(Plugin::from_api(&table, "mock.so"), {});
  EXPECT_EQ(client.process_index(), 1);
  EXPECT_EQ(client.device_count(), 4u);
  EXPECT_EQ(client.addressable_device_count(), 2u);
  EXPECT_THAT(client.addressable_device_ids(), ElementsAre(2, 3));
}

TEST(PluginTest, WithoutTheFfiExtensionAHandlerIsRefused) {
  const PJRT_Api table = mock_table();
  const Plugin plugin = Plugin::from_api(&table, "mock.so");
  const Error error =
      error_of([&] { register_ffi_handler(plugin, "my_kernel", nullptr); });
  EXPECT_EQ(error.code(), ErrorCode::kUnimplemented);
  EXPECT_THAT(error.message(), HasSubstr("my_kernel"));
}

}  // namespace
}  // namespace ringmax::pjrt
