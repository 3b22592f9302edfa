// What any plugin must do for RingMax to train on it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <xla/ffi/api/ffi.h>

#include <filesystem>
#include <fstream>

#include "ringmax/base/error.h"
#include "ringmax/base/testing/temp_dir.h"
#include "ringmax/pjrt/client.h"
#include "ringmax/pjrt/executable_cache.h"
#include "ringmax/pjrt/ffi.h"
#include "ringmax/testing/run_graph.h"

namespace ringmax::pjrt {
namespace {

using ringmax::testing::cpu_client;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;

constexpr char kDouble[] = R"(
module @double {
  func.func public @main(%a: tensor<4xf32>) -> tensor<4xf32> {
    %0 = stablehlo.add %a, %a : tensor<4xf32>
    return %0 : tensor<4xf32>
  }
})";

constexpr char kDonating[] = R"(
module @donating {
  func.func public @main(%a: tensor<4xf32> {tf.aliasing_output = 0 : i32})
      -> tensor<4xf32> {
    %0 = stablehlo.add %a, %a : tensor<4xf32>
    return %0 : tensor<4xf32>
  }
})";

constexpr char kRing[] = R"(
module @ring {
  sdy.mesh @mesh = <["context"=8]>
  func.func public @main(
      %x: tensor<16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"context"}]>})
      -> (tensor<16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"context"}]>}) {
    %0 = sdy.manual_computation(%x)
        in_shardings=[<@mesh, [{"context"}]>]
        out_shardings=[<@mesh, [{"context"}]>]
        manual_axes={"context"} (%a: tensor<2xf32>) {
      %b = "stablehlo.collective_permute"(%a) {
          channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>,
          source_target_pairs = dense<[[0,1],[1,2],[2,3],[3,4],[4,5],[5,6],[6,7],[7,0]]> : tensor<8x2xi64>}
          : (tensor<2xf32>) -> tensor<2xf32>
      sdy.return %b : tensor<2xf32>
    } : (tensor<16xf32>) -> tensor<16xf32>
    return %0 : tensor<16xf32>
  }
})";

constexpr char kKernel[] = R"(
module @kernel {
  func.func public @main(%a: tensor<4xf32>) -> tensor<4xf32> {
    %0 = stablehlo.custom_call @ringmax_test_scale(%a) {api_version = 4 : i32,
        backend_config = {scale = 3.0 : f32}} : (tensor<4xf32>) -> tensor<4xf32>
    return %0 : tensor<4xf32>
  }
})";

HostArray constant(std::int64_t size, float value) {
  HostArray array(Shape(DType::kF32, {size}));
  for (float& x : array.data<float>()) x = value;
  return array;
}

HostArray run_one(const Executable& executable, float value) {
  const Buffer in = cpu_client().to_device(constant(4, value), 0);
  return executable.execute({{&in}})[0][0].to_host();
}

CompileOptions on_devices(std::int64_t devices) {
  CompileOptions options;
  options.num_partitions = devices;
  return options;
}

// The ring once; device i (in the order of the lists) sends the value i.
std::vector<HostArray> run_ring(const Executable& executable) {
  const std::vector<std::int64_t> ids = executable.device_ids();
  std::vector<Buffer> in;
  std::vector<std::vector<const Buffer*>> lists;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    in.push_back(cpu_client().to_device(constant(2, static_cast<float>(i)),
                                        static_cast<std::size_t>(ids[i])));
  }
  for (const Buffer& buffer : in) lists.push_back({&buffer});
  std::vector<HostArray> out;
  for (const auto& list : executable.execute(lists)) {
    out.push_back(list[0].to_host());
  }
  return out;
}

TEST(ConformanceTest, RunsOnOneDevice) {
  const Executable executable = cpu_client().compile(kDouble, {});
  EXPECT_EQ(executable.output_count(), 1u);
  EXPECT_THAT(run_one(executable, 3).data<float>(), Each(6.0F));
}

