#include "ringmax/analysis/plan_picture.h"

#include <gtest/gtest.h>

namespace ringmax::analysis {
namespace {

TEST(PlanPicture, WritesNumbersForPeople) {
  EXPECT_EQ(short_count(0), "0");
  EXPECT_EQ(short_count(34), "34");
  EXPECT_EQ(short_count(999), "999");
  EXPECT_EQ(short_count(1000), "1.00 k");
  EXPECT_EQ(short_count(33.554e6), "33.6 M");
  EXPECT_EQ(short_count(999.6e6), "1.00 G");
  EXPECT_EQ(short_count(268e6), "268 M");
}

}  // namespace
}  // namespace ringmax::analysis
