#include "ringmax/model/decoder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ringmax/base/error.h"
#include "ringmax/mesh/axis_rules.h"

namespace ringmax::model {
namespace {

ModelOptions llama8b() {
  ModelOptions o;
  o.base_emb_dim = 4096;
  o.base_mlp_dim = 14336;
  return o;
}

std::int64_t pieces(const ModelOptions& o, std::int64_t length,
                    std::initializer_list<mesh::MeshAxis> axes) {
  return mlp_pieces(o, mesh::make_mesh(axes), {1, length, o.base_emb_dim});
}

TEST(MlpPieces, KeepAnActivationOfADeviceAt128MiB) {
  const ModelOptions o = llama8b();
  EXPECT_EQ(pieces(o, 4096, {}), 1);                   // 117 MB
  EXPECT_EQ(pieces(o, 65536, {{"context", 8}}), 2);    // 235 MB
  EXPECT_EQ(pieces(o, 65536, {{"context", 16}}), 1);   // 117 MB
  EXPECT_EQ(pieces(o, 131072, {{"context", 8}}), 4);   // 470 MB
  EXPECT_EQ(pieces(o, 1 << 20, {{"context", 8}}), 8);  // and not more
  EXPECT_EQ(pieces(o, 65536, {{"context", 4}, {"tensor", 2}}), 2);
}

TEST(MlpPieces, AreWholeRegistersAndNoneWhereAllIsKept) {
  ModelOptions o = llama8b();
  o.base_mlp_dim = 128 * 101;
  EXPECT_EQ(pieces(o, 1 << 20, {{"context", 8}}), 1);
  o = llama8b();
  o.remat_policy = RematPolicy::kNone;
  EXPECT_EQ(pieces(o, 1 << 20, {{"context", 8}}), 1);
}

TEST(MlpPieces, AreTakenAsGivenIfTheyDivide) {
  ModelOptions o = llama8b();
  o.num_mlp_tiling = 7;
  EXPECT_EQ(pieces(o, 64, {}), 7);
  o.num_mlp_tiling = 5;
  try {
    pieces(o, 64, {});
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.message(), ::testing::HasSubstr("num_mlp_tiling=5"));
    EXPECT_THAT(error.message(), ::testing::HasSubstr("14336"));
  }
}

}  // namespace
}  // namespace ringmax::model