TEST(ConformanceTest, HostSeesRowMajorValuesOfEveryRank) {
  for (const Dims& dims : {Dims{}, Dims{5}, Dims{2, 3}, Dims{2, 3, 4}}) {
    HostArray array(Shape(DType::kF32, dims));
    float next = 0;
    for (float& x : array.data<float>()) x = next++;
    const HostArray back = cpu_client().to_device(array, 0).to_host();
    EXPECT_EQ(back.shape(), array.shape());
    EXPECT_THAT(back.data<float>(), ElementsAreArray(array.data<float>()));
  }
}

TEST(ConformanceTest, ListsOfUnlikeLengthNeverReachThePlugin) {
  const Executable executable = cpu_client().compile(kDouble, {});
  const Buffer empty;
  EXPECT_THROW(executable.execute({{&empty}}), Error);
  EXPECT_THROW(executable.execute({{}, {nullptr}}), Error);
}

TEST(ConformanceTest, PermutesOnEightDevices) {
  const std::vector<HostArray> out =
      run_ring(cpu_client().compile(kRing, on_devices(8)));
  ASSERT_EQ(out.size(), 8u);
  for (std::size_t i = 0; i < 8; ++i) {
    EXPECT_THAT(out[i].data<float>(), Each(static_cast<float>((i + 7) % 8)));
  }
}

TEST(ConformanceTest, HonoursTheDeviceAssignment) {
  CompileOptions options = on_devices(8);
  options.device_assignment = {7, 6, 5, 4, 3, 2, 1, 0};
  const Executable executable = cpu_client().compile(kRing, options);
  EXPECT_THAT(executable.device_ids(), ElementsAre(7, 6, 5, 4, 3, 2, 1, 0));
  const std::vector<HostArray> out = run_ring(executable);
  for (std::size_t i = 0; i < 8; ++i) {
    EXPECT_THAT(out[i].data<float>(), Each(static_cast<float>((i + 7) % 8)));
  }
}

TEST(ConformanceTest, DonatedArgumentsAreConsumedOthersAreNot) {
  const Executable keeping = cpu_client().compile(kDouble, {});
  const Executable donating = cpu_client().compile(kDonating, {});
  EXPECT_EQ(donating.memory_stats().aliased, 16);
  const Buffer in = cpu_client().to_device(constant(4, 1), 0);
  keeping.execute({{&in}});
  EXPECT_THAT(in.to_host().data<float>(), Each(1.0F));
  const auto out = donating.execute({{&in}});
  EXPECT_THAT(out[0][0].to_host().data<float>(), Each(2.0F));
  EXPECT_THROW(in.to_host(), Error);
}

TEST(ConformanceTest, SerializedExecutablesRunAgain) {
  const std::string bytes =
      cpu_client().compile(kRing, on_devices(8)).serialize();
  const std::vector<HostArray> out = run_ring(cpu_client().deserialize(bytes));
  EXPECT_THAT(out[0].data<float>(), Each(7.0F));
}

TEST(ConformanceTest, TellsTheMemoryOfAProgram) {
  const MemoryStats stats = cpu_client().compile(kDouble, {}).memory_stats();
  EXPECT_EQ(stats.arguments, 16);
  EXPECT_EQ(stats.outputs, 16);
}

TEST(ConformanceTest, CompileErrorsCarryTheCompilersText) {
  try {
    cpu_client().compile("module { func.func @main() { oops } }", {});
    FAIL() << "nonsense compiled";
  } catch (const Error& error) {
    EXPECT_THAT(error.message(), HasSubstr("PJRT_Client_Compile"));
    EXPECT_THAT(error.message(), HasSubstr("oops"));
  }
}

TEST(ConformanceTest, UnknownOverridesAreRefusedSoOursAreKnown) {
  CompileOptions options;
  options.overrides["xla_cpu_no_such_flag"] = true;
  EXPECT_THROW(cpu_client().compile(kDouble, options), Error);
}

