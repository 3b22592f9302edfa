// Arrays and programs of a process that owns half of the devices.
#include "ringmax/train/device_array.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ringmax/base/error.h"
#include "ringmax/graph/ops.h"
#include "ringmax/mesh/axis_rules.h"
#include "ringmax/pjrt/testing/mock_plugin.h"
#include "ringmax/train/program.h"

namespace ringmax::train {
namespace {

using mesh::PartitionSpec;
using pjrt::testing::mock_log;
using pjrt::testing::reset_mock;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

HostArray counting(Dims dims) {
  HostArray array(Shape(DType::kF32, std::move(dims)));
  float next = 0;
  for (float& x : array.data<float>()) x = next++;
  return array;
}

// Process 1 of 2: devices 4 to 7 of 8.
class HalfOfTheDevicesTest : public ::testing::Test {
 protected:
  HalfOfTheDevicesTest()
      : client_([] {
          reset_mock();
          return pjrt::Client::create(pjrt::testing::mock_plugin());
        }()) {}

  PlacementPtr place(std::vector<std::int64_t> ids = {}) const {
    return std::make_shared<const Placement>(client_, mesh_, std::move(ids));
  }

  mesh::Mesh mesh_ = mesh::make_mesh({{"data", 2}, {"context", 4}});
  pjrt::Client client_;
};

TEST_F(HalfOfTheDevicesTest, UploadMakesOurShardsOnly) {
  const PlacementPtr placement = place();
  EXPECT_THAT(placement->local(), ElementsAre(4, 5, 6, 7));
  std::vector<std::int64_t> asked;
  const DeviceArray array = make_array(
      placement, Shape(DType::kF32, {2, 8}), {{"data"}, {"context"}},
      [&](const mesh::ShardIndex& box) {
        asked.push_back(box.start[1]);
        EXPECT_EQ(box.start[0], 1);  // the other row is the other process's
        return HostArray(Shape(DType::kF32, box.size));
      });
  EXPECT_THAT(asked, ElementsAre(0, 2, 4, 6));
  EXPECT_EQ(array.shards.size(), 4u);
  EXPECT_THAT(mock_log().uploaded_to, ElementsAre(4, 5, 6, 7));
}

TEST_F(HalfOfTheDevicesTest, AShardOfTheWrongSizeIsRefused) {
  EXPECT_THROW(make_array(place(), Shape(DType::kF32, {8}), {{"context"}},
                          [](const mesh::ShardIndex&) {
                            return HostArray(Shape(DType::kF32, {3}));
                          }),
               Error);
}

TEST_F(HalfOfTheDevicesTest, ShardsAreReadOncePerBoxAndTheWholeOnlyIfItIsHere) {
  const HostArray rows = counting({2, 8});
  const DeviceArray array = upload(place(), rows, {{"data"}, {"context"}});
  std::vector<float> seen;
  read_shards(array, Replica::kFirst,
              [&](const mesh::ShardIndex& box, const HostArray& shard) {
                EXPECT_EQ(box.size, (Dims{1, 2}));
                for (const float x : shard.data<float>()) seen.push_back(x);
              });
  EXPECT_THAT(seen, ElementsAre(8, 9, 10, 11, 12, 13, 14, 15));
  EXPECT_THAT(mock_log().read_from, ElementsAre(4, 5, 6, 7));
  try {
    download(array);
    FAIL() << "half an array passed for a whole one";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kFailedPrecondition);
    EXPECT_THAT(error.message(), HasSubstr("8 of the 16 elements"));
  }
}

// Both processes hold all of it; the other one's devices come first.
TEST_F(HalfOfTheDevicesTest, OnlyOneReplicaIsWrittenAndAnyIsRead) {
  const HostArray row = counting({8});
  const DeviceArray array = upload(place(), row, {{"context"}});
  read_shards(array, Replica::kFirst,
              [](const mesh::ShardIndex&, const HostArray&) {
                FAIL() << "process 0 writes these";
              });
  EXPECT_TRUE(mock_log().read_from.empty());
  const HostArray back = download(array);
  EXPECT_THAT(back.data<float>(),
              ::testing::ElementsAreArray(row.data<float>()));

  const DeviceArray whole = upload(place(), row, PartitionSpec());
  mock_log().read_from.clear();
  download(whole);
  EXPECT_THAT(mock_log().read_from, ElementsAre(4));
}

TEST_F(HalfOfTheDevicesTest, AProgramTakesAndGivesOurShards) {
  graph::Graph g(mesh_);
  const graph::Value x = g.parameter("x", Shape(DType::kF32, {2, 8}),
                                     PartitionSpec{{"data"}, {"context"}});
  g.result("x", x, PartitionSpec{{"data"}, {"context"}});
  const PlacementPtr placement = place();
  const Program program(g, client_.compile("module {}", {}), placement);
  const DeviceArray array =
      upload(placement, counting({2, 8}), {{"data"}, {"context"}});
  const std::vector<DeviceArray> results = program.run({&array});
  ASSERT_EQ(results.size(), 1u);
  EXPECT_EQ(results[0].shards.size(), 4u);
  mock_log().read_from.clear();
  std::size_t shards = 0;
  read_shards(results[0], Replica::kFirst,
              [&](const mesh::ShardIndex& box, const HostArray& shard) {
                ++shards;
                EXPECT_EQ(shard.data<float>()[0],
                          static_cast<float>(8 + box.start[1]));
              });
  EXPECT_EQ(shards, 4u);
  EXPECT_THAT(mock_log().read_from, ElementsAre(4, 5, 6, 7));
}

TEST_F(HalfOfTheDevicesTest, AnotherOrderOfDevicesMovesTheShardsAlong) {
  // The mesh's first row is ours.
  const PlacementPtr placement = place({7, 6, 5, 4, 3, 2, 1, 0});
  EXPECT_THAT(placement->local(), ElementsAre(0, 1, 2, 3));
  graph::Graph g(mesh_);
  const graph::Value x =
      g.parameter("x", Shape(DType::kF32, {8}), PartitionSpec{{"context"}});
  g.result("x", x, PartitionSpec{{"context"}});
  const HostArray row = counting({8});
  const DeviceArray array = upload(placement, row, {{"context"}});
  EXPECT_THAT(mock_log().uploaded_to, ElementsAre(7, 6, 5, 4));
  // The mock's program names its devices as 4, 5, 6, 7 all the same.
  const Program program(g, client_.compile("module {}", {}), placement);
  const HostArray back = download(program.run({&array})[0]);
  EXPECT_THAT(back.data<float>(),
              ::testing::ElementsAreArray(row.data<float>()));
}

TEST_F(HalfOfTheDevicesTest, PlacementsThatCannotBeAreRefused) {
  EXPECT_THROW(place({0, 1, 2}), Error);
  EXPECT_THROW(place({0, 0, 1, 2, 3, 4, 5, 6}), Error);
  EXPECT_THROW(place({0, 1, 2, 3, 4, 5, 6, 8}), Error);
}

}  // namespace
}  // namespace ringmax::train
