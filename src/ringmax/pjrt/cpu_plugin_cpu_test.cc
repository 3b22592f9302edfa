// What set-up's CPU plugin does beyond the conformance test: its compiler
// options, native kernels, and the cache of compiled programs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <xla/ffi/api/ffi.h>

#include <filesystem>
#include <fstream>

#include "ringmax/base/error.h"
#include "ringmax/base/file.h"
#include "ringmax/base/sha256.h"
#include "ringmax/base/testing/temp_dir.h"
#include "ringmax/pjrt/client.h"
#include "ringmax/pjrt/executable_cache.h"
#include "ringmax/pjrt/ffi.h"
#include "ringmax/pjrt/testing/programs.h"
#include "ringmax/pjrt/topology.h"
#include "ringmax/testing/run_graph.h"

namespace ringmax::pjrt {
namespace {

using ringmax::testing::cpu_client;
using ::testing::Each;
using ::testing::HasSubstr;
using testing::kDonating;
using testing::kDouble;

constexpr char kKernel[] = R"(
module @kernel {
  func.func public @main(%a: tensor<4xf32>) -> tensor<4xf32> {
    %0 = stablehlo.custom_call @ringmax_test_scale(%a) {api_version = 4 : i32,
        backend_config = {scale = 3.0 : f32}} : (tensor<4xf32>) -> tensor<4xf32>
    return %0 : tensor<4xf32>
  }
})";

HostArray run_one(const LoadedExecutable& executable, float value) {
  HostArray array(Shape(DType::kF32, {4}));
  for (float& x : array.data<float>()) x = value;
  const Buffer in = cpu_client().to_device(array, 0);
  return executable.execute(std::vector<std::vector<Buffer>>{{in}})
      .outputs[0][0]
      .to_host();
}

TEST(CpuPluginTest, HasEightVirtualDevicesOfOneProcess) {
  EXPECT_EQ(cpu_client().platform_name(), "cpu");
  ASSERT_EQ(cpu_client().devices().size(), 8u);
  ASSERT_EQ(cpu_client().addressable_devices().size(), 8u);
  EXPECT_EQ(cpu_client().devices()[7].id, 7);
}

TEST(CpuPluginTest, WhatItLacksIsNamed) {
  const LoadedExecutable loaded = cpu_client().compile(kDouble, {});
  try {
    loaded.executable().cost_analysis();
    FAIL() << "it has a cost analysis now";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUnimplemented);
    EXPECT_THAT(error.message(), HasSubstr("PJRT_Executable_GetCostAnalysis"));
  }
}

TEST(CpuPluginTest, KnowsTheFlagOfEigenDots) {
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

TEST(CpuPluginTest, CallsRegisteredKernels) {
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

TEST(ExecutableCacheTest, AProgramThatWasFoundHasStoodItsCheck) {
  const TempDir dir;
  const ExecutableCache cache(dir.path());
  // What was kept unchecked, as by an older version, is not taken for checked.
  cache.load_or_compile(cpu_client(), kDouble, {});
  int checks = 0;
  const ProgramCheck refuses = {"order", [&](const Executable&) {
                                  ++checks;
                                  fail_invalid("refused");
                                }};
  for (int i = 0; i < 2; ++i) {
    EXPECT_THROW(cache.load_or_compile(cpu_client(), kDouble, {}, refuses),
                 Error);
  }
  EXPECT_EQ(checks, 2);
  const ProgramCheck passes = {"order", [&](const Executable&) { ++checks; }};
  for (const bool found : {false, true}) {
    EXPECT_EQ(
        cache.load_or_compile(cpu_client(), kDouble, {}, passes).from_cache,
        found);
  }
  EXPECT_EQ(checks, 3);
}

TEST(ExecutableCacheTest, AFolderThatCannotBeMadeMeansNoCache) {
  const TempDir dir;
  std::ofstream(dir.path() + "/file") << "in the way";
  const ExecutableCache cache(dir.path() + "/file/below");
  EXPECT_FALSE(cache.load_or_compile(cpu_client(), kDouble, {}).from_cache);
  EXPECT_FALSE(cache.load_or_compile(cpu_client(), kDouble, {}).from_cache);
}

TEST(ExecutableCacheTest, ThePluginIsHashedOnceAndAgainWhenItChanges) {
  const TempDir dir;
  const ExecutableCache cache(dir.path());
  const std::string path = cache.path_for(cpu_client(), kDouble, {});
  std::string note;
  for (const auto& entry : std::filesystem::directory_iterator(dir.path())) {
    if (entry.path().extension() == ".sha256") note = entry.path().string();
  }
  ASSERT_FALSE(note.empty());
  // What stands in the note is believed as long as the file looks the same.
  std::string text = read_file(note);
  text.back() = text.back() == '0' ? '1' : '0';
  atomic_write(note, text);
  EXPECT_NE(cache.path_for(cpu_client(), kDouble, {}), path);
  // A note about another file is not.
  text[text.size() - 66] ^= 1;
  atomic_write(note, text);
  EXPECT_EQ(cache.path_for(cpu_client(), kDouble, {}), path);
}

TEST(ExecutableCacheTest, OldProgramsGoOtherFilesStay) {
  const TempDir dir;
  std::ofstream(dir.path() + "/notes.executable") << "the user's";
  for (int i = 0; i < 80; ++i) {
    const std::string name =
        dir.path() + "/" + sha256(std::to_string(i)).substr(0, 32);
    std::ofstream(name + ".executable") << "old";
  }
  ExecutableCache(dir.path()).load_or_compile(cpu_client(), kDouble, {});
  std::size_t programs = 0;
  for (const auto& entry : std::filesystem::directory_iterator(dir.path())) {
    programs += entry.path().extension() == ".executable" ? 1 : 0;
  }
  EXPECT_EQ(programs, 64u + 1);
  EXPECT_TRUE(std::filesystem::exists(dir.path() + "/notes.executable"));
}

}  // namespace
}  // namespace ringmax::pjrt
