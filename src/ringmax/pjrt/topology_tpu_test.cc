// libtpu as a compiler for machines that are not here.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ringmax/base/error.h"
#include "ringmax/hw/target.h"
#include "ringmax/pjrt/device_grid.h"
#include "ringmax/pjrt/plugin.h"
#include "ringmax/pjrt/topology.h"

namespace ringmax::pjrt {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const Topology& v5p() {
  static const auto* topology =
      new Topology(Topology::create(load_tpu_compiler(), "v5p:2x2x2"));
  return *topology;
}

// Sums a vector that is spread over eight devices, and passes it on.
constexpr char kProgram[] = R"(
module @tiny {
  sdy.mesh @mesh = <["context"=8]>
  func.func public @main(
      %x: tensor<4096xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"context"}]>, tf.aliasing_output = 0 : i32})
      -> (tensor<4096xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"context"}]>}, tensor<bf16>) {
    %0 = sdy.manual_computation(%x)
        in_shardings=[<@mesh, [{"context"}]>]
        out_shardings=[<@mesh, [{"context"}]>]
        manual_axes={"context"} (%a: tensor<512xf32>) {
      %b = "stablehlo.collective_permute"(%a) {
          channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>,
          source_target_pairs = dense<[[0,1],[1,2],[2,3],[3,4],[4,5],[5,6],[6,7],[7,0]]> : tensor<8x2xi64>}
          : (tensor<512xf32>) -> tensor<512xf32>
      sdy.return %b : tensor<512xf32>
    } : (tensor<4096xf32>) -> tensor<4096xf32>
    %z = stablehlo.constant dense<0.0> : tensor<f32>
    %s = stablehlo.reduce(%0 init: %z) applies stablehlo.add across dimensions = [0]
        : (tensor<4096xf32>, tensor<f32>) -> tensor<f32>
    %r = stablehlo.convert %s : (tensor<f32>) -> tensor<bf16>
    return %0, %r : tensor<4096xf32>, tensor<bf16>
  }
})";

CompileOptions on_eight() {
  CompileOptions options;
  options.num_partitions = 8;
  return options;
}

TEST(TopologyTest, DescribesDevicesThatAreNotHere) {
  const std::vector<DeviceDescription> devices = v5p().devices();
  ASSERT_EQ(devices.size(), 8u);
  EXPECT_EQ(devices[0].kind, "TPU v5");
  EXPECT_EQ(devices[7].id, 7);
  EXPECT_EQ(devices[3].process_index, 0);
  EXPECT_EQ(devices[4].process_index, 1);
  EXPECT_EQ(
      std::get<std::vector<std::int64_t>>(devices[5].attributes.at("coords")),
      (std::vector<std::int64_t>{1, 0, 1}));
}

TEST(TopologyTest, EveryKnownSliceHasTheDevicesThatTheTableSays) {
  for (const char* name : {"v4-8", "v5p-16", "v5e-16", "v6e-8", "tpu7x-8"}) {
    const hw::Target target = hw::tpu_target(name);
    const Topology topology =
        Topology::create(load_tpu_compiler(), target.topology_name);
    const auto grid = device_grid(topology.devices(), topology.attributes());
    ASSERT_TRUE(grid.has_value()) << name;
    EXPECT_EQ(grid->topology, target.topology) << name;
    EXPECT_EQ(static_cast<std::int64_t>(grid->ids.size()), target.devices());
  }
}

TEST(TopologyTest, CompilesForThemAndTellsAboutTheProgram) {
  const Executable executable = v5p().compile(kProgram, on_eight());
  EXPECT_EQ(executable.num_partitions(), 8);
  EXPECT_EQ(executable.num_replicas(), 1);
  EXPECT_EQ(executable.num_outputs(), 2);
  EXPECT_THAT(executable.output_shapes(),
              ElementsAre(Shape(DType::kF32, {512}), Shape(DType::kBF16, {})));
  const MemoryStats memory = executable.memory_stats();
  EXPECT_EQ(memory.arguments, 512 * 4);
  EXPECT_EQ(memory.aliased, 512 * 4);
  EXPECT_GT(memory.peak, 0);
  EXPECT_GT(std::get<float>(executable.cost_analysis().at("flops")), 0);
  EXPECT_FALSE(executable.fingerprint().empty());
  EXPECT_FALSE(executable.serialize().empty());
  const CompiledProgram program = executable.optimized_program();
  EXPECT_EQ(program.format, "hlo_with_config");
  EXPECT_THAT(program.code, HasSubstr("collective-permute-start"));
}

TEST(TopologyTest, OverridesReachTheCompilerAndUnknownOnesAreRefused) {
  CompileOptions options = on_eight();
  options.overrides["xla_tpu_use_aggressive_scheduling"] = true;
  v5p().compile(kProgram, options);
  options.overrides["xla_tpu_no_such_flag"] = true;
  EXPECT_THROW(v5p().compile(kProgram, options), Error);
}

TEST(TopologyTest, AProgramThatDoesNotFitIsTheMachinesLimit) {
  constexpr char kHuge[] = R"(
module @huge {
  func.func public @main(%x: tensor<400000x400000xf32>) -> tensor<400000x400000xf32> {
    %0 = stablehlo.add %x, %x : tensor<400000x400000xf32>
    return %0 : tensor<400000x400000xf32>
  }
})";
  try {
    v5p().compile(kHuge, {});
    FAIL() << "640 GB fit into 96 GB";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kResourceExhausted);
    EXPECT_THAT(error.message(), HasSubstr("PJRT_Compile"));
    EXPECT_THAT(error.message(), HasSubstr("E1000"));
  }
}

TEST(TopologyTest, UnknownNamesCarryTheCallAndThePluginsText) {
  try {
    Topology::create(load_tpu_compiler(), "v5p-8");
    FAIL() << "libtpu knows no v5p-8";
  } catch (const Error& error) {
    EXPECT_THAT(error.message(), HasSubstr("PJRT_TopologyDescription_Create"));
    EXPECT_THAT(error.message(), HasSubstr("v5p-8"));
  }
}

}  // namespace
}  // namespace ringmax::pjrt
