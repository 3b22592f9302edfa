// Holds both lowerings of small kernels to known results, and the twin to the
// hazards that it models.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "ringmax/graph/graph.h"
#include "ringmax/kernel/call.h"
#include "ringmax/kernel/testing/mosaic_interpreter.h"
#include "ringmax/kernel/testing/small_kernels.h"
#include "ringmax/testing/run_graph.h"

namespace ringmax::kernel {
namespace {

using testing::MosaicProgram;
using testing::sum_of_blocks;

std::vector<HostArray> operands(std::int32_t length,
                                const std::vector<std::int32_t>& order) {
  HostArray x(Shape(DType::kF32, {4, 8, 128}));
  for (std::size_t i = 0; i < x.data<float>().size(); ++i) {
    const std::size_t row = i / (8 * 128);
    x.data<float>()[i] = std::pow(10.0f, static_cast<float>(row));
  }
  return {HostArray::from<std::int32_t>({}, std::vector{length}),
          HostArray::from<std::int32_t>(
              {static_cast<std::int64_t>(order.size())}, order),
          x};
}

HostArray run_twin(const Kernel& kernel, const std::vector<HostArray>& arrays) {
  graph::Graph g;
  graph::Values values;
  for (const HostArray& array : arrays) {
    values.push_back(
        g.parameter("p" + std::to_string(values.size()), array.shape()));
  }
  g.result("y", call(kernel, Lowering::kTwin, values)[0]);
  return ringmax::testing::run_graph(g, arrays)[0];
}

// The first number of each of the four blocks.
std::vector<float> firsts(const HostArray& y) {
  std::vector<float> values;
  for (std::size_t block = 0; block < 4; ++block) {
    values.push_back(y.data<float>()[block * 8 * 128]);
  }
  return values;
}

TEST(Kernel, BothLoweringsWalkRowsOfBlocks) {
  const auto arrays = operands(4, {0, 2, 11, 13, 99});
  const std::vector<float> wanted = {202, 2020, 202, 2020};
  const auto kernel = sum_of_blocks(4, 2);
  EXPECT_EQ(firsts(run_twin(*kernel, arrays)), wanted);
  EXPECT_EQ(firsts(MosaicProgram(*kernel).run(arrays)[0]), wanted);
}

TEST(Kernel, AChangeOfTheObjectChangesBothLowerings) {
  const auto arrays = operands(4, {0, 2, 11, 13, 99});
  const std::vector<float> wanted = {303, 3030, 303, 3030};
  const auto kernel = sum_of_blocks(4, 3);
  EXPECT_EQ(firsts(run_twin(*kernel, arrays)), wanted);
  EXPECT_EQ(firsts(MosaicProgram(*kernel).run(arrays)[0]), wanted);
}

TEST(Kernel, UnvisitedBlocksAreGarbage) {
  const auto kernel = sum_of_blocks(4, 1);
  for (const std::int32_t length : {0, 2}) {
    const auto arrays = operands(length, {0, 2, 99, 13, 99});
    for (const HostArray& y :
         {run_twin(*kernel, arrays), MosaicProgram(*kernel).run(arrays)[0]}) {
      const std::vector<float> values = firsts(y);
      for (const std::size_t program : {0, 2}) {
        if (length == 0) {
          EXPECT_TRUE(std::isnan(values[program]));
        } else {
          EXPECT_EQ(values[program], 101);
        }
        EXPECT_TRUE(std::isnan(values[program + 1]));
      }
    }
  }
}

TEST(Kernel, RevisitingABlockIsAnError) {
  const auto kernel = sum_of_blocks(3, 1);
  const auto arrays = operands(3, {0, 11, 2, 99});
  for (const float value : firsts(run_twin(*kernel, arrays))) {
    EXPECT_TRUE(std::isnan(value));
  }
  EXPECT_ANY_THROW(MosaicProgram(*kernel).run(arrays));
}

TEST(Kernel, AWindowOutsideOfItsArrayIsAnError) {
  const auto kernel = sum_of_blocks(2, 1);
  const auto arrays = operands(2, {0, 4, 99});
  for (const float value : firsts(run_twin(*kernel, arrays))) {
    EXPECT_TRUE(std::isnan(value));
  }
  EXPECT_ANY_THROW(MosaicProgram(*kernel).run(arrays));
}

}  // namespace
}  // namespace ringmax::kernel
