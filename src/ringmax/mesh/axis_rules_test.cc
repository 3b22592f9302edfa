#include "ringmax/mesh/axis_rules.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ringmax/base/error.h"
#include "ringmax/mesh/options.h"

namespace ringmax::mesh {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

Mesh test_mesh(std::int64_t data, std::int64_t fsdp, std::int64_t context,
               std::int64_t tensor) {
  return make_mesh({{"data", data},
                    {"fsdp", fsdp},
                    {"context", context},
                    {"tensor", tensor}});
}

std::string spec(std::initializer_list<std::string_view> names,
                 const Mesh& mesh) {
  return logical_to_spec(names, default_axis_rules(), mesh).to_string();
}

TEST(MakeMesh, ListsEveryAxisInOrder) {
  const Mesh mesh = make_mesh({{"tensor", 2}, {"data", 3}});
  ASSERT_EQ(mesh.axes().size(), kAxes.size());
  for (std::size_t i = 0; i < mesh.axes().size(); ++i) {
    EXPECT_EQ(mesh.axes()[i].name, kAxes[i].axis);
  }
  EXPECT_EQ(mesh.to_string(), "data=3, tensor=2");
}

TEST(MakeMesh, FillsWhatIsLeftOver) {
  EXPECT_EQ(make_mesh({{"fsdp", -1}, {"context", 2}}, 8).size("fsdp"), 4);
  EXPECT_EQ(make_mesh({{"fsdp", -1}, {"context", 8}}, 8).size("fsdp"), 1);
  EXPECT_EQ(make_mesh({{"fsdp", -1}, {"context", 4}}).device_count(), 4);
}

TEST(MakeMesh, RefusesWithTheAxesAndTheProduct) {
  EXPECT_THAT(([] {
                make_mesh({{"context", 3}}, 8);
              }),
              ThrowsMessage<Error>(AllOf(HasSubstr("context=3"),
                                         HasSubstr("multiply to 3"),
                                         HasSubstr("8 devices"))));
  EXPECT_THAT(([] {
                make_mesh({{"fsdp", -1}, {"context", 3}}, 8);
              }),
              ThrowsMessage<Error>(AllOf(HasSubstr("fsdp"), HasSubstr("3"),
                                         HasSubstr("does not divide"))));
  EXPECT_THAT(([] {
                make_mesh({{"fsdp", -1}, {"data", -1}}, 8);
              }),
              ThrowsMessage<Error>(HasSubstr("only one axis")));
  EXPECT_THAT(([] {
                make_mesh({{"fsdpp", 2}}, 2);
              }),
              ThrowsMessage<Error>(HasSubstr("fsdpp")));
  EXPECT_THROW(make_mesh({{"data", 0}}), Error);
  EXPECT_THROW(make_mesh({{"data", -2}}), Error);
  EXPECT_THROW(make_mesh({{"data", 2}, {"data", 2}}), Error);
  EXPECT_THROW(make_mesh({}, -1), Error);
  const std::int64_t big = std::int64_t{1} << 40;
  EXPECT_THROW(make_mesh({{"data", big}, {"fsdp", big}}), Error);
}

TEST(LogicalToSpec, WeightsShardEmbedOverFsdpAndContext) {
  const Mesh mesh = test_mesh(1, 2, 4, 1);
  EXPECT_EQ(spec({"vocab", "embed"}, mesh), "[-, fsdp+context]");
  EXPECT_EQ(spec({"layers", "embed", "mlp"}, mesh), "[-, fsdp+context, -]");
  EXPECT_EQ(spec({"layers", "norm"}, mesh), "[-, -]");
  const Mesh all = test_mesh(2, 1, 2, 2);
  EXPECT_EQ(spec({"vocab", "embed"}, all), "[tensor, context]");
  EXPECT_EQ(spec({"layers", "embed", "q_heads", "kv"}, all),
            "[-, context, tensor, -]");
  EXPECT_EQ(spec({"layers", "kv_heads", "kv", "embed"}, all),
            "[-, tensor, -, context]");
}

TEST(LogicalToSpec, ActivationsShardBatchLengthAndHeads) {
  const Mesh mesh = test_mesh(2, 2, 2, 2);
  EXPECT_EQ(
      spec({"activation_batch", "activation_length", "activation_embed"}, mesh),
      "[data+fsdp, context, -]");
  EXPECT_EQ(spec({"activation_batch", "activation_length", "activation_heads",
                  "activation_kv"},
                 mesh),
            "[data+fsdp, context, tensor, -]");
  EXPECT_EQ(
      spec({"activation_batch", "activation_length", "activation_vocab"}, mesh),
      "[data+fsdp, context, tensor]");
  EXPECT_EQ(spec({"", "activation_length"}, mesh), "[-, context]");
}

TEST(LogicalToSpec, DropsAbsentAndTrivialAxes) {
  EXPECT_EQ(spec({"vocab", "embed"}, test_mesh(1, 1, 1, 1)), "[-, -]");
  EXPECT_EQ(spec({"vocab", "embed"}, Mesh({{"context", 4}})), "[-, context]");
  EXPECT_EQ(spec({}, test_mesh(2, 2, 2, 2)), "[]");
}

TEST(LogicalToSpec, AnAxisIsTakenOnceInTheOrderOfTheRules) {
  const Mesh mesh = test_mesh(1, 1, 2, 4);
  const AxisRules rules = {{"b", {"tensor"}},
                           {"a", {"tensor", "context"}},
                           {"a", {"context", "tensor"}}};
  EXPECT_EQ(logical_to_spec({"a", "b"}, rules, mesh).to_string(),
            "[context, tensor]");
  EXPECT_EQ(logical_to_spec({"a", "a"}, rules, mesh).to_string(),
            "[tensor+context, -]");
  // The specs that rules make are always accepted by shard_dims.
  EXPECT_EQ(shard_dims({8, 8}, logical_to_spec({"a", "a"}, rules, mesh), mesh),
            (Dims{1, 8}));
}

TEST(LogicalToSpec, RefusesUnknownNames) {
  EXPECT_THAT(([] { spec({"embedd"}, Mesh()); }),
              ThrowsMessage<Error>(
                  AllOf(HasSubstr("embedd"), HasSubstr("activation_batch"))));
}

// The figures every memory estimate rests on: parameters with AdamW state of
// an 8B model take an eighth on each of eight devices.
TEST(LogicalToSpec, EveryLargeWeightDividesByAllDevices) {
  for (const Mesh& mesh :
       {test_mesh(1, 1, 8, 1), test_mesh(1, 8, 1, 1), test_mesh(1, 2, 4, 1),
        test_mesh(1, 2, 2, 2), test_mesh(1, 1, 1, 8)}) {
    const Dims mlp = {32, 4096, 14336};
    EXPECT_EQ(
        element_count(shard_dims(mlp,
                                 logical_to_spec({"layers", "embed", "mlp"},
                                                 default_axis_rules(), mesh),
                                 mesh)) *
            mesh.device_count(),
        element_count(mlp))
        << mesh.to_string();
  }
}

}  // namespace
}  // namespace ringmax::mesh
