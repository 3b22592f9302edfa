#include "ringmax/base/shape.h"

#include <gtest/gtest.h>

#include "ringmax/base/error.h"

namespace ringmax {
namespace {

TEST(Shape, CountsElementsAndBytes) {
  const Shape shape(DType::kBF16, {2, 3, 4});
  EXPECT_EQ(shape.elements(), 24);
  EXPECT_EQ(shape.bytes(), 48);
  EXPECT_EQ(shape.to_string(), "bf16[2,3,4]");
  EXPECT_EQ(Shape(DType::kF32, {}).elements(), 1);
}

TEST(Shape, RefusesOverflowAndNegativeSizes) {
  EXPECT_THROW(element_count({std::int64_t{1} << 40, std::int64_t{1} << 40}),
               Error);
  EXPECT_THROW(element_count({-1}), Error);
}

}  // namespace
}  // namespace ringmax
