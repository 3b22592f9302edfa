#include "ringmax/train/schedule.h"

#include <gtest/gtest.h>

namespace ringmax::train {
namespace {

TrainOptions options() {
  TrainOptions o;
  o.steps = 100;
  o.learning_rate = 1;
  o.warmup_steps_fraction = 0.1;
  o.learning_rate_final_fraction = 0.1;
  return o;
}

TEST(Schedule, WarmsUpPeaksAndEndsAtTheFinalFraction) {
  EXPECT_DOUBLE_EQ(learning_rate_at(0, options()), 0.1);
  EXPECT_DOUBLE_EQ(learning_rate_at(9, options()), 1);
  EXPECT_DOUBLE_EQ(learning_rate_at(10, options()), 1);
  EXPECT_NEAR(learning_rate_at(55, options()), 0.55, 1e-12);
  EXPECT_NEAR(learning_rate_at(100, options()), 0.1, 1e-12);
  EXPECT_NEAR(learning_rate_at(5000, options()), 0.1, 1e-12);
}

TEST(Schedule, FallsAfterThePeakAndWorksWithoutWarmUp) {
  TrainOptions o = options();
  for (std::int64_t s = 10; s < 100; ++s) {
    EXPECT_GE(learning_rate_at(s, o), learning_rate_at(s + 1, o));
  }
  o.warmup_steps_fraction = 0;
  EXPECT_DOUBLE_EQ(learning_rate_at(0, o), 1);
  o.steps = 1;
  EXPECT_DOUBLE_EQ(learning_rate_at(0, o), 1);
}

}  // namespace
}  // namespace ringmax::train