TEST(ConformanceTest, KnowsTheFlagsOfCollectiveTimeouts) {
  CompileOptions options = on_devices(8);
  set_cpu_collective_timeouts(options, 12.5);
  EXPECT_THAT(run_ring(cpu_client().compile(kRing, options))[1].data<float>(),
              Each(0.0F));
}

TEST(ConformanceTest, KnowsTheFlagOfEigenDots) {
  CompileOptions options;
  options.overrides["xla_cpu_experimental_ynn_fusion_type"] = std::string();
  EXPECT_THAT(run_one(cpu_client().compile(kDouble, options), 1).data<float>(),
              Each(2.0F));
}

xla::ffi::Error scale_by(xla::ffi::Buffer<xla::ffi::F32> x,
                         xla::ffi::ResultBuffer<xla::ffi::F32> y, float scale) {
  for (std::size_t i = 0; i < x.element_count(); ++i) {
    y->typed_data()[i] = x.typed_data()[i] * scale;
  }
  return xla::ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(RingmaxTestScale, scale_by,
                              xla::ffi::Ffi::Bind()
                                  .Arg<xla::ffi::Buffer<xla::ffi::F32>>()
                                  .Ret<xla::ffi::Buffer<xla::ffi::F32>>()
                                  .Attr<float>("scale"));

TEST(ConformanceTest, CallsRegisteredKernels) {
  register_ffi_handler(cpu_client().plugin(), "ringmax_test_scale",
                       reinterpret_cast<void*>(RingmaxTestScale));
  EXPECT_THAT(run_one(cpu_client().compile(kKernel, {}), 2).data<float>(),
              Each(6.0F));
}

TEST(ExecutableCacheTest, ADamagedFileIsCompiledAgainAndReplaced) {
  const TempDir dir;
  const ExecutableCache cache(dir.path());
  EXPECT_FALSE(cache.load_or_compile(cpu_client(), kDouble, {}).from_cache);
  EXPECT_TRUE(cache.load_or_compile(cpu_client(), kDouble, {}).from_cache);
  const std::string path = cache.path_for(cpu_client(), kDouble, {});
  const auto size = std::filesystem::file_size(path);
  // Cut short, then one byte changed.
  std::filesystem::resize_file(path, size / 2);
  EXPECT_FALSE(cache.load_or_compile(cpu_client(), kDouble, {}).from_cache);
  {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(static_cast<std::streamoff>(size / 2));
    const auto byte = static_cast<char>(file.get() ^ 1);
    file.seekp(static_cast<std::streamoff>(size / 2));
    file.put(byte);
  }
  EXPECT_FALSE(cache.load_or_compile(cpu_client(), kDouble, {}).from_cache);
  const auto loaded = cache.load_or_compile(cpu_client(), kDouble, {});
  EXPECT_TRUE(loaded.from_cache);
  EXPECT_THAT(run_one(loaded.executable, 4).data<float>(), Each(8.0F));
}

TEST(ExecutableCacheTest, OptionsAndProgramsHaveFilesOfTheirOwn) {
  const TempDir dir;
  const ExecutableCache cache(dir.path());
  CompileOptions options;
  options.overrides["xla_cpu_experimental_ynn_fusion_type"] = std::string();
  const std::string path = cache.path_for(cpu_client(), kDouble, {});
  EXPECT_NE(path, cache.path_for(cpu_client(), kDouble, options));
  EXPECT_NE(path, cache.path_for(cpu_client(), kDonating, {}));
}

TEST(ExecutableCacheTest, AFolderThatCannotBeMadeMeansNoCache) {
  const TempDir dir;
  std::ofstream(dir.path() + "/file") << "in the way";
  const ExecutableCache cache(dir.path() + "/file/below");
  EXPECT_FALSE(cache.load_or_compile(cpu_client(), kDouble, {}).from_cache);
  EXPECT_FALSE(cache.load_or_compile(cpu_client(), kDouble, {}).from_cache);
}

}  // namespace
}  // namespace ringmax::pjrt
