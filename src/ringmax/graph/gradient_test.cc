#include "ringmax/graph/gradient.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "ringmax/base/testing/message_of.h"
#include "ringmax/graph/backward.h"
#include "ringmax/graph/ops.h"

namespace ringmax::graph {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(Gradient, EveryOpHasARuleOrIsDeclaredWithout) {
  for (int i = 0; i < static_cast<int>(Op::kCount); ++i) {
    const Op op = static_cast<Op>(i);
    EXPECT_EQ(rule_for(op) != nullptr, op_info(op).differentiable)
        << op_name(op);
  }
}

TEST(Gradient, RefusesAnOpWithoutARuleByNameAndScope) {
  Graph g;
  const Value x = g.parameter("x", Shape(DType::kF32, {2}));
  Value y;
  {
    const Scope outer(g, "decoder");
    const Scope inner(g, "rounding");
    y = floor(x);
  }
  const Value loss = reduce_sum(y, {0});
  EXPECT_THAT(message_of([&] { gradient(loss, {x}); }),
              AllOf(HasSubstr("floor"), HasSubstr("decoder/rounding")));
}

TEST(Gradient, RefusesAWhileLoop) {
  Graph g;
  const Value x = g.parameter("x", Shape(DType::kF32, {}));
  const Value y = while_loop(
      g, {x}, [](const Values& v) { return less(v[0], full_like(v[0], 9)); },
      [](const Values& v) { return Values{v[0] * 2.0}; })[0];
  EXPECT_THAT(message_of([&] { gradient(y, {x}); }), HasSubstr("while"));
}

TEST(Gradient, PassesAnOpWithoutARuleThatCarriesNoDerivative) {
  Graph g;
  const Value x = g.parameter("x", Shape(DType::kF32, {2}));
  const Value loss = reduce_sum(x * floor(stop_gradient(x)), {0});
  EXPECT_NO_THROW(gradient(loss, {x}));
}

TEST(Gradient, RefusesWhatIsNoFloatScalar) {
  Graph g;
  const Value x = g.parameter("x", Shape(DType::kF32, {2}));
  const Value i = g.parameter("i", Shape(DType::kI32, {}));
  EXPECT_THAT(message_of([&] { gradient(x, {x}); }), HasSubstr("f32[2]"));
  EXPECT_THAT(message_of([&] { gradient(i, {x}); }), HasSubstr("i32[]"));
  EXPECT_THAT(message_of([&] { gradient(reduce_sum(x, {0}), {i}); }),
              HasSubstr("i32[]"));
}

TEST(Gradient, IsZeroWhereTheLossDoesNotDepend) {
  Graph g;
  const Value x = g.parameter("x", Shape(DType::kF32, {2}));
  const Value y = g.parameter("y", Shape(DType::kF32, {3}));
  const Value d = gradient(reduce_sum(x, {0}), {y})[0];
  EXPECT_EQ(d.shape(), y.shape());
  EXPECT_EQ(g.node(d).op, Op::kConstant);
  EXPECT_EQ(g.node(d).attr<ConstantAttr>().number, 0);
}

}  // namespace
}  // namespace ringmax::graph
