// What any plugin must do for RingMax to train on it. docs/plugins.md says how
// to run this against another one.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <numeric>

#include "ringmax/base/error.h"
#include "ringmax/pjrt/client.h"
#include "ringmax/pjrt/testing/conformance_client.h"
#include "ringmax/pjrt/testing/programs.h"

namespace ringmax::pjrt {
namespace {

using testing::conformance_client;
using ::testing::Each;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;
using testing::kDonating;
using testing::kDouble;

// Every device sends its two values to the next one.
std::string ring_program(std::size_t devices) {
  std::string pairs;
  for (std::size_t i = 0; i < devices; ++i) {
    pairs += fmt::format("{}[{},{}]", i == 0 ? "" : ",", i, (i + 1) % devices);
  }
  return fmt::format(R"(
module @ring {{
  sdy.mesh @mesh = <["context"={0}]>
  func.func public @main(
      %x: tensor<{1}xf32> {{sdy.sharding = #sdy.sharding<@mesh, [{{"context"}}]>}})
      -> (tensor<{1}xf32> {{sdy.sharding = #sdy.sharding<@mesh, [{{"context"}}]>}}) {{
    %0 = sdy.manual_computation(%x)
        in_shardings=[<@mesh, [{{"context"}}]>]
        out_shardings=[<@mesh, [{{"context"}}]>]
        manual_axes={{"context"}} (%a: tensor<2xf32>) {{
      %b = "stablehlo.collective_permute"(%a) {{
          channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>,
          source_target_pairs = dense<[{2}]> : tensor<{0}x2xi64>}}
          : (tensor<2xf32>) -> tensor<2xf32>
      sdy.return %b : tensor<2xf32>
    }} : (tensor<{1}xf32>) -> tensor<{1}xf32>
    return %0 : tensor<{1}xf32>
  }}
}})",
                     devices, 2 * devices, pairs);
}

HostArray constant(std::int64_t size, float value) {
  HostArray array(Shape(DType::kF32, {size}));
  for (float& x : array.data<float>()) x = value;
  return array;
}

int first_device() { return conformance_client().addressable_devices()[0].id; }

CompileOptions on_devices(std::size_t devices) {
  CompileOptions options;
  options.num_partitions = static_cast<std::int64_t>(devices);
  return options;
}

HostArray run_one(const LoadedExecutable& executable, float value) {
  const Buffer in =
      conformance_client().to_device(constant(4, value), first_device());
  return executable.execute(std::vector<std::vector<Buffer>>{{in}})
      .outputs[0][0]
      .to_host();
}

// The ring once; the i-th device of the lists sends the value i, so it must
// hold that of its neighbour afterwards.
void check_ring(const LoadedExecutable& executable) {
  const std::vector<int>& ids = executable.addressable_device_ids();
  std::vector<std::vector<Buffer>> lists;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    lists.push_back({conformance_client().to_device(
        constant(2, static_cast<float>(i)), ids[i])});
  }
  const ExecuteResult result = executable.execute(lists);
  ASSERT_EQ(result.outputs.size(), ids.size());
  for (std::size_t i = 0; i < ids.size(); ++i) {
    EXPECT_EQ(result.outputs[i][0].device_id(), ids[i]);
    EXPECT_THAT(result.outputs[i][0].to_host().data<float>(),
                Each(static_cast<float>((i + ids.size() - 1) % ids.size())));
  }
}

std::size_t device_count() {
  return conformance_client().addressable_devices().size();
}

TEST(ConformanceTest, TellsItsDevices) {
  const Client& client = conformance_client();
  EXPECT_FALSE(client.platform_name().empty());
  ASSERT_GE(device_count(), 1u);
  for (const Device& device : client.addressable_devices()) {
    EXPECT_TRUE(device.addressable);
    EXPECT_FALSE(device.kind.empty());
    EXPECT_EQ(device.process_index, client.process_index());
  }
}

TEST(ConformanceTest, RunsOnOneDevice) {
  const LoadedExecutable executable = conformance_client().compile(kDouble, {});
  EXPECT_EQ(executable.executable().num_outputs(), 1);
  EXPECT_THAT(run_one(executable, 3).data<float>(), Each(6.0F));
}

TEST(ConformanceTest, HostSeesRowMajorValuesOfEveryRank) {
  for (const Dims& dims : {Dims{}, Dims{5}, Dims{2, 3}, Dims{2, 3, 4}}) {
    HostArray array(Shape(DType::kF32, dims));
    float next = 0;
    for (float& x : array.data<float>()) x = next++;
    const HostArray back =
        conformance_client().to_device(array, first_device()).to_host();
    EXPECT_EQ(back.shape(), array.shape());
    EXPECT_THAT(back.data<float>(), ElementsAreArray(array.data<float>()));
  }
}

// Large enough not to be done before the call returns.
TEST(ConformanceTest, TransfersRunInTheBackgroundAndTellWhenTheyAreDone) {
  Buffer on_device;
  {
    const HostArray array = constant(1 << 17, 7);
    on_device = conformance_client().to_device(array, first_device(),
                                               HostUse::kUntilTransferred);
  }
  const HostFuture future = on_device.to_host_async();
  std::atomic<int> told = 0;
  future.done().on_ready([&](const Error* error) {
    told = error == nullptr ? 1 : -1;
    told.notify_all();
  });
  EXPECT_THAT(future.get().data<float>(), Each(7.0F));
  EXPECT_TRUE(future.is_ready());
  told.wait(0);
  EXPECT_EQ(told, 1);
}

TEST(ConformanceTest, BytesMayChangeOnceTheCallReturns) {
  HostArray array = constant(1 << 17, 7);
  const Buffer on_device = conformance_client().to_device(array, first_device(),
                                                          HostUse::kDuringCall);
  for (float& x : array.data<float>()) x = 8;
  EXPECT_THAT(on_device.to_host().data<float>(), Each(7.0F));
}

TEST(ConformanceTest, PermutesOnAllDevices) {
  check_ring(conformance_client().compile(ring_program(device_count()),
                                          on_devices(device_count())));
}

TEST(ConformanceTest, HonoursTheDeviceAssignment) {
  CompileOptions options = on_devices(device_count());
  std::vector<int> ids;
  for (const Device& device : conformance_client().addressable_devices()) {
    ids.insert(ids.begin(), device.id);
  }
  options.device_assignment.assign(ids.begin(), ids.end());
  const LoadedExecutable executable =
      conformance_client().compile(ring_program(device_count()), options);
  EXPECT_THAT(executable.addressable_device_ids(), ElementsAreArray(ids));
  check_ring(executable);
}

TEST(ConformanceTest, DonatedArgumentsAreConsumedOthersAreNot) {
  const LoadedExecutable keeping = conformance_client().compile(kDouble, {});
  const LoadedExecutable donating = conformance_client().compile(kDonating, {});
  EXPECT_EQ(donating.executable().memory_stats().aliased, 16);
  const Buffer in =
      conformance_client().to_device(constant(4, 1), first_device());
  const std::vector<std::vector<Buffer>> arguments = {{in}};
  keeping.execute(arguments);
  ExecuteOptions keep;
  keep.non_donatable = {0};
  donating.execute(arguments, keep);
  EXPECT_FALSE(in.is_deleted());
  EXPECT_THAT(in.to_host().data<float>(), Each(1.0F));
  const ExecuteResult out = donating.execute(arguments);
  EXPECT_THAT(out.outputs[0][0].to_host().data<float>(), Each(2.0F));
  EXPECT_TRUE(in.is_deleted());
  EXPECT_THROW(in.to_host(), Error);
}

TEST(ConformanceTest, ErasedBuffersAreGone) {
  const Buffer in =
      conformance_client().to_device(constant(4, 1), first_device());
  EXPECT_GE(in.on_device_bytes(), 16);
  in.erase();
  EXPECT_TRUE(in.is_deleted());
}

TEST(ConformanceTest, SerializedExecutablesRunAgain) {
  const std::string bytes =
      conformance_client()
          .compile(ring_program(device_count()), on_devices(device_count()))
          .executable()
          .serialize();
  check_ring(conformance_client().deserialize(bytes));
}

TEST(ConformanceTest, TellsTheMemoryAndTheResultsOfAProgram) {
  const Executable executable =
      conformance_client().compile(kDouble, {}).executable();
  EXPECT_EQ(executable.memory_stats().arguments, 16);
  EXPECT_EQ(executable.memory_stats().outputs, 16);
  EXPECT_THAT(executable.output_shapes(),
              ::testing::ElementsAre(Shape(DType::kF32, {4})));
}

TEST(ConformanceTest, CompileErrorsCarryTheCompilersText) {
  try {
    conformance_client().compile("module { func.func @main() { oops } }", {});
    FAIL() << "nonsense compiled";
  } catch (const Error& error) {
    EXPECT_THAT(error.message(), HasSubstr("PJRT_Client_Compile"));
    EXPECT_THAT(error.message(), HasSubstr("oops"));
  }
}

TEST(ConformanceTest, UnknownOverridesAreRefusedSoOursAreKnown) {
  CompileOptions options;
  options.overrides["xla_no_such_flag_at_all"] = true;
  EXPECT_THROW(conformance_client().compile(kDouble, options), Error);
}

}  // namespace
}  // namespace ringmax::pjrt
