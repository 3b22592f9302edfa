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
using testing::kF32;
using testing::kPred;
using testing::ModuleBuilder;
using testing::shape;

constexpr std::int64_t kBody = 1;
constexpr std::int64_t kCondition = 2;
constexpr std::int64_t kMain = 3;

// A loop, with a send in it or without, and after it a sum over devices of what
// the loop made, or of what was there before.
std::vector<std::string> of_program(const std::string& in_loop,
                                    bool sum_of_loop) {
  const ProtoWriter scalar = shape(kF32, {});
  ModuleBuilder m;
  m.begin(kBody, "body");
  const std::int64_t state = m.add("parameter", scalar);
  m.end(m.add(in_loop, scalar, {state}));
  m.begin(kCondition, "condition");
  m.add("parameter", scalar);
  m.end(m.add("constant", shape(kPred, {})));
  m.begin(kMain, "main");
  const std::int64_t x = m.add("parameter", scalar);
  const std::int64_t first = m.add("all-gather", scalar, {x});
  const std::int64_t loop = m.add("while", scalar, {first}, [](ProtoWriter& i) {
    i.packed(38, std::vector<std::int64_t>{kBody, kCondition});
  });
  const std::int64_t y = m.add("negate", scalar, {sum_of_loop ? loop : x});
  m.end(m.add("all-reduce", scalar, {y}));
  return overtaking_collectives(decode_hlo(m.finish()));
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
