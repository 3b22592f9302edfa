#include "ringmax/attention/cost_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ringmax/base/error.h"
#include "ringmax/mesh/axis_rules.h"

namespace ringmax::attention {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

CostCase long_context() {
  CostCase c;
  c.layout = LayoutKind::kZigzag;
  c.queries = c.keys = 1 << 20;
  c.query_heads = 32;
  c.kv_heads = 8;
  c.devices = 64;
  c.blocks = {1024, 1024};
  return c;
}

TEST(CostModel, SaysWhyAStrategyIsRefused) {
  const hw::Target target = hw::tpu_target("v5p-16");
  CostCase c = long_context();
  c.devices = 8;
  c.query_heads = 12;
  c.kv_heads = 4;
  const StrategyChoice choice = choose_strategy(c, target);
  ASSERT_EQ(choice.estimates.size(), 5U);
  const std::string table = choice.to_string();
  EXPECT_THAT(table, HasSubstr("refused: 8 devices share the sequence"));
  EXPECT_THAT(table,
              HasSubstr("refused: 12 query heads cannot be spread over 8"));
  EXPECT_THAT(table, HasSubstr("refused: there is no axis for Ulysses groups"));
  c.query_heads = 24;
  c.kv_heads = 4;
  c.ulysses = 4;
  EXPECT_THAT(choose_strategy(c, target).to_string(),
              HasSubstr("used by usp only"));
  c.query_heads = 6;
  c.kv_heads = 6;
  EXPECT_THROW(choose_strategy(c, target), Error);
}

TEST(CostModel, OneDeviceIsSingle) {
  CostCase c = long_context();
  c.devices = 1;
  c.queries = c.keys = 4096;
  const StrategyChoice choice = choose_strategy(c, hw::cpu_target(1));
  EXPECT_EQ(choice.strategy, Strategy::kSingle);
  EXPECT_EQ(choice.chosen().sent_bytes, 0);
  EXPECT_THAT(choice.to_string(), HasSubstr("* single"));
}

// On eight chips a cube's Gray code makes neighbours of neighbours; a mesh of
// another size than the machine says nothing.
TEST(CostModel, KnowsTheLinksBetweenNeighbours) {
  const hw::Target target = hw::tpu_target("v5p-16");
  const auto links = [&](const mesh::Mesh& mesh) {
    return neighbour_links(target, mesh, "context");
  };
  EXPECT_EQ(links(mesh::make_mesh({{"context", 8}})), 1);
  EXPECT_EQ(links(mesh::make_mesh({{"data", 2}, {"context", 4}})), 1);
  EXPECT_EQ(links(mesh::make_mesh({{"context", 4}})), 1);
  EXPECT_EQ(neighbour_links(hw::cpu_target(8),
                            mesh::make_mesh({{"context", 8}}), "context"),
            1);
  // A row of an open grid has no way round: home is as far as its length.
  const hw::Target row = hw::tpu_target("v5e-8");
  const mesh::Mesh eight = mesh::make_mesh({{"data", 2}, {"context", 4}});
  const double open = neighbour_links(row, eight, "context");
  EXPECT_GE(open, 1);
  CostCase c = long_context();
  c.devices = 4;
  c.neighbour_links = 1;
  const double near = estimate_strategy(Strategy::kRing, c, row).transfer_s;
  c.neighbour_links = 3;
  const double far = estimate_strategy(Strategy::kRing, c, row).transfer_s;
  EXPECT_GT(far, 2.5 * near);
}

TEST(CostModel, CountsBytesAndBlocks) {
  CostCase c = long_context();
  c.mask = Mask::full();
  c.devices = 4;
  c.queries = c.keys = 4096;
  c.backward = false;
  const hw::Target target = hw::tpu_target("v5p-16");
  // 1,024 tokens, 8 heads of 128 + 128, 2 bytes: 4 MiB, three times.
  const StrategyEstimate ring = estimate_strategy(Strategy::kRing, c, target);
  EXPECT_EQ(ring.sent_bytes, 3 * (std::int64_t{4} << 20));
  EXPECT_EQ(estimate_strategy(Strategy::kAllGather, c, target).sent_bytes,
            ring.sent_bytes);
  // Four steps of one block of 1,024 x 1,024 and 32 heads, 512 FLOPs a pair.
  const double block_flops = 1024.0 * 1024 * 512 * 32;
  EXPECT_NEAR(ring.compute_s, 4 * block_flops / (0.6 * 459e12), 1e-4);
  // Both ways round: half the time on the links, the same bytes.
  c.bidirectional = true;
  const StrategyEstimate both = estimate_strategy(Strategy::kRing, c, target);
  EXPECT_EQ(both.sent_bytes, ring.sent_bytes);
  EXPECT_LT(both.transfer_s, 0.6 * ring.transfer_s);
}

TEST(CostModel, BalanceAndWindowsPay) {
  const hw::Target target = hw::tpu_target("v5p-128");
  CostCase c = long_context();
  const StrategyEstimate zigzag = estimate_strategy(Strategy::kRing, c, target);
  c.layout = LayoutKind::kContiguous;
  const StrategyEstimate contiguous =
      estimate_strategy(Strategy::kRing, c, target);
  // Without balance every step waits for a device with a full shard.
  EXPECT_GT(contiguous.total_s, 1.8 * zigzag.total_s);
  c.mask = Mask::causal() & Mask::local(4095, 0);
  const StrategyEstimate window = estimate_strategy(Strategy::kRing, c, target);
  EXPECT_LT(window.total_s, 0.05 * contiguous.total_s);
  EXPECT_LT(window.sent_bytes, contiguous.sent_bytes / 30);
}

TEST(CostModel, ARingHoldsWhatAGatherCannot) {
  const hw::Target target = hw::tpu_target("v5e-64");
  CostCase c = long_context();
  c.queries = c.keys = 1 << 23;
  c.query_heads = 4;  // too few for Ulysses over 64
  c.kv_heads = 4;
  c.blocks = {2048, 2048};
  const StrategyChoice choice = choose_strategy(c, target);
  EXPECT_EQ(choice.strategy, Strategy::kRing) << choice.to_string();
  EXPECT_THAT(choice.to_string(), HasSubstr("does not fit"));
}

TEST(CostModel, UlyssesGroupsLeaveUsp) {
  CostCase c = long_context();
  c.devices = 64;
  c.ulysses = 4;
  const StrategyChoice choice = choose_strategy(c, hw::tpu_target("v5p-128"));
  EXPECT_EQ(choice.strategy, Strategy::kUsp);
  EXPECT_THAT(choice.to_string(), Not(HasSubstr("does not fit")));
}

TEST(CostModel, RefusesNonsense) {
  CostCase c = long_context();
  c.ulysses = 3;
  EXPECT_THROW(choose_strategy(c, hw::cpu_target(1)), Error);
  c = long_context();
  c.kv_heads = 5;
  EXPECT_THROW(choose_strategy(c, hw::cpu_target(1)), Error);
  c = long_context();
  c.devices = 0;
  EXPECT_THROW(choose_blocks(c, hw::cpu_target(1)), Error);
}

TEST(CostModel, BlocksFitTheShardAndTheTarget) {
  CostCase c = long_context();
  const BlockSizes large = choose_blocks(c, hw::tpu_target("v5p-128"));
  EXPECT_GE(large.q, 512);
  EXPECT_GE(large.kv, 512);
  // A window of 256 is not worth blocks of 2,048.
  c.mask = Mask::local(255, 0);
  const BlockSizes window = choose_blocks(c, hw::tpu_target("v5p-128"));
  EXPECT_LT(window.q * window.kv, large.q * large.kv);
  c = long_context();
  c.queries = c.keys = 100;
  c.devices = 2;
  const BlockSizes small = choose_blocks(c, hw::tpu_target("v5p-128"));
  EXPECT_EQ(small.q, 128);
  EXPECT_EQ(small.kv, 128);
  // Logits of a CPU's block stay in its cache.
  const BlockSizes cpu = choose_blocks(long_context(), hw::cpu_target(8));
  EXPECT_LE(cpu.q * cpu.kv * 8, std::int64_t{1} << 20);
}

}  // namespace
}  // namespace ringmax::attention
