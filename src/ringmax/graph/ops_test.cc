// Shapes, dtypes and refusals of the builders, and what a Graph shares,
// captures and refuses.
#include "ringmax/graph/ops.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <utility>

#include "ringmax/base/error.h"
#include "ringmax/base/testing/message_of.h"
#include "ringmax/graph/control.h"

namespace ringmax::graph {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class Ops : public ::testing::Test {
 protected:
  Value f32(Dims dims) {
    return g.parameter("p", Shape(DType::kF32, std::move(dims)));
  }
  Value of(DType dtype, Dims dims) {
    return g.parameter("p", Shape(dtype, std::move(dims)));
  }
  // The message names both shapes.
  void expect_names(const std::function<void()>& f, const char* a,
                    const char* b) {
    EXPECT_THAT(message_of(f), AllOf(HasSubstr(a), HasSubstr(b)));
  }
  Graph g;
};

std::string shape_of(Value v) { return v.shape().to_string(); }

TEST_F(Ops, ElementwiseKeepsTheShape) {
  const Value x = f32({2, 3});
  EXPECT_EQ(shape_of(x + x), "f32[2,3]");
  EXPECT_EQ(shape_of(2.0 / x), "f32[2,3]");
  EXPECT_EQ(shape_of(exp(x)), "f32[2,3]");
  EXPECT_EQ(shape_of(less(x, x)), Shape(DType::kBool, {2, 3}).to_string());
  EXPECT_EQ(shape_of(is_finite(x)), Shape(DType::kBool, {2, 3}).to_string());
  EXPECT_EQ(shape_of(convert(x, DType::kBF16)), "bf16[2,3]");
  EXPECT_EQ(shape_of(select(less(x, x), x, x)), "f32[2,3]");
}

TEST_F(Ops, ElementwiseRefusesOtherShapesAndDtypes) {
  const Value a = f32({2, 3});
  const Value b = f32({3, 2});
  const Value c = of(DType::kBF16, {2, 3});
  for (Value (*op)(Value, Value) : {add, subtract, multiply, divide, maximum,
                                    minimum, power, remainder, equal, less}) {
    expect_names([&] { op(a, b); }, "f32[2,3]", "f32[3,2]");
    expect_names([&] { op(a, c); }, "f32[2,3]", "bf16[2,3]");
  }
  expect_names([&] { select(less(a, a), b, b); }, "[2,3]", "f32[3,2]");
  expect_names([&] { select(a, a, a); }, "f32[2,3]", "must be bool");
  const Value i = of(DType::kI32, {4});
  EXPECT_THAT(message_of([&] { exp(i); }), HasSubstr("i32[4]"));
  EXPECT_THAT(message_of([&] { logical_not(a); }), HasSubstr("f32[2,3]"));
}

TEST_F(Ops, DotGeneralOrdersItsDims) {
  DotAttr attr;
  attr.lhs_batch = {2};
  attr.rhs_batch = {0};
  attr.lhs_contract = {0};
  attr.rhs_contract = {2};
  const Value y = dot_general(f32({5, 3, 2}), f32({2, 7, 5}), attr);
  EXPECT_EQ(shape_of(y), "f32[2,3,7]");
  EXPECT_EQ(shape_of(einsum("bse,ehd->bshd", f32({2, 3, 4}), f32({4, 5, 6}))),
            "f32[2,3,5,6]");
  EXPECT_EQ(shape_of(einsum("ab,bc->ca", of(DType::kBF16, {2, 3}),
                            of(DType::kBF16, {3, 4}), DType::kF32)),
            "f32[4,2]");
}

TEST_F(Ops, ContractionsRefuseWhatDoesNotFit) {
  const Value a = f32({2, 3});
  const Value b = f32({4, 5});
  DotAttr attr;
  attr.lhs_contract = {1};
  attr.rhs_contract = {0};
  expect_names([&] { dot_general(a, b, attr); }, "f32[2,3]", "f32[4,5]");
  expect_names([&] { einsum("ab,bc->ac", a, b); }, "f32[2,3]", "f32[4,5]");
  expect_names([&] { einsum("abc,bc->ac", a, b); }, "f32[2,3]", "f32[4,5]");
  expect_names(
      [&] {
        einsum("ab,bc->ac", a, of(DType::kF64, {3, 4}));
      },
      "f32[2,3]", "f64[3,4]");
  EXPECT_THAT(message_of([&] { einsum("ab,bc", a, b); }), HasSubstr("'ab,bc'"));
  EXPECT_THAT(message_of([&] { einsum("ab,cd->abz", a, b); }),
              HasSubstr("'z'"));
  EXPECT_THAT(message_of([&] { einsum("ab,cd->ac", a, b); }),
              HasSubstr("one operand only"));
  attr.lhs_contract = {2};
  EXPECT_THAT(message_of([&] { dot_general(a, b, attr); }),
              HasSubstr("dimension 2"));
}

TEST_F(Ops, ReductionsAndShapes) {
  const Value x = f32({2, 3, 4});
  EXPECT_EQ(shape_of(reduce_sum(x, {2, 0})), "f32[3]");
  EXPECT_TRUE(same_value(reduce_max(x, {}), x));
  EXPECT_EQ(shape_of(reshape(x, {6, 4})), "f32[6,4]");
  EXPECT_TRUE(same_value(reshape(x, {2, 3, 4}), x));
  EXPECT_EQ(shape_of(transpose(x, {2, 0, 1})), "f32[4,2,3]");
  EXPECT_TRUE(same_value(transpose(x, {0, 1, 2}), x));
  EXPECT_EQ(shape_of(broadcast_to(f32({3, 1}), {2, 3, 4})), "f32[2,3,4]");
  EXPECT_EQ(shape_of(expand_dim(x, 3)), "f32[2,3,4,1]");
  EXPECT_EQ(shape_of(concatenate({x, x, x}, 1)), "f32[2,9,4]");
  EXPECT_EQ(shape_of(slice(x, {0, 1, 0}, {2, 3, 4}, {1, 2, 3})), "f32[2,1,2]");
  EXPECT_EQ(shape_of(pad(x, {1, 0, -1}, {0, 0, -1}, 0, {0, 2, 0})),
            "f32[3,7,2]");
  EXPECT_EQ(shape_of(take_rows(x, of(DType::kI32, {5, 6}))), "f32[5,6,3,4]");
}

TEST_F(Ops, ReductionsAndShapesRefuse) {
  const Value x = f32({2, 3});
  EXPECT_THAT(message_of([&] { reduce_sum(x, {2}); }),
              AllOf(HasSubstr("dimension 2"), HasSubstr("f32[2,3]")));
  EXPECT_THAT(message_of([&] { reduce_sum(x, {1, 1}); }), HasSubstr("twice"));
  EXPECT_THAT(message_of([&] { reduce(x, {0}, ReduceKind::kAnd); }),
              HasSubstr("f32[2,3]"));
  expect_names([&] { reshape(x, {4}); }, "f32[2,3]", "[4]");
  expect_names([&] { transpose(x, {1}); }, "f32[2,3]", "[1]");
  expect_names([&] { broadcast_to(x, {2, 4}); }, "f32[2,3]", "[2,4]");
  expect_names([&] { broadcast_to(x, {3}); }, "f32[2,3]", "[3]");
  expect_names(
      [&] {
        concatenate({x, f32({2, 3, 1})}, 0);
      },
      "f32[2,3]", "f32[2,3,1]");
  expect_names(
      [&] {
        concatenate({x, f32({2, 4})}, 0);
      },
      "f32[2,3]", "f32[2,4]");
  expect_names([&] { slice(x, {0, 2}, {2, 4}); }, "f32[2,3]", "[2,4]");
  expect_names([&] { slice(x, {0}, {2}); }, "f32[2,3]", "[2]");
  EXPECT_THAT(message_of([&] {
                slice(x, {0, 0}, {2, 3}, {1, 0});
              }),
              HasSubstr("f32[2,3]"));
  EXPECT_THAT(message_of([&] { pad(x, {0}, {0}, 0); }), HasSubstr("f32[2,3]"));
  EXPECT_THAT(message_of([&] {
                pad(x, {-3, 0}, {0, 0}, 0);
              }),
              HasSubstr("f32[2,3]"));
  expect_names([&] { take_rows(x, f32({2})); }, "f32[2,3]", "f32[2]");
  const Value rows = of(DType::kI32, {5});
  expect_names(
      [&] {
        scatter_add_rows(x, rows, f32({4, 3}));
      },
      "f32[2,3]", "f32[4,3]");
  const Value at = of(DType::kI32, {});
  EXPECT_THAT(message_of([&] {
                dynamic_slice(x, {at}, {1, 1});
              }),
              HasSubstr("f32[2,3]"));
  EXPECT_THAT(message_of([&] {
                dynamic_slice(x, {at, at}, {3, 1});
              }),
              HasSubstr("f32[2,3]"));
  expect_names(
      [&] {
        dynamic_update_slice(x, f32({3, 3}), {at, at});
      },
      "f32[2,3]", "f32[3,3]");
}

TEST_F(Ops, EqualNodesAreOne) {
  const Value a = f32({2});
  const Value b = f32({2});
  EXPECT_TRUE(same_value(a + b, a + b));
  EXPECT_FALSE(same_value(a + b, b + a));
  EXPECT_FALSE(same_value(a + 1.0, a + 2.0));
  EXPECT_TRUE(same_value(reduce_sum(a, {0}), reduce_sum(a, {0})));
  EXPECT_FALSE(same_value(reduce_sum(a, {0}), reduce_max(a, {0})));
  EXPECT_FALSE(same_value(less(a, b), greater(a, b)));
}

TEST_F(Ops, BarriersAreNotShared) {
  const Value a = f32({2});
  EXPECT_FALSE(
      same_value(optimization_barrier({a})[0], optimization_barrier({a})[0]));
}

TEST_F(Ops, ABlockCapturesAValueOnceAndRemakesConstants) {
  const Value a = f32({2});
  const Value two = full_like(a, 2);
  const BlockId block = g.open_block({});
  const Value y = a * two;
  const Value z = a + y;
  const std::vector<Value> captured = g.close_block({z});
  ASSERT_EQ(captured.size(), 1u);
  EXPECT_TRUE(same_value(captured[0], a));
  EXPECT_EQ(g.block(block).parameters.size(), 1u);
  for (const NodeId id : g.block(block).nodes) {
    for (const Value& v : g.node(id).operands) {
      EXPECT_EQ(g.node(v).block, block);
    }
  }
}

TEST_F(Ops, CapturesPassThroughEveryBlockOnTheWay) {
  const Value a = f32({2});
  const BlockId outer = g.open_block({});
  const BlockId inner = g.open_block({});
  const Value y = a + a;
  const std::vector<Value> inner_captured = g.close_block({y});
  ASSERT_EQ(inner_captured.size(), 1u);
  EXPECT_EQ(g.node(inner_captured[0]).block, outer);
  EXPECT_EQ(g.node(y).block, inner);
  const std::vector<Value> outer_captured = g.close_block({});
  ASSERT_EQ(outer_captured.size(), 1u);
  EXPECT_TRUE(same_value(outer_captured[0], a));
}

TEST_F(Ops, OutsideABlockNodesGoToItsParent) {
  const Value a = f32({2});
  const BlockId block = g.open_block({});
  Value made;
  {
    const OutsideBlock outside(g);
    made = a * a;
  }
  EXPECT_EQ(g.node(made).block, g.main_block());
  EXPECT_EQ(g.current_block(), block);
  EXPECT_EQ(g.node(made + made).block, block);
  EXPECT_EQ(g.close_block({}).size(), 1u);
}

TEST_F(Ops, RefusesValuesOfAnotherGraphAndOfAClosedBlock) {
  Graph other;
  const Value a = f32({2});
  const Value b = other.parameter("b", Shape(DType::kF32, {2}));
  EXPECT_THAT(message_of([&] { add(a, b); }), HasSubstr("another graph"));
  g.open_block({});
  const Value inside = a + a;
  g.close_block({inside});
  EXPECT_THAT(message_of([&] { exp(inside); }), HasSubstr("closed"));
}

TEST_F(Ops, ABodyThatThrowsLeavesNoBlockOpen) {
  const Value a = f32({2});
  ScanOptions options;
  options.length = 2;
  EXPECT_THROW(scan(g, {a}, {}, options,
                    [&](Value, const Values&, const Values&) -> ScanValues {
                      return {{f32({3})}, {}};
                    }),
               Error);
  EXPECT_EQ(g.current_block(), g.main_block());
  expect_names(
      [&] {
        scan(g, {a}, {}, options, [](Value, const Values& c, const Values&) {
          return ScanValues{{concatenate({c[0], c[0]}, 0)}, {}};
        });
      },
      "f32[4]", "f32[2]");
  EXPECT_EQ(g.current_block(), g.main_block());
}

TEST_F(Ops, DonationNeedsOneShapeAndSpec) {
  const Value a = g.parameter("state", Shape(DType::kF32, {2}));
  const Value b = g.parameter("other", Shape(DType::kF32, {3}));
  const std::int64_t r = g.result("next", a + a);
  expect_names([&] { g.donate(b, r); }, "other", "next");
  EXPECT_THAT(message_of([&] { g.donate(a + a, r); }),
              HasSubstr("not a parameter"));
  g.donate(a, r);
  EXPECT_EQ(g.parameters()[0].donated_to, r);
}

}  // namespace
}  // namespace ringmax::graph
