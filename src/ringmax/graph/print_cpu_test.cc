// Runs what the printer prints: every op kind once, on one device or on a mesh
// of eight, against numbers worked out by hand.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "ringmax/graph/control.h"
#include "ringmax/graph/ops.h"
#include "ringmax/graph/parallel.h"
#include "ringmax/graph/print.h"
#include "ringmax/testing/run_graph.h"

namespace ringmax::graph {
namespace {

using mesh::PartitionSpec;
using Numbers = std::vector<double>;

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

Numbers numbers_of(const HostArray& array) {
  if (array.shape().dtype == DType::kBool) {
    Numbers numbers;
    for (const bool b : array.data<bool>()) numbers.push_back(b ? 1 : 0);
    return numbers;
  }
  const HostArray doubles = array.convert(DType::kF64);
  const auto values = doubles.data<double>();
  return Numbers(values.begin(), values.end());
}

Shape f32(Dims dims) { return Shape(DType::kF32, std::move(dims)); }
Shape i32(Dims dims) { return Shape(DType::kI32, std::move(dims)); }

// 0, 1, 2, ... row-major.
Value counting(Graph& graph, Dims dims) {
  const Value flat = iota(graph, f32({element_count(dims)}), 0);
  return reshape(flat, std::move(dims));
}

class Program {
 public:
  explicit Program(mesh::Mesh mesh = mesh::Mesh())
      : graph(std::move(mesh), "program") {}

  void expect(Value value, Numbers numbers) {
    graph.result("r", value, PartitionSpec());
    expected_.push_back(std::move(numbers));
  }
  void check() {
    std::vector<Numbers> got;
    for (const HostArray& array : testing::run_graph(graph, {})) {
      got.push_back(numbers_of(array));
    }
    ASSERT_EQ(got.size(), expected_.size());
    for (std::size_t r = 0; r < got.size(); ++r) {
      ASSERT_EQ(got[r].size(), expected_[r].size()) << "result " << r;
      for (std::size_t i = 0; i < got[r].size(); ++i) {
        const double want = expected_[r][i];
        if (std::isnan(want)) {
          EXPECT_TRUE(std::isnan(got[r][i])) << r << "[" << i << "]";
        } else if (std::isinf(want)) {
          EXPECT_EQ(got[r][i], want) << r << "[" << i << "]";
        } else {
          EXPECT_NEAR(got[r][i], want, 1e-6 * std::max(1.0, std::fabs(want)))
              << r << "[" << i << "]";
        }
      }
    }
  }

  Graph graph;

