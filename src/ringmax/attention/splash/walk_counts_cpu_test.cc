// What is counted on the host is what the program's own list says.
#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "ringmax/attention/splash/block_list.h"
#include "ringmax/attention/splash/kernel_math.h"
#include "ringmax/attention/splash/walk_counts.h"
#include "ringmax/graph/ops.h"
#include "ringmax/testing/run_graph.h"

namespace ringmax::attention::splash {
namespace {

namespace g = ringmax::graph;
using Positions = std::vector<std::int64_t>;

g::Value constant_of(g::Graph& graph, const Positions& x, std::int64_t size) {
  HostArray array(Shape(DType::kI32, {size}));
  for (std::int64_t i = 0; i < size; ++i) {
    const auto at = static_cast<std::size_t>(i);
    array.data<std::int32_t>()[at] =
        at < x.size() ? static_cast<std::int32_t>(x[at]) : -1;
  }
  return g::constant(graph, array);
}

WalkCounts of_entries(const HostArray& entries, std::int64_t length,
                      const KernelSpec& s) {
  WalkCounts counts;
  for (std::int64_t i = 0; i < length; ++i) {
    const auto packed =
        entries.data<std::int32_t>()[static_cast<std::size_t>(i)];
    ++counts.steps;
    counts.rows += (packed & kFirstBit) != 0 ? 1 : 0;
    for (std::int64_t p = 0; p < s.window_parts; ++p) {
      switch (static_cast<TileKind>((packed >> (p * kPartBits)) & 3)) {
        case TileKind::kNone:
          break;
        case TileKind::kFull:
          ++counts.full;
          break;
        case TileKind::kPartial:
          ++counts.partial;
          break;
        case TileKind::kTriangular:
          ++counts.triangular;
          break;
      }
    }
  }
  return counts;
}

Positions shard(const Layout& layout, std::int64_t index) {
  Positions positions;
  for (std::int64_t slot = 0; slot < layout.shard_tokens(); ++slot) {
    const std::int64_t x = layout.position(index, slot);
    positions.push_back(x < layout.tokens() ? x : -1);
  }
  return positions;
}

TEST(WalkCountsCpuTest, TheHostCountsTheProgramsList) {
  const Mask masks[] = {Mask::full(),
                        Mask::causal(),
                        Mask::causal(-1),
                        Mask::local(300, 0),
                        Mask::local(700, 0) & Mask::causal(-128),
                        Mask::chunked(512) | Mask::local(3, 3)};
  g::Graph graph;
  std::vector<WalkCounts> counted;
  std::vector<KernelSpec> specs;
  for (const Mask& mask : masks) {
    for (const LayoutKind kind :
         {LayoutKind::kContiguous, LayoutKind::kZigzag, LayoutKind::kStriped}) {
      const Layout layout(kind, 4000, 4);
      for (const std::int64_t shift : {0, 1, 3}) {
        const Positions q = shard(layout, 1);
        const Positions kv = shard(layout, (1 - shift + 4) % 4);
        KernelSpec s;
        s.block_q = 256;
        s.block_kv = shift == 1 ? 128 : 256;
        s.window_parts = 2;
        s.queries = s.keys = 1024;
        SlotData slots;
        slots.rows = row_intervals(mask, constant_of(graph, q, s.queries));
        slots.kv_positions_T = constant_of(graph, kv, s.keys);
        const BlockList list =
            block_list(slots, s.block_q, s.block_kv, s.window_parts, 1);
        const std::string name = std::to_string(counted.size());
        graph.result("entries" + name, list.works);
        graph.result("length" + name, list.length);
        counted.push_back(count_walk(s, mask, q, kv));
        specs.push_back(s);
      }
    }
  }
  const std::vector<HostArray> results = ringmax::testing::run_graph(graph, {});
  WalkCounts all;
  for (std::size_t i = 0; i < counted.size(); ++i) {
    SCOPED_TRACE(i);
    const WalkCounts listed = of_entries(
        results[2 * i], results[2 * i + 1].data<std::int32_t>()[0], specs[i]);
    EXPECT_EQ(counted[i].rows, listed.rows);
    EXPECT_EQ(counted[i].steps, listed.steps);
    EXPECT_EQ(counted[i].full, listed.full);
    EXPECT_EQ(counted[i].partial, listed.partial);
    EXPECT_EQ(counted[i].triangular, listed.triangular);
    all.add(counted[i], 1);
  }
  // Every kind was met.
  EXPECT_GT(all.full, 0);
  EXPECT_GT(all.partial, 0);
  EXPECT_GT(all.triangular, 0);
}

}  // namespace
}  // namespace ringmax::attention::splash
