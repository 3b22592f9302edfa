#include <gtest/gtest.h>

#include <string>

#include "ringmax/base/philox.h"
#include "ringmax/graph/parallel.h"
#include "ringmax/mesh/axis_rules.h"
#include "ringmax/model/philox.h"
#include "ringmax/testing/run_graph.h"

namespace ringmax::model {
namespace {

struct Stream {
  std::uint64_t seed, stream;
};
// Both halves of both numbers at work.
constexpr Stream kStreams[] = {
    {0, 0}, {1, 3}, {0xfedcba9876543210u, 0x123456789abcdefu}};
const Dims kDims = {4, 6, 8};

void expect_like_host(const mesh::Mesh& mesh, const mesh::PartitionSpec& spec) {
  graph::Graph g(mesh);
  for (const Stream& s : kStreams) {
    for (const graph::Value& w : philox_words(g, kDims, s.seed, s.stream)) {
      g.result("words", graph::constrain(w, spec), spec);
    }
    g.result(
        "normal",
        graph::constrain(approx_normal(g, kDims, s.seed, s.stream, 1), spec),
        spec);
  }
  const std::vector<HostArray> out = testing::run_graph(g, {});
  for (std::size_t s = 0; s < std::size(kStreams); ++s) {
    SCOPED_TRACE(s);
    const auto n = static_cast<std::uint64_t>(element_count(kDims));
    for (std::uint64_t i = 0; i < n; ++i) {
      const PhiloxBlock block =
          random_block(kStreams[s].seed, kStreams[s].stream, i);
      for (std::size_t w = 0; w < 4; ++w) {
        ASSERT_EQ(out[5 * s + w].data<std::uint32_t>()[i], block[w])
            << "word " << w << " of element " << i;
      }
      ASSERT_EQ(out[5 * s + 4].data<float>()[i],
                ringmax::approx_normal(kStreams[s].seed, kStreams[s].stream, i))
          << "element " << i;
    }
  }
}

TEST(PhiloxGraph, EqualsTheHostBitForBit) {
  expect_like_host(mesh::make_mesh({}), {});
}

TEST(PhiloxGraph, EqualsTheHostOnEightDevices) {
  expect_like_host(
      mesh::make_mesh({{"data", 2}, {"context", 2}, {"tensor", 2}}),
      mesh::PartitionSpec{{"data"}, {"context"}, {"tensor"}});
}

}  // namespace
}  // namespace ringmax::model