 private:
  std::vector<Numbers> expected_;
};

TEST(PrintCpu, Unary) {
  Program p;
  const Value x = constant(p.graph, f32({1}), 0.75);
  p.expect(negate(x), {-0.75});
  p.expect(abs(negate(x)), {0.75});
  p.expect(sign(negate(x)), {-1});
  p.expect(exp(x), {std::exp(0.75)});
  p.expect(log(x), {std::log(0.75)});
  p.expect(log1p(x), {std::log1p(0.75)});
  p.expect(sqrt(x), {std::sqrt(0.75)});
  p.expect(rsqrt(x), {1 / std::sqrt(0.75)});
  p.expect(tanh(x), {std::tanh(0.75)});
  p.expect(logistic(x), {1 / (1 + std::exp(-0.75))});
  p.expect(sine(x), {std::sin(0.75)});
  p.expect(cosine(x), {std::cos(0.75)});
  p.expect(floor(x), {0});
  p.expect(is_finite(x / 0.0), {0});
  p.expect(logical_not(is_finite(x)), {0});
  p.expect(convert(x, DType::kI32), {0});
  p.expect(convert(constant(p.graph, f32({}), 0.1), DType::kBF16),
           {0.10009765625});
  p.check();
}

TEST(PrintCpu, Binary) {
  Program p;
  const Value x = counting(p.graph, {3}) + 1.0;
  const Value y = x * 2.0;
  const Value u = convert(x, DType::kU32);
  const Value less_xy = less(x, y);
  p.expect(x + y, {3, 6, 9});
  p.expect(x - y, {-1, -2, -3});
  p.expect(x / y, {0.5, 0.5, 0.5});
  p.expect(maximum(x, y), {2, 4, 6});
  p.expect(minimum(x, y), {1, 2, 3});
  p.expect(power(x, y), {1, 16, 729});
  p.expect(remainder(y, x + 1.0), {0, 1, 2});
  p.expect(logical_and(u, shift_left(u, u)), {0, 0, 0});
  p.expect(logical_or(u, u), {1, 2, 3});
  p.expect(logical_xor(u, u), {0, 0, 0});
  p.expect(shift_left(u, u), {2, 8, 24});
  p.expect(shift_right_logical(negate(u), full_like(u, 31)), {1, 1, 1});
  p.expect(equal(less_xy, less_xy), {1, 1, 1});
  p.expect(not_equal(x, y), {1, 1, 1});
  p.expect(greater_equal(u, full_like(u, 2)), {0, 1, 1});
  p.expect(select(less_xy, x, y), {1, 2, 3});
  p.expect(select(reduce(less_xy, {0}, ReduceKind::kAnd), y, x), {2, 4, 6});
  p.check();
}

TEST(PrintCpu, Dots) {
  Program p;
  Graph& g = p.graph;
  const Value a = counting(g, {1, 2, 3});
  p.expect(einsum("bsd,dhe->bshe", a, counting(g, {3, 1, 2})),
           {10, 13, 28, 40});
  p.expect(einsum("bsd,bsd->bs", a, a), {5, 50});
  p.expect(einsum("a,b->ab", counting(g, {2}), counting(g, {2})), {0, 0, 0, 1});
  p.expect(einsum("ij,ji->", counting(g, {2, 2}), counting(g, {2, 2})), {13});
  const Value q = counting(g, {1, 2, 1, 2});
  p.expect(einsum("bshd,bthd->bhst", q, q, Precision::kHighest), {1, 3, 3, 13});
  p.expect(
      einsum("ab,bc->ac", counting(g, {1, 1}) + 3.0, counting(g, {1, 1}) + 2.0),
      {6});
  p.expect(einsum("ab,bc->ac", counting(g, {2, 1}), counting(g, {1, 2})),
           {0, 0, 0, 1});
  p.expect(einsum("bshd,hde->bse", counting(g, {1, 2, 2, 2}),
                  counting(g, {2, 2, 1})),
           {14, 38});
  const Value half = convert(counting(g, {2, 2}), DType::kBF16);
  p.expect(einsum("ab,bc->ac", half, half, DType::kF32), {2, 3, 6, 11});
  p.check();
}

TEST(PrintCpu, Reductions) {
  Program p;
  Graph& g = p.graph;
  const Value x = counting(g, {2, 3});
  p.expect(reduce_sum(x, {0}), {3, 5, 7});
  p.expect(reduce_max(x, {1}), {2, 5});
  p.expect(reduce_min(x, {0, 1}), {0});
  p.expect(reduce_max(negate(convert(x, DType::kI32)), {1}), {0, -3});
  p.expect(reduce_min(convert(x, DType::kU32), {0}), {0, 1, 2});
  p.expect(reduce(less(x, x), {0}, ReduceKind::kOr), {0, 0, 0});
  p.expect(reduce_max(constant(g, f32({0}), 0), {0}), {-kInf});
  p.expect(reduce_max(constant(g, Shape(DType::kBF16, {0}), 0), {0}), {-kInf});
  p.expect(reduce_max(constant(g, i32({0}), 0), {0}), {-2147483648.0});
  p.expect(reduce_min(constant(g, Shape(DType::kU8, {0}), 0), {0}), {255});
  p.check();
}

TEST(PrintCpu, Shapes) {
  Program p;
  Graph& g = p.graph;
  const Value x = counting(g, {2, 3});
  const Value one = constant(g, i32({}), 1);
  p.expect(transpose(x, {1, 0}), {0, 3, 1, 4, 2, 5});
  p.expect(broadcast_in_dim(counting(g, {2}), {2, 2}, {0}), {0, 0, 1, 1});
  p.expect(broadcast_to(constant(g, f32({}), 7), {2}), {7, 7});
  p.expect(concatenate({x, x}, 1), {0, 1, 2, 0, 1, 2, 3, 4, 5, 3, 4, 5});
  p.expect(slice(x, {0, 0}, {2, 3}, {1, 2}), {0, 2, 3, 5});
  p.expect(pad(x, {0, 1}, {1, 0}, 9, {0, 1}),
           {9, 0, 9, 1, 9, 2, 9, 3, 9, 4, 9, 5, 9, 9, 9, 9, 9, 9});
  p.expect(reverse(x, {1}), {2, 1, 0, 5, 4, 3});
  p.expect(dynamic_slice_dim(x, 0, one, 1), {3, 4, 5});
  p.expect(dynamic_update_slice_dim(x, counting(g, {2, 1}), 1, one),
           {0, 0, 2, 3, 1, 5});
  p.expect(slice_dim(x, 0, 1, 1), {});
  p.check();
}

TEST(PrintCpu, Rows) {
  Program p;
  Graph& g = p.graph;
  const std::vector<std::int32_t> numbers = {2, 0, 2, 7};
  const Value rows =
      constant(g, HostArray::from<std::int32_t>({2, 2}, numbers));
  const Value few = slice_dim(rows, 0, 0, 1);
  const Value table = counting(g, {3, 2});
  p.expect(take_rows(table, rows), {4, 5, 0, 1, 4, 5, 4, 5});  // 7 clamps to 2
  p.expect(take_rows(counting(g, {3}), rows), {2, 0, 2, 2});
  p.expect(take_rows(table, constant(g, i32({}), 1)), {2, 3});
  p.expect(scatter_add_rows(table, few, counting(g, {1, 2, 2})),
           {2, 4, 2, 3, 4, 6});
  p.expect(scatter_add_rows(counting(g, {3}), few, counting(g, {1, 2})),
           {1, 1, 2});
  // The same row twice adds up.
  p.expect(scatter_add_rows(counting(g, {3}), zeros_like(few),
                            counting(g, {1, 2}) + 1.0),
           {3, 1, 2});
  p.check();
}

TEST(PrintCpu, Constants) {
  Program p;
  Graph& g = p.graph;
  const std::vector<float> floats = {
      1e-5f, -0.0f, std::nanf(""), INFINITY, 3.4028235e38f, 1e-45f, 0.1f};
  p.expect(constant(g, HostArray::from<float>({7}, floats)),
           {1e-5f, 0, kNan, kInf, 3.4028234663852886e38, 1e-45f, 0.1f});
  const std::vector<double> doubles = {0.1, 1e300};
  p.expect(constant(g, HostArray::from<double>({2, 1}, doubles)), {0.1, 1e300});
  std::vector<std::int64_t> many;
  Numbers many_expected;
  for (int i = 0; i < 20; ++i) {
    many.push_back(i - 3);
    many_expected.push_back(i - 3);
  }
  p.expect(constant(g, HostArray::from<std::int64_t>({20}, many)),
           many_expected);
  HostArray flags(Shape(DType::kBool, {20}));
  Numbers flags_expected;
  for (std::size_t i = 0; i < 20; ++i) {
    flags.data<bool>()[i] = i % 3 == 0;
    flags_expected.push_back(i % 3 == 0 ? 1 : 0);
  }
  p.expect(constant(g, flags), flags_expected);
  p.expect(convert(constant(g, Shape(DType::kF16, {2}), -1e9), DType::kF32),
           {-kInf, -kInf});
  p.expect(constant(g, f32({}), 1) / constant(g, f32({}), -0.0), {-kInf});
  p.expect(constant(g, f32({0, 2}), 1), {});
  p.check();
}

void expect_scan(bool reverse, Numbers carry, Numbers stacked) {
  Program p;
  Graph& g = p.graph;
  const Value xs = counting(g, {3, 2});
  const Value capture = counting(g, {2}) + 10.0;
  ScanOptions options;
  options.length = 3;
  options.reverse = reverse;
  const ScanValues out =
      scan(g, {counting(g, {2}), capture}, {xs, xs}, options,
           [&](Value index, const Values& c, const Values& x) {
             return ScanValues{{c[0] * 2.0 + x[0], c[1] + x[1]},
                               {c[0] + capture, x[0] * capture, index}};
           });
  p.expect(out.carry[0], std::move(carry));
  p.expect(out.stacked[0], std::move(stacked));
  p.expect(out.stacked[2], {0, 1, 2});
  p.check();
}

TEST(PrintCpu, ScanWalksForwards) {
  expect_scan(false, {8, 23}, {10, 12, 10, 14, 12, 20});
}
TEST(PrintCpu, ScanWalksBackwards) {
  expect_scan(true, {20, 35}, {20, 28, 14, 18, 10, 12});
}

TEST(PrintCpu, WhileReadsCapturesInBothBlocks) {
  Program p;
  Graph& g = p.graph;
  const Value limit = reduce_sum(counting(g, {5}), {0});
  const Value step = reduce_sum(counting(g, {3}), {0});
  const Values out = while_loop(
      g, {constant(g, f32({}), 0), counting(g, {2})},
      [&](const Values& v) { return less(v[0], limit); },
      [&](const Values& v) {
        return Values{v[0] + step, v[1] + 1.0};
      });
  p.expect(out[0], {12});
  p.check();
}

TEST(PrintCpu, CondTakesEitherBranch) {
  Program p;
  Graph& g = p.graph;
  const Value x = counting(g, {2});
  const Value y = x + 5.0;
  for (const bool take : {true, false}) {
    const Value sum = reduce_sum(x, {0});
    const Values out = cond(
        g, less(sum, full_like(sum, take ? 5 : 0)),
        [&] {
          return Values{x, x * 2.0};
        },
        [&] {
          return Values{y, y + y};
        });
    p.expect(out[0], take ? Numbers{0, 1} : Numbers{5, 6});
    p.expect(out[1], take ? Numbers{0, 2} : Numbers{10, 12});
  }
  p.check();
}

TEST(PrintCpu, LoopsNestInBranchesOfLoops) {
  Program p;
  Graph& g = p.graph;
  const Value x = counting(g, {2});
  ScanOptions four, two;
  four.length = 4;
  two.length = 2;
  const ScanValues out =
      scan(g, {x}, {}, four, [&](Value index, const Values& c, const Values&) {
        const Value odd = remainder(index, full_like(index, 2));
        return ScanValues{
            cond(
                g, equal(odd, zeros_like(odd)),
                [&] { return Values{c[0] + 1.0}; },
                [&] {
                  return scan(g, {c[0]}, {}, two,
                              [&](Value, const Values& d, const Values&) {
                                return ScanValues{{d[0] * 2.0 + x}, {}};
                              })
                      .carry;
                }),
            {}};
      });
  p.expect(out.carry[0], {20, 51});
  p.check();
}

TEST(PrintCpu, MarkersChangeNothing) {
  Program p;
  Graph& g = p.graph;
  const Value x = counting(g, {2});
  const Values vjp = custom_vjp(
      g, {x},
      [](const Values& v) {
        return CustomVjpForward{{v[0] * 3.0}, {v[0]}, {"saved"}};
      },
      [](const Values& r, const Values& c) { return Values{r[0] * c[0]}; });
  p.expect(checkpoint_name(stop_gradient(vjp[0]), "name"), {0, 3});
  const Values kept = optimization_barrier({x, vjp[0], x});
  p.expect(kept[0] + kept[1], {0, 4});
  p.expect(checkpoint(g, {x}, {},
                      [](const Values& v) { return Values{v[0] + 1.0}; })[0],
           {1, 2});
  p.check();
}

const PartitionSpec kRows({{"data", "context"}, {"one"}});

mesh::Mesh eight() {
  return mesh::Mesh({{"data", 2}, {"one", 1}, {"context", 4}});
}

TEST(PrintCpu, Collectives) {
  Program p(eight());
  Graph& g = p.graph;
  const PartitionSpec by_data({{"data"}});
  const Values out = manual_computation(
      g, {constrain(counting(g, {8, 2}), kRows)}, {kRows},
      {kRows, kRows, by_data, kRows, kRows, kRows, kRows},
      [&](const Values& shards) {
        const Value x = shards[0];
        const Value gathered = all_gather(x, "context", 0);
        const Value place = axis_index(g, "context");
        return Values{
            collective_permute(x, "context", {{0, 1}, {1, 2}, {2, 3}}),
            collective_permute(collective_permute(x, "one", {{0, 0}}), "data",
                               {{0, 1}, {1, 0}}),
            gathered,
            broadcast_to(convert(place, DType::kF32), {1, 2}),
            all_reduce(x, {"data", "context"}) +
                reduce_scatter(gathered, "context", 0),
            all_reduce(x, {"data"}, ReduceKind::kMax) +
                collective_permute(x, "context", {}),
            reduce_max(
                reshape(all_to_all(
                            gathered * broadcast_to(convert(place, DType::kF32),
                                                    {4, 2}),
                            "context", 0, 1),
                        {1, 4, 2}),
                {1})};
      });
  p.expect(out[0], {0, 0, 0, 1, 2, 3, 4, 5, 0, 0, 8, 9, 10, 11, 12, 13});
  p.expect(out[1], {8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7});
  p.expect(out[2], {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15});
  p.expect(out[3], {0, 0, 1, 1, 2, 2, 3, 3, 0, 0, 1, 1, 2, 2, 3, 3});
  p.expect(out[4], {56, 68, 64, 76, 72, 84, 80, 92,  //
                    88, 100, 96, 108, 104, 116, 112, 124});
  p.expect(out[5],
           {8, 9, 10, 11, 12, 13, 14, 15, 8, 9, 10, 11, 12, 13, 14, 15});
  // Device c receives row c from every neighbour, scaled by its place.
  p.expect(out[6], {0, 3, 6, 9, 12, 15, 18, 21,  //
                    24, 27, 30, 33, 36, 39, 42, 45});
  p.check();
}

// The shape of a ring: a loop inside a manual computation that sends while it
// computes, with a branch that holds no collective.
TEST(PrintCpu, RingInsideManualComputation) {
  Program p(eight());
  Graph& g = p.graph;
  const Value weights = counting(g, {2, 2});
  ScanOptions options;
  options.length = 4;
  const Value out = manual_computation(
      g, {counting(g, {8, 2})}, {kRows}, {kRows}, [&](const Values& shards) {
        const Value place = axis_index(g, "context");
        const ScanValues walk = scan(
            g, {shards[0], zeros_like(shards[0])}, {}, options,
            [&](Value step, const Values& c, const Values&) {
              const Value next = cond(
                  g, less_equal(step, place),
                  [&] {
                    return Values{c[1] + einsum("ab,bc->ac", c[0], weights)};
                  },
                  [&] { return Values{c[1]}; })[0];
              return ScanValues{
                  {collective_permute(c[0], "context",
                                      {{0, 1}, {1, 2}, {2, 3}, {3, 0}}),
                   next},
                  {}};
            });
        return Values{walk.carry[1]};
      })[0];
  // Row r of a group holds sum over rows 0..r of [2 x1, x0 + 3 x1].
  p.expect(out, {2, 3, 8, 14, 18, 33, 32, 60,  //
                 18, 35, 40, 78, 66, 129, 96, 188});
  p.check();
}

}  // namespace
}  // namespace ringmax::graph
