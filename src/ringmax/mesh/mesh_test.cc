#include "ringmax/mesh/mesh.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "ringmax/base/error.h"

namespace ringmax::mesh {
namespace {

TEST(Mesh, CoordinatesAreRowMajorAndInvertible) {
  const Mesh mesh({{"data", 2}, {"context", 3}, {"tensor", 4}});
  ASSERT_EQ(mesh.device_count(), 24);
  for (std::int64_t device = 0; device < 24; ++device) {
    const auto c = mesh.coordinates(device);
    EXPECT_EQ((c[0] * 3 + c[1]) * 4 + c[2], device);
    EXPECT_EQ(mesh.coordinate(device, "context"), c[1]);
    EXPECT_EQ(mesh.coordinate(device, "absent"), 0);
  }
  EXPECT_THROW(mesh.coordinates(24), Error);
  EXPECT_THROW(mesh.coordinates(-1), Error);
}

TEST(Mesh, RefusesBadAxes) {
  EXPECT_THROW(Mesh({{"data", 0}}), Error);
  EXPECT_THROW(Mesh({{"data", 2}, {"data", 2}}), Error);
}

TEST(ShardDims, RefusesWhatDoesNotFit) {
  const Mesh mesh({{"a", 2}, {"b", 3}});
  EXPECT_THROW(shard_dims({5}, PartitionSpec{{"a"}}, mesh), Error);
  EXPECT_THROW(shard_dims({6}, PartitionSpec{{"c"}}, mesh), Error);
  EXPECT_THROW(shard_dims({6, 6}, PartitionSpec{{"a"}, {"a"}}, mesh), Error);
  EXPECT_THROW(shard_dims({6}, PartitionSpec{{"a"}, {"b"}}, mesh), Error);
  EXPECT_EQ(shard_dims({6, 5}, PartitionSpec{{"a", "b"}}, mesh), (Dims{1, 5}));
}

// The shards of a tensor tile it: every element lies in the shards of
// device_count / shards devices, and equal coordinates hold equal shards.
TEST(ShardIndex, ShardsTileTheTensor) {
  const Mesh mesh({{"a", 2}, {"b", 3}, {"c", 2}});
  const Dims global = {12, 6};
  for (const PartitionSpec& spec :
       {PartitionSpec(), PartitionSpec{{"a"}, {"b"}},
        PartitionSpec{{"b", "a"}, {"c"}}, PartitionSpec{{}, {"c", "b"}},
        PartitionSpec{{"c", "b", "a"}}}) {
    std::map<std::pair<std::int64_t, std::int64_t>, int> holders;
    std::set<Dims> starts;
    for (std::int64_t device = 0; device < mesh.device_count(); ++device) {
      const ShardIndex index = shard_index(global, spec, mesh, device);
      EXPECT_EQ(index.size, shard_dims(global, spec, mesh));
      starts.insert(index.start);
      for (std::int64_t i = 0; i < index.size[0]; ++i) {
        for (std::int64_t j = 0; j < index.size[1]; ++j) {
          ++holders[{index.start[0] + i, index.start[1] + j}];
        }
      }
    }
    ASSERT_EQ(static_cast<std::int64_t>(holders.size()), element_count(global))
        << spec.to_string();
    const int replicas =
        static_cast<int>(mesh.device_count()) / static_cast<int>(starts.size());
    for (const auto& [where, count] : holders) EXPECT_EQ(count, replicas);
  }
}

// The first axis of a list is the major one, as sdy and MaxText have it.
TEST(ShardIndex, FirstAxisIsMajor) {
  const Mesh mesh({{"a", 2}, {"b", 3}});
  const PartitionSpec spec{{"b", "a"}};
  for (std::int64_t device = 0; device < 6; ++device) {
    EXPECT_EQ(shard_index({6}, spec, mesh, device).start[0],
              mesh.coordinate(device, "b") * 2 + mesh.coordinate(device, "a"));
  }
}

TEST(EvenSpec, KeepsTheAxesThatDivide) {
  const Mesh mesh({{"fsdp", 2}, {"context", 3}, {"context_usp_ulysses", 4}});
  const PartitionSpec spec{{"fsdp", "context", "context_usp_ulysses"}, {}};
  const auto kept = [&](std::int64_t size) {
    return even_spec({size, 5}, spec, mesh);
  };
  EXPECT_EQ(kept(48), spec);
  EXPECT_EQ(kept(128), (PartitionSpec{{"fsdp", "context_usp_ulysses"}, {}}));
  EXPECT_EQ(kept(9), (PartitionSpec{{"context"}, {}}));
  EXPECT_EQ(kept(7), (PartitionSpec{{}, {}}));
}

}  // namespace
}  // namespace ringmax::mesh
