#include "ringmax/graph/print.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "ringmax/base/error.h"
#include "ringmax/graph/control.h"
#include "ringmax/graph/ops.h"
#include "ringmax/graph/parallel.h"

namespace ringmax::graph {
namespace {

using mesh::PartitionSpec;
using testing::HasSubstr;
using testing::Not;

// Compares with golden/NAME.mlir. RINGMAX_UPDATE_GOLDENS=1 writes it anew.
void expect_golden(const Graph& graph, const std::string& name) {
  const std::string path = std::string(RINGMAX_SOURCE_DIR) +
                           "/src/ringmax/graph/golden/" + name + ".mlir";
  const std::string text = print_stablehlo(graph);
  if (std::getenv("RINGMAX_UPDATE_GOLDENS") != nullptr) {
    std::ofstream(path) << text;
    return;
  }
  std::stringstream expected;
  expected << std::ifstream(path).rdbuf();
  EXPECT_EQ(text, expected.str())
      << path << ": RINGMAX_UPDATE_GOLDENS=1 and run this test again";
}

Shape f32(Dims dims) { return Shape(DType::kF32, std::move(dims)); }

TEST(PrintGraph, GoldenOps) {
  Graph g(mesh::Mesh(), "ops");
  const Value x = g.parameter("x", f32({2, 3}));
  const Value table = g.parameter("table", Shape(DType::kBF16, {8, 3}));
  const Value rows = g.parameter("rows", Shape(DType::kI32, {2}));
  const Value one = constant(g, Shape(DType::kI32, {}), 1);
  Value looked_up;
  {
    Scope scope(g, "embed");
    looked_up = convert(take_rows(table, rows), DType::kF32);
  }
  Scope scope(g, "body");
  g.result("select", select(less(x, looked_up), x, x * 0.5));
  g.result("dot", einsum("ab,cb->ac", x, looked_up, Precision::kHighest));
  g.result("max", reduce_max(x, {1}));
  g.result("pad", pad(slice(x, {0, 0}, {2, 3}, {1, 2}), {0, 1}, {0, 0}, -1));
  g.result("concat", concatenate({x, reverse(x, {0})}, 0));
  g.result("update", dynamic_update_slice_dim(
                         x, dynamic_slice_dim(x, 0, one, 1), 0, one));
  g.result("scatter", scatter_add_rows(table, rows, take_rows(table, rows)));
  g.result("turned", broadcast_in_dim(transpose(x, {1, 0}), {4, 3, 2}, {1, 2}));
  g.result("counted", iota(g, Shape(DType::kU32, {2, 3}), 1));
  g.donate(x, 0);
  expect_golden(g, "ops");
}

TEST(PrintGraph, GoldenControl) {
  Graph g(mesh::Mesh(), "control");
  const Value x = g.parameter("x", f32({2}));
  const Value xs = g.parameter("xs", f32({4, 2}));
  Scope scope(g, "layers");
  const ScanValues out =
      scan(g, {x, x}, {xs}, {.length = 4, .reverse = true, .remat = {}},
           [&](Value index, const Values& carry, const Values& slice) {
             const Value even = equal(remainder(index, full_like(index, 2)),
                                      zeros_like(index));
             const Values next = cond(
                 g, even, [&] { return Values{carry[0] + x}; },
                 [&] { return Values{carry[0]}; });
             return ScanValues{{next[0], carry[1] * 2.0},
                               {carry[0] * slice[0], slice[0] + 1.0}};
           });
  const Values loop = while_loop(
      g, {out.carry[0]},
      [&](const Values& v) {
        return less(reduce_sum(v[0], {0}), full_like(reduce_sum(x, {0}), 9));
      },
      [&](const Values& v) { return Values{v[0] + x}; });
  g.result("carry", loop[0]);
  g.result("stacked", out.stacked[0]);
  expect_golden(g, "control");
}

// Three steps from the back, written one after another: no loop, the slices and
// the index as constants, what is carried by its last name.
TEST(PrintGraph, AnUnrolledScanIsItsStepsInWalkingOrder) {
  Graph g(mesh::Mesh(), "unrolled");
  const Value x = g.parameter("x", f32({2}));
  const Value xs = g.parameter("xs", f32({3, 2}));
  const ScanValues out = scan(
      g, {x}, {xs}, {.length = 3, .reverse = true, .unroll = true, .remat = {}},
      [&](Value index, const Values& carry, const Values& slice) {
        const Value scaled =
            slice[0] * broadcast_to(convert(index, DType::kF32), {2});
        return ScanValues{{carry[0] + scaled}, {scaled}};
      });
  g.result("carry", out.carry[0]);
  g.result("stacked", out.stacked[0]);
  const std::string text = print_stablehlo(g);
  EXPECT_THAT(text, Not(HasSubstr("stablehlo.while")));
  std::size_t at = 0;
  for (const char* step : {"[2:3, 0:2]", "[1:2, 0:2]", "[0:1, 0:2]"}) {
    const std::size_t next = text.find(step, at);
    EXPECT_NE(next, std::string::npos) << step << " after " << at << "\n"
                                       << text;
    at = next;
  }
  expect_golden(g, "unrolled");
}

Graph& ring(Graph& g) {
  const PartitionSpec spec({{"data", "context"}, {"tensor"}});
  const Value x = g.parameter("x", f32({8, 2}), spec);
  const Value w = g.parameter("w", f32({2, 2}));
  Scope scope(g, "attention");
  const Value y = manual_computation(
      g, {constrain(x, spec)}, {spec}, {spec}, [&](const Values& shards) {
        const Value place = convert(axis_index(g, "context"), DType::kF32);
        Scope send(g, "ring_send");
        const Value sent = collective_permute(shards[0], "context",
                                              {{0, 1}, {1, 2}, {2, 3}, {3, 0}});
        const Value total = all_reduce(sent, {"data"});
        const Value part =
            reduce_scatter(all_gather(sent, "context", 0), "context", 0);
        return Values{einsum("ab,bc->ac", total + part, w) *
                      broadcast_to(place, shards[0].dims())};
      })[0];
  g.result("y", y, spec);
  return g;
}

TEST(PrintGraph, GoldenRing) {
  Graph g(mesh::Mesh({{"data", 2}, {"context", 4}, {"tensor", 1}}), "ring");
  expect_golden(ring(g), "ring");
}

TEST(PrintGraph, OneDeviceHasNoShardingAndNoCollective) {
  Graph g(mesh::Mesh({{"data", 1}, {"context", 1}}));
  const PartitionSpec spec({{"context"}});
  const Value x = g.parameter("x", f32({4}), spec);
  g.result(
      "y",
      manual_computation(g, {constrain(x, spec)}, {spec}, {spec},
                         [](const Values& s) {
                           return Values{all_reduce(
                               collective_permute(s[0], "context", {{0, 0}}),
                               {"data", "context"})};
                         })[0],
      spec);
  const std::string text = print_stablehlo(g);
  EXPECT_THAT(text, Not(HasSubstr("sdy")));
  EXPECT_THAT(text, HasSubstr("return %arg0 : tensor<4xf32>"));
}

TEST(PrintGraph, PermuteWithoutPairsIsZeros) {
  for (const std::int64_t size : {1, 2}) {
    Graph g(mesh::Mesh({{"context", size}}));
    const PartitionSpec spec({{"context"}});
    const Value x = g.parameter("x", f32({4}), spec);
    g.result("y",
             manual_computation(g, {x}, {spec}, {spec},
                                [](const Values& s) {
                                  return Values{
                                      collective_permute(s[0], "context", {})};
                                })[0],
             spec);
    const std::string text = print_stablehlo(g);
    EXPECT_THAT(text, HasSubstr("dense<0.0>"));
    EXPECT_THAT(text, Not(HasSubstr("collective_permute")));
  }
}

TEST(PrintGraph, TextIsAFunctionOfTheGraph) {
  const mesh::Mesh mesh({{"data", 2}, {"context", 4}, {"tensor", 1}});
  Graph a(mesh), b(mesh);
  EXPECT_EQ(print_stablehlo(ring(a)), print_stablehlo(ring(b)));
  EXPECT_EQ(print_stablehlo(a), print_stablehlo(a));
}

TEST(PrintGraph, LocationsCanBeLeftOut) {
  Graph g;
  Scope scope(g, "a \"quoted\" scope");
  const Value x = g.parameter("x", f32({2}));
  g.result("y", x + x);
  EXPECT_THAT(print_stablehlo(g),
              HasSubstr("#loc2 = loc(\"a \\22quoted\\22 scope\")"));
  EXPECT_THAT(print_stablehlo(g, {.locations = false}), Not(HasSubstr("loc")));
}

TEST(PrintGraph, CustomCallSaysLayoutsAndAliases) {
  Graph g;
  const Value x = g.parameter("x", f32({2, 3}));
  CustomCallAttr attr;
  attr.target = "my kernel";
  attr.backend_config = "{block = 8 : i32}";
  attr.aliases = {{0, 0}};
  g.result("y", custom_call(g, {x}, {x.shape()}, attr)[0]);
  const std::string text = print_stablehlo(g);
  EXPECT_THAT(text, HasSubstr("stablehlo.custom_call @\"my kernel\"(%arg0) "
                              "{api_version = 4 : i32, backend_config = "
                              "{block = 8 : i32}"));
  EXPECT_THAT(text, HasSubstr("operand_layouts = [dense<[1, 0]> : "
                              "tensor<2xindex>]"));
  EXPECT_THAT(text, HasSubstr("output_tuple_indices = [], operand_index = 0"));
}

TEST(PrintGraph, NestedManualComputationIsRefused) {
  Graph g(mesh::Mesh({{"context", 2}}));
  const PartitionSpec spec({{"context"}});
  const Value x = g.parameter("x", f32({4}), spec);
  Scope scope(g, "stage");
  g.result("y",
           manual_computation(g, {x}, {spec}, {spec},
                              [&](const Values& s) {
                                return manual_computation(
                                    g, {s[0]}, {spec}, {spec},
                                    [](const Values& t) {
                                      return Values{t[0] + t[0]};
                                    });
                              })[0],
           spec);
  try {
    print_stablehlo(g);
    FAIL();
  } catch (const Error& e) {
    EXPECT_THAT(e.message(), HasSubstr("stage"));
    EXPECT_THAT(e.message(), HasSubstr("context=2"));
  }
}

TEST(PrintGraph, ZerosOfBothSignsStayApart) {
  Graph g;
  g.result("a", constant(g, f32({}), 0.0));
  g.result("b", constant(g, f32({}), -0.0));
  const std::string text = print_stablehlo(g);
  EXPECT_THAT(text, HasSubstr("dense<0.0>"));
  EXPECT_THAT(text, HasSubstr("dense<-0.0>"));
}

}  // namespace
}  // namespace ringmax::graph
