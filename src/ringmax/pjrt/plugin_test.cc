// Plugins that are not there, not plugins, too old, of another version, or that
// answer with errors.
#include "ringmax/pjrt/plugin.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "ringmax/base/error.h"
#include "ringmax/base/testing/temp_dir.h"
#include "ringmax/pjrt/client.h"
#include "ringmax/pjrt/ffi.h"
#include "ringmax/pjrt/testing/mock_plugin.h"
#include "ringmax/pjrt/topology.h"

namespace ringmax::pjrt {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using testing::fail_mock_call;
using testing::fail_mock_work;
using ::testing::HasSubstr;
using testing::mock_log;
using testing::mock_plugin;
using testing::mock_table;
using testing::reset_mock;

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

class PluginTest : public ::testing::Test {
 protected:
  PluginTest() { reset_mock(); }
  // Whatever a test did, nothing of the plugin's may be left over.
  void TearDown() override {
    EXPECT_EQ(mock_log().live_errors, 0);
    EXPECT_EQ(mock_log().live_buffers, 0);
    EXPECT_EQ(mock_log().live_events, 0);
  }
};

HostArray two_floats() {
  return HostArray::from<float>({2}, std::vector<float>{1, 2});
}

TEST_F(PluginTest, AnotherMajorVersionIsRefusedNamingBothAndThePath) {
  mock_table().pjrt_api_version.major_version = PJRT_API_MAJOR + 7;
  const Error error = error_of(
      [&] { Plugin::from_api(&mock_table(), "/opt/other_plugin.so"); });
  EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(exit_code_for(error.code()), 2);
  EXPECT_THAT(error.message(), AllOf(HasSubstr("/opt/other_plugin.so"),
                                     HasSubstr("7.40"), HasSubstr("0.81")));
}

TEST_F(PluginTest, MissingFileNamesThePathAndTheSetting) {
  const Error error = error_of([] { Plugin::load("/no/such/plugin.so"); });
  EXPECT_EQ(error.code(), ErrorCode::kNotFound);
  EXPECT_THAT(error.message(), HasSubstr("pjrt_plugin=/no/such/plugin.so"));
}

TEST_F(PluginTest, AFileThatIsNoLibraryIsAnInputError) {
  const TempDir dir;
  const std::string path = dir.path() + "/plugin.so";
  std::ofstream(path) << "not a library";
  const Error error = error_of([&] { Plugin::load(path); });
  EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
  EXPECT_THAT(error.message(), HasSubstr(path));
}

TEST_F(PluginTest, AFunctionBeyondTheTableIsNamedWithThePluginsVersion) {
  // As an old plugin that ends before the calls of clients.
  mock_table().struct_size = offsetof(PJRT_Api, PJRT_Client_Create);
  const Error error = error_of([] { Client::create(mock_plugin()); });
  EXPECT_EQ(error.code(), ErrorCode::kUnimplemented);
  EXPECT_THAT(error.message(), AllOf(HasSubstr("PJRT_Client_Create"),
                                     HasSubstr("mock.so"), HasSubstr("0.40")));
}

TEST_F(PluginTest, ANullEntryIsUnimplementedToo) {
  const Error topology =
      error_of([] { Topology::create(mock_plugin(), "v5p:2x2x2"); });
  EXPECT_EQ(topology.code(), ErrorCode::kUnimplemented);
  EXPECT_THAT(topology.message(),
              AllOf(HasSubstr("PJRT_TopologyDescription_Create"),
                    HasSubstr("mock.so"), HasSubstr("0.40")));
  const LoadedExecutable loaded = Client::create(mock_plugin()).compile("", {});
  const Error cost = error_of([&] { loaded.executable().cost_analysis(); });
  EXPECT_EQ(cost.code(), ErrorCode::kUnimplemented);
  EXPECT_THAT(cost.message(), HasSubstr("PJRT_Executable_GetCostAnalysis"));
}

TEST_F(PluginTest, ErrorsCarryTheCallAndThePluginsText) {
  fail_mock_call("PJRT_Client_PlatformName", PJRT_Error_Code_INTERNAL,
                 "the name is lost");
  const Error error = error_of([] { Client::create(mock_plugin()); });
  EXPECT_EQ(error.code(), ErrorCode::kPlugin);
  EXPECT_THAT(error.message(),
              AllOf(HasSubstr("PJRT_Client_PlatformName"),
                    HasSubstr("INTERNAL"), HasSubstr("the name is lost")));
}

// Every call of a run, each failing in turn.
TEST_F(PluginTest, EveryCallsErrorSurfacesUnderItsName) {
  const auto run = [] {
    const Client client = Client::create(mock_plugin());
    const Buffer in =
        client.to_device(two_floats(), 4, HostUse::kUntilTransferred);
    const LoadedExecutable loaded = client.compile("module {}", {});
    const std::vector<std::vector<Buffer>> arguments(4, {in});
    const ExecuteResult result = loaded.execute(arguments);
    result.await();
    result.outputs[0][0].ready().await();
    result.outputs[0][0].to_host();
  };
  run();
  for (const char* function : {"PJRT_Client_Create",
                               "PJRT_Client_PlatformName",
                               "PJRT_Client_PlatformVersion",
                               "PJRT_Client_ProcessIndex",
                               "PJRT_Client_Devices",
                               "PJRT_Device_GetDescription",
                               "PJRT_Device_IsAddressable",
                               "PJRT_DeviceDescription_Id",
                               "PJRT_DeviceDescription_ProcessIndex",
                               "PJRT_DeviceDescription_Kind",
                               "PJRT_DeviceDescription_Attributes",
                               "PJRT_Client_BufferFromHostBuffer",
                               "PJRT_Client_Compile",
                               "PJRT_LoadedExecutable_GetExecutable",
                               "PJRT_Executable_NumOutputs",
                               "PJRT_LoadedExecutable_AddressableDevices",
                               "PJRT_LoadedExecutable_Execute",
                               "PJRT_Buffer_ReadyEvent",
                               "PJRT_Buffer_ElementType",
                               "PJRT_Buffer_Dimensions",
                               "PJRT_Buffer_ToHostBuffer"}) {
    reset_mock();
    fail_mock_call(function, PJRT_Error_Code_UNAVAILABLE, "not today");
    const Error error = error_of(run);
    EXPECT_EQ(error.code(), ErrorCode::kPlugin) << function;
    EXPECT_THAT(error.message(),
                AllOf(HasSubstr(function), HasSubstr("UNAVAILABLE"),
                      HasSubstr("not today")));
    EXPECT_EQ(mock_log().live_errors, 0) << function;
    EXPECT_EQ(mock_log().live_buffers, 0) << function;
    EXPECT_EQ(mock_log().live_events, 0) << function;
  }
}

TEST_F(PluginTest, RunningOutAtCompileIsTheMachinesAndLaterThePlugins) {
  const Client client = Client::create(mock_plugin());
  fail_mock_call("PJRT_Client_Compile", PJRT_Error_Code_RESOURCE_EXHAUSTED,
                 "E1000: no HBM left");
  const Error compile = error_of([&] { client.compile("module {}", {}); });
  EXPECT_EQ(compile.code(), ErrorCode::kResourceExhausted);
  EXPECT_THAT(compile.message(), HasSubstr("E1000: no HBM left"));
  fail_mock_call("PJRT_Client_BufferFromHostBuffer",
                 PJRT_Error_Code_RESOURCE_EXHAUSTED, "no room now");
  const Error upload = error_of([&] { client.to_device(two_floats(), 4); });
  EXPECT_EQ(upload.code(), ErrorCode::kPlugin);
}

TEST_F(PluginTest, GlobalAndAddressableDevicesAreToldApart) {
  const Client client = Client::create(mock_plugin());
  EXPECT_EQ(client.process_index(), 1);
  ASSERT_EQ(client.devices().size(), 8u);
  ASSERT_EQ(client.addressable_devices().size(), 4u);
  EXPECT_EQ(client.addressable_devices()[0].id, 4);
  EXPECT_EQ(client.device(3).process_index, 0);
  EXPECT_FALSE(client.device(3).addressable);
  EXPECT_EQ(client.device(6).kind, "mock device");
  const Error error = error_of([&] { client.to_device(two_floats(), 3); });
  EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
  EXPECT_THAT(error.message(),
              AllOf(HasSubstr("device 3"), HasSubstr("belongs to process 0")));
  EXPECT_EQ(error_of([&] { client.device(8); }).code(),
            ErrorCode::kInvalidArgument);
}

TEST_F(PluginTest, WorkThatFailsLaterTellsWhoeverWaits) {
  const Client client = Client::create(mock_plugin());
  const LoadedExecutable loaded = client.compile("module {}", {});
  const Buffer in = client.to_device(two_floats(), 4);
  const std::vector<std::vector<Buffer>> arguments(4, {in});
  fail_mock_work("a device went away");
  const ExecuteResult result = loaded.execute(arguments);
  const Error error = error_of([&] { result.await(); });
  EXPECT_EQ(error.code(), ErrorCode::kPlugin);
  EXPECT_THAT(error.message(), AllOf(HasSubstr("PJRT_LoadedExecutable_Execute"),
                                     HasSubstr("a device went away")));
  std::string told;
  result.done[0].on_ready(
      [&](const Error* e) { told = e == nullptr ? "fine" : e->message(); });
  EXPECT_THAT(told, HasSubstr("a device went away"));
  EXPECT_THROW(in.to_host(), Error);
}

TEST_F(PluginTest, ListsOfUnlikeLengthNeverReachThePlugin) {
  const Client client = Client::create(mock_plugin());
  const LoadedExecutable loaded = client.compile("module {}", {});
  const Buffer in = client.to_device(two_floats(), 4);
  const auto run = [&](const std::vector<std::vector<Buffer>>& arguments) {
    return error_of([&] { loaded.execute(arguments); }).code();
  };
  EXPECT_EQ(run({{in}}), ErrorCode::kInvalidArgument);
  EXPECT_EQ(run({{in}, {in}, {in}, {}}), ErrorCode::kInvalidArgument);
  EXPECT_EQ(run({{in}, {in}, {in}, {Buffer()}}), ErrorCode::kInvalidArgument);
  EXPECT_EQ(mock_log().executions, 0u);
}

TEST_F(PluginTest, ArgumentsToBeKeptAreNamedToThePlugin) {
  const Client client = Client::create(mock_plugin());
  const LoadedExecutable loaded = client.compile("module {}", {});
  const Buffer in = client.to_device(two_floats(), 4);
  const std::vector<std::vector<Buffer>> arguments(4, {in, in, in});
  ExecuteOptions options;
  options.non_donatable = {0, 2};
  loaded.execute(arguments, options);
  EXPECT_THAT(mock_log().non_donatable, ElementsAre(0, 2));
}

TEST_F(PluginTest, WithoutTheFfiExtensionAHandlerIsRefused) {
  const Error error = error_of(
      [&] { register_ffi_handler(mock_plugin(), "my_kernel", nullptr); });
  EXPECT_EQ(error.code(), ErrorCode::kUnimplemented);
  EXPECT_THAT(error.message(), HasSubstr("my_kernel"));
}

// A plugin as one of several processes: it talks to the others through the
// store that it is given.
std::string answer;
PJRT_Error* report(PJRT_Error_Code, const char* text, std::size_t size) {
  answer = "error: " + std::string(text, size);
  return nullptr;
}
PJRT_CallbackError report_callback = &report;

PJRT_Error* talk(PJRT_Client_Create_Args* args) {
  PJRT_KeyValuePutCallback_Args put{};
  put.struct_size = PJRT_KeyValuePutCallback_Args_STRUCT_SIZE;
  put.key = "host";
  put.key_size = 4;
  put.value = "10.0.0.7";
  put.value_size = 8;
  put.callback_error = &report_callback;
  put.user_arg = args->kv_put_user_arg;
  args->kv_put_callback(&put);
  PJRT_KeyValueGetCallback_Args get{};
  get.struct_size = PJRT_KeyValueGetCallback_Args_STRUCT_SIZE;
  get.key = "host";
  get.key_size = 4;
  get.timeout_in_ms = 1500;
  get.callback_error = &report_callback;
  get.user_arg = args->kv_get_user_arg;
  args->kv_get_callback(&get);
  answer = std::string(get.value, get.value_size);
  get.value_deleter_callback(get.value);
  PJRT_KeyValueTryGetCallback_Args try_get{};
  try_get.struct_size = PJRT_KeyValueTryGetCallback_Args_STRUCT_SIZE;
  try_get.key = "none";
  try_get.key_size = 4;
  try_get.callback_error = &report_callback;
  try_get.user_arg = args->kv_try_get_user_arg;
  const std::string found = answer;
  args->kv_try_get_callback(&try_get);
  answer = found + "; " + answer;
  args->client = reinterpret_cast<PJRT_Client*>(&mock_table());
  return nullptr;
}

TEST_F(PluginTest, TheKeyValueStoreIsThePluginsToUse) {
  mock_table().PJRT_Client_Create = &talk;
  std::map<std::string, std::string, std::less<>> store;
  ClientOptions options;
  std::int64_t waited_ms = 0;
  options.key_value_store = KeyValueStore{
      [&](std::string_view key, std::chrono::milliseconds timeout) {
        waited_ms = timeout.count();
        return store.at(std::string(key));
      },
      [&](std::string_view key) -> std::optional<std::string> {
        const auto found = store.find(key);
        if (found == store.end()) return std::nullopt;
        return found->second;
      },
      [&](std::string_view key, std::string_view value) {
        store[std::string(key)] = std::string(value);
      }};
  Client::create(mock_plugin(), options);
  EXPECT_EQ(store["host"], "10.0.0.7");
  EXPECT_EQ(waited_ms, 1500);
  EXPECT_THAT(answer, AllOf(HasSubstr("10.0.0.7; error:"),
                            HasSubstr("'none' is not in the store")));
}

}  // namespace
}  // namespace ringmax::pjrt
