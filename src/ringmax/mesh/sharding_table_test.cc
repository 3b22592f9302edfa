#include "ringmax/mesh/sharding_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ringmax/base/error.h"
#include "ringmax/mesh/axis_rules.h"

namespace ringmax::mesh {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(ShardingTable, PrintsShapesShardingAndTotals) {
  const Mesh mesh = make_mesh({{"fsdp", 2}, {"context", 4}});
  const ShardedTensor tensors[] = {
      {"embedding", Shape(DType::kF32, {1024, 128}),
       logical_to_spec({"vocab", "embed"}, default_axis_rules(), mesh)},
      {"norm", Shape(DType::kF32, {128}), PartitionSpec()}};
  const ShardingTable table = make_sharding_table(tensors, mesh);
  EXPECT_EQ(table.total_bytes, 4 * (1024 * 128 + 128));
  EXPECT_EQ(table.total_device_bytes, 4 * (1024 * 16 + 128));
  EXPECT_EQ("\n" + table.to_string(), R"(
tensor     global shape   sharding           shape a device  bytes a device
embedding  f32[1024,128]  [-, fsdp+context]  [1024,16]             65.54 kB
norm       f32[128]       [-]                [128]                    512 B
total      524.80 kB      fsdp=2, context=4                        66.05 kB
)");
}

TEST(ShardingTable, NamesTheTensorThatDoesNotDivide) {
  const Mesh mesh = make_mesh({{"tensor", 4}});
  const ShardedTensor tensors[] = {
      {"wk", Shape(DType::kF32, {8, 2}), PartitionSpec{{}, {"tensor"}}}};
  EXPECT_THAT(
      [&] { make_sharding_table(tensors, mesh); },
      ThrowsMessage<Error>(AllOf(HasSubstr("tensor wk"), HasSubstr("size 2"))));
}

TEST(ShardingTable, IsEmptyButForTheTotalWithoutTensors) {
  const ShardingTable table = make_sharding_table({}, Mesh());
  EXPECT_EQ(table.total_device_bytes, 0);
  EXPECT_THAT(table.to_string(), HasSubstr("1 device"));
}

}  // namespace
}  // namespace ringmax::mesh
