#include "ringmax/analysis/collective_order.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "ringmax/analysis/testing/hlo_builder.h"

namespace ringmax::analysis {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<std::string> of_program(const std::string& in_loop,
                                    bool sum_of_loop) {
  return overtaking_collectives(
      decode_hlo(testing::loop_then_sum(in_loop, sum_of_loop)));
}

TEST(CollectiveOrder, WhatNeedsNothingOfALoopMayOvertakeIt) {
  EXPECT_THAT(of_program("collective-permute", false),
              ElementsAre("all-reduce.9 may overtake while.7"));
}

TEST(CollectiveOrder, WhatNeedsALoopComesAfterIt) {
  EXPECT_THAT(of_program("collective-permute", true), IsEmpty());
}

TEST(CollectiveOrder, LoopsWithoutCollectivesDoNotMatter) {
  EXPECT_THAT(of_program("negate", false), IsEmpty());
}

}  // namespace
}  // namespace ringmax::analysis
