#include "ringmax/graph/dce.h"

#include <gtest/gtest.h>

#include "ringmax/graph/control.h"
#include "ringmax/graph/ops.h"
#include "ringmax/graph/parallel.h"

namespace ringmax::graph {
namespace {

const Shape kScalar(DType::kF32, {});
const Shape kVector(DType::kF32, {3});

Value effect(Graph& graph, Value x) {
  CustomCallAttr attr;
  attr.target = "shout";
  attr.has_side_effect = true;
  return custom_call(graph, {x}, {x.shape()}, attr)[0];
}

TEST(Liveness, DeadChainsAreDead) {
  Graph g;
  const Value x = g.parameter("x", kScalar);
  const Value dead = exp(x + 1.0);
  const Value live = x * 2.0;
  g.result("y", live);
  const Liveness l(g);
  EXPECT_FALSE(l.node(dead.node));
  EXPECT_FALSE(l.node(g.node(dead).operands[0].node));
  EXPECT_TRUE(l.node(live.node));
  EXPECT_TRUE(l.value(x));
}

TEST(Liveness, ScanKeepsWhatIsRead) {
  Graph g;
  const Value a = g.parameter("a", kScalar);
  const Value b = g.parameter("b", kScalar);
  const Value c = g.parameter("c", kScalar);
  const Value xs = g.parameter("xs", kVector);
  const Value ys = g.parameter("ys", kVector);
  const ScanValues out =
      scan(g, {a, b}, {xs, ys}, {.length = 3, .reverse = false, .remat = {}},
           [&](Value, const Values& carry, const Values& x) {
             return ScanValues{{carry[0] + x[0], carry[1] * c},
                               {carry[0] + x[1], x[0] * x[0]}};
           });
  g.result("stacked", out.stacked[1]);
  {
    const Liveness l(g);
    EXPECT_TRUE(l.value(xs));
    for (const Value& v :
         {a, b, c, ys, out.carry[0], out.carry[1], out.stacked[0]}) {
      EXPECT_FALSE(l.value(v)) << v.describe();
    }
  }
  // The first stacked result reads the first carry, which nobody else reads.
  g.result("other", out.stacked[0]);
  const Liveness l(g);
  EXPECT_TRUE(l.value(a));
  EXPECT_TRUE(l.value(ys));
  EXPECT_FALSE(l.value(b));
  EXPECT_FALSE(l.value(c));
}

TEST(Liveness, CarriesNeedEachOther) {
  Graph g;
  const Value a = g.parameter("a", kScalar);
  const Value b = g.parameter("b", kScalar);
  const ScanValues out =
      scan(g, {a, b}, {}, {.length = 3, .reverse = false, .remat = {}},
           [](Value, const Values& c, const Values&) {
             return ScanValues{{c[0] + c[1], c[1] * 2.0}, {}};
           });
  g.result("y", out.carry[0]);
  const Liveness l(g);
  EXPECT_TRUE(l.value(b));
}

TEST(Liveness, WhileConditionIsRead) {
  Graph g;
  const Value a = g.parameter("a", kScalar);
  const Value b = g.parameter("b", kScalar);
  const Value c = g.parameter("c", kScalar);
  const Values out = while_loop(
      g, {a, b, c}, [](const Values& v) { return less(v[0], v[0] + 1.0); },
      [](const Values& v) {
        return Values{v[0] + 1.0, v[1] * 2.0, v[2] + 3.0};
      });
  g.result("y", out[1]);
  const Liveness l(g);
  EXPECT_TRUE(l.value(a));
  EXPECT_TRUE(l.value(b));
  EXPECT_FALSE(l.value(c));
}

TEST(Liveness, CondDropsUnreadResults) {
  Graph g;
  const Value p = g.parameter("p", Shape(DType::kBool, {}));
  const Value x = g.parameter("x", kScalar);
  const Value y = g.parameter("y", kScalar);
  const Values out = cond(
      g, p,
      [&] {
        return Values{x + 1.0, y + 1.0};
      },
      [&] {
        return Values{x, y};
      });
  g.result("r", out[0]);
  const Liveness l(g);
  EXPECT_TRUE(l.value(p));
  EXPECT_TRUE(l.value(x));
  EXPECT_FALSE(l.value(y));
}

TEST(Liveness, SideEffectsKeepTheOpsAroundThem) {
  Graph g;
  const Value p = g.parameter("p", Shape(DType::kBool, {}));
  const Value x = g.parameter("x", kScalar);
  const ScanValues out =
      scan(g, {x}, {}, {.length = 2, .reverse = false, .remat = {}},
           [&](Value, const Values& carry, const Values&) {
             cond(
                 g, p, [&] { return Values{effect(g, x)}; },
                 [&] { return Values{x}; });
             return ScanValues{{carry[0] + 1.0}, {}};
           });
  const Liveness l(g);
  EXPECT_TRUE(l.node(out.carry[0].node));
  EXPECT_FALSE(l.value(out.carry[0]));
  EXPECT_TRUE(l.value(p));
  EXPECT_TRUE(l.value(x));
}

TEST(Liveness, BackwardOfCustomVjpIsNoPartOfTheProgram) {
  Graph g;
  const Value x = g.parameter("x", kScalar);
  const Values out = custom_vjp(
      g, {x},
      [](const Values& v) {
        return CustomVjpForward{{v[0] + 1.0}, {exp(v[0])}, {}};
      },
      [&](const Values& r, const Values&) { return Values{effect(g, r[0])}; });
  g.result("y", out[0]);
  const Liveness l(g);
  const Node& vjp = g.node(out[0]);
  EXPECT_FALSE(l.value(out[0].node, 1));  // the residual
  for (const NodeId id : g.block(vjp.regions[1]).nodes) {
    EXPECT_FALSE(l.node(id));
  }
}

TEST(Liveness, ManualComputationDropsUnreadShards) {
  Graph g(mesh::Mesh({{"context", 2}}));
  const mesh::PartitionSpec spec({{"context"}});
  const Value x = g.parameter("x", Shape(DType::kF32, {4}), spec);
  const Value y = g.parameter("y", Shape(DType::kF32, {4}), spec);
  const Values out = manual_computation(g, {x, y}, {spec, spec}, {spec, spec},
                                        [](const Values& s) {
                                          return Values{s[0] * 2.0, s[1] * 2.0};
                                        });
  g.result("r", out[1], spec);
  const Liveness l(g);
  EXPECT_FALSE(l.value(x));
  EXPECT_TRUE(l.value(y));
}

}  // namespace
}  // namespace ringmax::graph
