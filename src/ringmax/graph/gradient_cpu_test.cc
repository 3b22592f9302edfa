// Every rule of vjp_rules.cc against central differences.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "ringmax/graph/gradient.h"
#include "ringmax/graph/ops.h"
#include "ringmax/graph/parallel.h"
#include "ringmax/graph/testing/gradient_check.h"
#include "ringmax/mesh/axis_rules.h"
#include "ringmax/testing/run_graph.h"

namespace ringmax::graph {
namespace {

using testing::GradientCheck;

Value rows_of(Graph& g, std::initializer_list<std::int32_t> rows) {
  const std::vector<std::int32_t> values(rows);
  return constant(g, HostArray::from<std::int32_t>(
                         {static_cast<std::int64_t>(values.size())}, values));
}
Value index_of(Graph& g, double i) {
  return constant(g, Shape(DType::kI32, {}), i);
}

TEST(Gradient, ElementwiseOpsOfOneOperand) {
  GradientCheck check;
  const auto one = [&](const char* name, Value (*op)(Value), double low,
                       double high) {
    for (const Dims& dims : {Dims{}, Dims{5}, Dims{2, 1, 3}}) {
      check.add(name, {dims}, low, high,
                [op](const Values& x) { return Values{op(x[0])}; });
    }
  };
  one("negate", negate, -2, 2);
  one("abs of positive", abs, 0.5, 2);
  one("abs of negative", abs, -2, -0.5);
  one("exp", exp, -2, 2);
  one("log", log, 0.5, 2);
  one("log1p", log1p, -0.5, 2);
  one("sqrt", sqrt, 0.5, 2);
  one("rsqrt", rsqrt, 0.5, 2);
  one("tanh", tanh, 0.2, 1);
  one("tanh of negative", tanh, -1, -0.2);
  one("logistic", logistic, -2, 2);
  one("sine", sine, -1, 1);
  one("cosine", cosine, 0.5, 2);
  check.expect_all();
}

TEST(Gradient, ElementwiseOpsOfTwoOperands) {
  GradientCheck check;
  const auto two = [&](const char* name, Value (*op)(Value, Value)) {
    for (const Dims& dims : {Dims{}, Dims{3, 2}}) {
      check.add(name, {dims, dims}, 0.5, 2,
                [op](const Values& x) { return Values{op(x[0], x[1])}; });
    }
    check.add(std::string(name) + " of one value twice", {Dims{3}}, 0.5, 2,
              [op](const Values& x) { return Values{op(x[0], x[0] * x[0])}; });
  };
  two("add", add);
  two("subtract", subtract);
  two("multiply", multiply);
  two("divide", divide);
  two("power", power);
  // Inputs of one range meet anywhere: keep them apart by more than a step.
  for (const double offset : {-1.0, 1.0}) {
    const auto apart = [offset](Value (*op)(Value, Value)) {
      return [offset, op](const Values& x) {
        return Values{op(x[0], x[1] + 2 * offset) * x[0] * x[1]};
      };
    };
    check.add("maximum", {Dims{4}, Dims{4}}, 0.5, 2, apart(maximum));
    check.add("minimum", {Dims{4}, Dims{4}}, 0.5, 2, apart(minimum));
  }
  check.add("select by a tensor", {Dims{2, 3}, Dims{2, 3}}, 0.5, 2,
            [&](const Values& x) {
              const Value p =
                  equal(iota(check.graph(), Shape(DType::kI32, {2, 3}), 1),
                        constant(check.graph(), Shape(DType::kI32, {2, 3}), 1));
              return Values{select(p, x[0] * x[0], x[1] * x[1])};
            });
  check.add("select by a scalar", {Dims{2, 3}, Dims{2, 3}}, 0.5, 2,
            [&](const Values& x) {
              const Value p =
                  equal(index_of(check.graph(), 1), index_of(check.graph(), 2));
              return Values{select(p, x[0], x[1] * x[1]) * x[0]};
            });
  check.expect_all();
}

TEST(Gradient, DotGeneralInEveryOrderOfDims) {
  GradientCheck check;
  // lhs b, m, k, l and rhs b, n, k, l in all orders of the one and changing
  // orders of the other.
  const std::int64_t lhs_size[] = {2, 3, 4, 2};
  const std::int64_t rhs_size[] = {2, 5, 4, 2};
  std::vector<int> lhs = {0, 1, 2, 3};
  std::vector<int> rhs = {2, 0, 3, 1};
  bool swap = false;
  do {
    std::next_permutation(rhs.begin(), rhs.end());
    swap = !swap;
    Dims l, r;
    for (const int d : lhs) l.push_back(lhs_size[d]);
    for (const int d : rhs) r.push_back(rhs_size[d]);
    const auto at = [](const std::vector<int>& order, int d) {
      return static_cast<std::int64_t>(
          std::find(order.begin(), order.end(), d) - order.begin());
    };
    DotAttr attr;
    attr.lhs_batch = {at(lhs, 0)};
    attr.rhs_batch = {at(rhs, 0)};
    attr.lhs_contract = {at(lhs, 2), at(lhs, 3)};
    attr.rhs_contract = {at(rhs, 2), at(rhs, 3)};
    if (swap) {
      std::swap(attr.lhs_contract[0], attr.lhs_contract[1]);
      std::swap(attr.rhs_contract[0], attr.rhs_contract[1]);
    }
    check.add("dot_general " + dims_string(l) + " " + dims_string(r), {l, r},
              0.5, 2, [attr](const Values& x) {
                return Values{dot_general(x[0], x[1], attr)};
              });
  } while (std::next_permutation(lhs.begin(), lhs.end()));
  check.expect_all();
}

TEST(Gradient, Einsum) {
  GradientCheck check;
  const auto two = [&](const char* spec, Dims a, Dims b) {
    check.add(
        spec, {std::move(a), std::move(b)}, 0.5, 2,
        [spec](const Values& x) { return Values{einsum(spec, x[0], x[1])}; });
  };
  two("ab,bc->ac", {2, 3}, {3, 4});
  two("ab,bc->ca", {2, 3}, {3, 4});
  two("bse,ehd->bshd", {2, 3, 4}, {4, 2, 3});
  two("bqhd,bkhd->bhqk", {2, 3, 2, 4}, {2, 5, 2, 4});
  two("bhqk,bkhd->bqhd", {2, 2, 3, 5}, {2, 5, 2, 4});
  two("xby,byx->yxb", {2, 3, 4}, {3, 4, 2});
  two("ab,ab->", {2, 3}, {2, 3});
  two("a,b->ba", {2}, {3});
  two("kblm,lkbn->mbn", {2, 3, 4, 2}, {4, 2, 3, 5});
  check.add("one operand twice", {Dims{3, 3}}, 0.5, 2, [](const Values& x) {
    return Values{einsum("ab,bc->ac", x[0], x[0])};
  });
  check.expect_all();
}

TEST(Gradient, ShapeOps) {
  GradientCheck check;
  const auto one = [&](const char* name, Dims dims, Value (*f)(Value)) {
    // Squared, so that a wrong place shows as a wrong number.
    check.add(name, {std::move(dims)}, 0.5, 2,
              [f](const Values& x) { return Values{f(x[0] * x[0])}; });
  };
  one("reshape", {2, 3, 2}, [](Value x) { return reshape(x, {4, 3}); });
  one("reshape of a scalar", {}, [](Value x) { return reshape(x, {1, 1}); });
  one("transpose", {2, 3, 4}, [](Value x) { return transpose(x, {2, 0, 1}); });
  one("broadcast of a scalar", {}, [](Value x) {
    return broadcast_to(x, {2, 3});
  });
  one("broadcast along new dims", {3}, [](Value x) {
    return broadcast_in_dim(x, {2, 3, 4}, {1});
  });
  one("broadcast of size 1", {2, 1, 3}, [](Value x) {
    return broadcast_to(x, {2, 4, 3});
  });
  one("broadcast of size 1 and new dims", {1, 3}, [](Value x) {
    return broadcast_in_dim(x, {2, 4, 3}, {0, 2});
  });
  one("broadcast of size 1 to 1", {1, 2}, [](Value x) {
    return broadcast_in_dim(x, {1, 3, 2}, {0, 2});
  });
  one("slice", {5, 4}, [](Value x) { return slice(x, {1, 0}, {4, 3}); });
  one("strided slice", {7, 4}, [](Value x) {
    return slice(x, {1, 1}, {7, 4}, {3, 2});
  });
  one("strided slice up to the end", {7},
      [](Value x) { return slice(x, {0}, {7}, {2}); });
  one("slice next to an empty one", {4}, [](Value x) {
    return concatenate({slice(x, {2}, {2}), slice(x, {1}, {3})}, 0);
  });
  one("pad", {2, 3}, [](Value x) { return pad(x, {1, 0}, {2, 1}, 0.5); });
  one("pad between", {2, 3}, [](Value x) {
    return pad(x, {1, 0}, {0, 2}, 0, {2, 1});
  });
  one("pad by less than nothing", {5, 4}, [](Value x) {
    return pad(x, {-1, 1}, {1, -2}, 0);
  });
  one("pad by less than nothing, and between", {5, 4}, [](Value x) {
    return pad(x, {-2, -1}, {-1, 1}, 0, {1, 2});
  });
  one("reverse", {3, 2, 4}, [](Value x) { return reverse(x, {0, 2}); });
  one("reduce_sum", {3, 2, 4}, [](Value x) { return reduce_sum(x, {2, 0}); });
  one("reduce_max", {3, 2, 4}, [](Value x) { return reduce_max(x, {0, 2}); });
  one("reduce_min", {3, 2, 4}, [](Value x) { return reduce_min(x, {1}); });
  one("stop_gradient of a constant", {3},
      [](Value x) { return x * stop_gradient(full_like(x, 3)); });
  check.add("concatenate", {Dims{2, 1}, Dims{2, 3}}, 0.5, 2,
            [](const Values& x) {
              return Values{concatenate({x[0], x[1] * x[1], x[0] * x[0]}, 1)};
            });
  check.add("optimization_barrier", {Dims{2}, Dims{3}}, 0.5, 2,
            [](const Values& x) {
              const Values y = optimization_barrier({x[0] * x[0], x[1]});
              return Values{y[0], y[1] * y[1]};
            });
  check.add("optimization_barrier, one result", {Dims{2}}, 0.5, 2,
            [](const Values& x) {
              return Values{optimization_barrier({exp(x[0]), x[0]})[0]};
            });
  check.add("checkpoint_name", {Dims{2}}, 0.5, 2, [](const Values& x) {
    return Values{checkpoint_name(exp(x[0]), "y")};
  });
  check.expect_all();
}

TEST(Gradient, DynamicSlicesAndRows) {
  GradientCheck check;
  Graph& g = check.graph();
  // 9 clamps to the last place where the slice fits.
  for (const double start : {0.0, 2.0, 9.0, -3.0}) {
    check.add("dynamic_slice", {Dims{5, 3}}, 0.5, 2, [&](const Values& x) {
      return Values{dynamic_slice(
          x[0] * x[0], {index_of(g, start), index_of(g, 1)}, {2, 2})};
    });
    check.add(
        "dynamic_update_slice", {Dims{5, 3}, Dims{2, 2}}, 0.5, 2,
        [&](const Values& x) {
          return Values{dynamic_update_slice(
              x[0] * x[0], x[1] * x[1], {index_of(g, start), index_of(g, 1)})};
        });
  }
  check.add(
      "take_rows, duplicates and out of range", {Dims{4, 3}}, 0.5, 2,
      [&](const Values& x) {
        return Values{take_rows(x[0] * x[0], rows_of(g, {1, 1, 3, 9, -2, 1}))};
      });
  check.add("take_rows of scalars", {Dims{4}}, 0.5, 2, [&](const Values& x) {
    return Values{take_rows(x[0] * x[0], rows_of(g, {3, 3, 0}))};
  });
  check.add("scatter_add_rows, duplicates", {Dims{4, 2}, Dims{5, 2}}, 0.5, 2,
            [&](const Values& x) {
              return Values{scatter_add_rows(
                  x[0] * x[0], rows_of(g, {1, 3, 1, 0, 1}), x[1] * x[1])};
            });
  check.add("scatter_add_rows, out of range", {Dims{4, 2}, Dims{4, 2}}, 0.5, 2,
            [&](const Values& x) {
              return Values{scatter_add_rows(x[0], rows_of(g, {1, 7, -1, 0}),
                                             x[1] * x[1])};
            });
  check.expect_all();
}

TEST(Gradient, ShardingConstraintOnEightDevices) {
  const mesh::Mesh mesh = mesh::make_mesh({{"data", 2}, {"context", 4}});
  GradientCheck check(mesh);
  const mesh::PartitionSpec rows{{"data"}, {"context"}};
  const mesh::PartitionSpec columns{{"context"}, {}};
  check.add("constrain", {Dims{8, 4}, Dims{4, 8}}, 0.5, 2,
            [&](const Values& x) {
              const Value a = constrain(x[0] * x[0], rows);
              const Value b = constrain(x[1], columns, rows);
              return Values{constrain(einsum("ab,bc->ac", a, b), columns)};
            });
  check.expect_all();
}

// Values that differences cannot tell.

HostArray gradient_at(const HostArray& x, Value (*f)(Value)) {
  Graph g;
  const Value p = g.parameter("x", x.shape());
  g.result("gradient", gradient(f(p), {p})[0]);
  return ringmax::testing::run_graph(g, {x})[0];
}

std::vector<double> values_of(const HostArray& a) {
  const HostArray f64 = a.convert(DType::kF64);
  const auto v = f64.data<double>();
  return {v.begin(), v.end()};
}

HostArray array(std::vector<double> values) {
  return HostArray::from<double>({static_cast<std::int64_t>(values.size())},
                                 values);
}

TEST(Gradient, TiesShareTheCotangent) {
  const HostArray tied = array({1, 4, 4, 2, 4});
  const auto max_of = [](Value x) { return reduce_max(x, {0}); };
  const auto min_of = [](Value x) { return reduce_min(negate(x), {0}); };
  const double third = 1.0 / 3;
  EXPECT_EQ(values_of(gradient_at(tied, max_of)),
            (std::vector<double>{0, third, third, 0, third}));
  EXPECT_EQ(values_of(gradient_at(tied, min_of)),
            (std::vector<double>{0, -third, -third, 0, -third}));
  EXPECT_EQ(values_of(gradient_at(array({1, 2, 3}),
                                  [](Value x) {
                                    return reduce_sum(
                                        maximum(x, full_like(x, 2)), {0});
                                  })),
            (std::vector<double>{0, 0.5, 1}));
}

TEST(Gradient, StopGradientStops) {
  EXPECT_EQ(values_of(gradient_at(
                array({2, 3}),
                [](Value x) { return reduce_sum(x * stop_gradient(x), {0}); })),
            (std::vector<double>{2, 3}));
  EXPECT_EQ(values_of(gradient_at(
                array({2, 3}),
                [](Value x) { return reduce_sum(stop_gradient(x), {0}); })),
            (std::vector<double>{0, 0}));
}

TEST(Gradient, ConvertRoundsTheCotangent) {
  // 1/3 rounded to f32 on the way back; to and fro an integer nothing flows.
  const std::vector<double> got =
      values_of(gradient_at(array({2, 3}), [](Value x) {
        return reduce_sum(
            convert(convert(x, DType::kF32), DType::kF64) * (1.0 / 3), {0});
      }));
  EXPECT_EQ(got, (std::vector<double>(2, static_cast<double>(1.0f / 3))));
  EXPECT_EQ(values_of(gradient_at(array({2, 3}),
                                  [](Value x) {
                                    const Value i = convert(x, DType::kI32);
                                    return reduce_sum(
                                        convert(i, DType::kF64) * x, {0});
                                  })),
            (std::vector<double>{2, 3}));
}

TEST(Gradient, PowerOfZeroBaseIsFinite) {
  EXPECT_EQ(
      values_of(gradient_at(
          array({0, 3}),
          [](Value x) { return reduce_sum(power(x, full_like(x, 2)), {0}); })),
      (std::vector<double>{0, 6}));
}

}  // namespace
}  // namespace ringmax::graph
