// Gradients of scan, checkpoint, cond and custom_vjp against central
// differences, and what remat policies keep.
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "ringmax/graph/gradient.h"
#include "ringmax/graph/ops.h"
#include "ringmax/graph/testing/gradient_check.h"
#include "ringmax/testing/run_graph.h"

namespace ringmax::graph {
namespace {

using testing::GradientCheck;
using testing::random_array;
using Kind = RematPolicy::Kind;

std::vector<RematPolicy> policies() {
  return {{Kind::kSaveAll, {}},
          {Kind::kSaveNothing, {}},
          {Kind::kSaveNames, {"kept"}}};
}

ScanOptions steps(std::int64_t length, bool reverse = false,
                  RematPolicy remat = {}, bool unroll = false) {
  ScanOptions options;
  options.unroll = unroll;
  options.length = length;
  options.reverse = reverse;
  options.remat = std::move(remat);
  return options;
}

Values join(const ScanValues& s) {
  Values all = s.carry;
  all.insert(all.end(), s.stacked.begin(), s.stacked.end());
  return all;
}

// Carry [2], xs [4, 2], a captured weight [2, 2], the index, and a stacked
// result.
Values recurrence(Graph& g, const Values& x, const ScanOptions& options) {
  return join(scan(g, {x[0]}, {x[1]}, options,
                   [&](Value i, const Values& carry, const Values& slice) {
                     const Value mixed = checkpoint_name(
                         einsum("a,ab->b", carry[0], x[2]) + slice[0], "kept");
                     const Value step =
                         broadcast_to(convert(i, DType::kF64), {2});
                     const Value next = tanh(mixed) + step * 0.1 * carry[0];
                     return ScanValues{{next}, {exp(next) * slice[0]}};
                   }));
}
const std::vector<Dims> kRecurrence = {{2}, {4, 2}, {2, 2}};

TEST(ControlGradient, ScanUnderEveryPolicyAndDirection) {
  GradientCheck check;
  for (const RematPolicy& policy : policies()) {
    for (const bool reverse : {false, true}) {
      for (const bool unroll : {false, true}) {
        check.add(unroll ? "scan written out" : "scan", kRecurrence, 0.2, 0.8,
                  [&](const Values& x) {
                    return recurrence(check.graph(), x,
                                      steps(4, reverse, policy, unroll));
                  });
      }
    }
  }
  check.add(
      "scan of one step", {{2}, {1, 2}, {2, 2}}, 0.2, 0.8,
      [&](const Values& x) { return recurrence(check.graph(), x, steps(1)); });
  check.add("only the stacked result", kRecurrence, 0.2, 0.8,
            [&](const Values& x) {
              return Values{recurrence(check.graph(), x, steps(4))[1]};
            });
  check.expect_all();
}

TEST(ControlGradient, NestedScans) {
  GradientCheck check;
  Graph& g = check.graph();
  for (const RematPolicy& outer : policies()) {
    for (const RematPolicy& inner : policies()) {
      // The inner loop captures the outer's carry, its slice, and x[2] of the
      // main block.
      check.add("nested", {{2}, {3, 2}, {2}}, 0.2, 0.8, [&](const Values& x) {
        return join(scan(g, {x[0]}, {x[1]}, steps(3, false, outer),
                         [&](Value, const Values& carry, const Values& slice) {
                           const ScanValues in = scan(
                               g, {carry[0]}, {}, steps(2, true, inner),
                               [&](Value, const Values& c, const Values&) {
                                 const Value m = checkpoint_name(
                                     c[0] * slice[0] + carry[0] * x[2], "kept");
                                 return ScanValues{{sine(m)}, {m * x[2]}};
                               });
                           return ScanValues{{in.carry[0] * exp(carry[0])},
                                             {reduce_sum(in.stacked[0], {0})}};
                         }));
      });
    }
  }
  check.expect_all();
}

TEST(ControlGradient, NestedScansOverComputedValues) {
  GradientCheck check;
  Graph& g = check.graph();
  for (const RematPolicy& outer : policies()) {
    for (const RematPolicy& inner : policies()) {
      // What the inner loop starts from, walks and captures is computed by the
      // outer body, so a policy may have to compute it again.
      check.add("nested", {{2}, {2}}, 0.2, 0.8, [&](const Values& x) {
        return scan(g, {x[0]}, {}, steps(3, false, outer),
                    [&](Value, const Values& carry, const Values&) {
                      const Value e = exp(carry[0] * 0.5);
                      const Value s = sine(carry[0] * x[1]);
                      const Value rows = broadcast_to(cosine(e), {2, 2});
                      const Value c =
                          scan(
                              g, {e}, {rows}, steps(2, true, inner),
                              [&](Value, const Values& c, const Values& row) {
                                return ScanValues{{c[0] * exp(row[0] * s)}, {}};
                              })
                              .carry[0];
                      return ScanValues{{c * 0.6}, {}};
                    })
            .carry;
      });
    }
  }
  check.expect_all();
}

TEST(ControlGradient, CarriesWithoutOrLaterWithDerivative) {
  GradientCheck check;
  Graph& g = check.graph();
  for (const RematPolicy& policy : policies()) {
    check.add("integer carry", {{2}}, 0.2, 0.8, [&](const Values& x) {
      const Value zero = constant(g, Shape(DType::kI32, {}), 1);
      const ScanValues out = scan(
          g, {zero, x[0]}, {}, steps(4, false, policy),
          [&](Value, const Values& c, const Values&) {
            const Value f = broadcast_to(convert(c[0], DType::kF64), {2});
            return ScanValues{{c[0] + c[0], c[1] * (exp(f * c[1] * 0.01))}, {}};
          });
      return Values{out.carry[1]};
    });
    // Carries that start as constants: the first feeds the second one step
    // later, and is fed by a capture.
    check.add("active only inside", {{2}}, 0.2, 0.8, [&](const Values& x) {
      const Value start = constant(g, Shape(DType::kF64, {2}), 0.5);
      return join(scan(g, {start, start}, {}, steps(4, false, policy),
                       [&](Value, const Values& c, const Values&) {
                         return ScanValues{{c[1] * x[0], exp(c[0]) * 0.3}, {}};
                       }));
    });
    check.add("a carry passed on and one replaced", {{2}, {2}}, 0.2, 0.8,
              [&](const Values& x) {
                return join(scan(
                    g, {x[0], x[1]}, {}, steps(3, false, policy),
                    [&](Value, const Values& c, const Values&) {
                      return ScanValues{{c[0], c[0] * c[0]}, {c[1] * c[0]}};
                    }));
              });
    check.add("swapped carries", {{2}, {2}}, 0.2, 0.8, [&](const Values& x) {
      return join(scan(g, {x[0], x[1]}, {}, steps(3, false, policy),
                       [&](Value, const Values& c, const Values&) {
                         return ScanValues{{c[1], c[0] * c[1]}, {c[0], c[0]}};
                       }));
    });
  }
  check.expect_all();
}

TEST(ControlGradient, Checkpoint) {
  GradientCheck check;
  Graph& g = check.graph();
  for (const RematPolicy& policy : policies()) {
    check.add("checkpoint", {{2}, {2}}, 0.2, 0.8, [&](const Values& x) {
      return checkpoint(g, {x[0]}, policy, [&](const Values& in) {
        const Value y = checkpoint_name(exp(in[0] * in[0]), "kept");
        return Values{sine(y) * x[1], y};
      });
    });
  }
  check.expect_all();
}

TEST(ControlGradient, Cond) {
  GradientCheck check;
  Graph& g = check.graph();
  for (const double which : {0.0, 1.0}) {
    const auto flag = [&] {
      return equal(constant(g, Shape(DType::kI32, {}), which),
                   constant(g, Shape(DType::kI32, {}), 1));
    };
    check.add("cond", {{2}, {3}}, 0.2, 0.8, [&](const Values& x) {
      const Value y = exp(x[0]);
      Values out = cond(
          g, flag(),
          [&] {
            return Values{y * x[0], sine(x[1])};
          },
          [&] {
            return Values{y * y, x[1]};
          });
      return out;
    });
    check.add("a branch that ignores an input", {{2}, {2}}, 0.2, 0.8,
              [&](const Values& x) {
                const Values out = cond(
                    g, flag(), [&] { return Values{x[0] * x[0]}; },
                    [&] { return Values{x[1] * x[1]}; });
                return Values{out[0] * x[0] * x[1]};
              });
    for (const RematPolicy& policy : policies()) {
      check.add("cond in a scan", {{2}, {2}}, 0.2, 0.8, [&](const Values& x) {
        return join(scan(g, {x[0]}, {}, steps(4, false, policy),
                         [&](Value i, const Values& c, const Values&) {
                           const Value first =
                               less(i, constant(g, Shape(DType::kI32, {}), 2));
                           const Value y = exp(c[0] * 0.5);
                           return ScanValues{
                               cond(
                                   g, first, [&] { return Values{y * x[1]}; },
                                   [&] { return Values{sine(c[0] * x[1])}; }),
                               {y}};
                         }));
      });
    }
  }
  check.expect_all();
}

// Outputs x * x * scale[index] and sin(x); residuals are the inputs and the
// first output.
Values custom(Graph& g, Value x, Value index, std::size_t* backward_calls) {
  const std::vector<double> scale = {2, 3, 5};
  const auto scale_at = [scale, &g](Value i, const Dims& dims) {
    return broadcast_to(
        take_rows(constant(g, HostArray::from<double>({3}, scale)), i), dims);
  };
  return custom_vjp(
      g, {x, index},
      [&](const Values& in) {
        const Value y = in[0] * in[0] * scale_at(in[1], in[0].dims());
        return CustomVjpForward{
            {y, sine(in[0])}, {in[0], in[1], y}, {"", "", "kept"}};
      },
      [&](const Values& r, const Values& ct) {
        ++*backward_calls;
        return Values{ct[0] * r[2] * 2.0 / r[0] + ct[1] * cosine(r[0]), {}};
      });
}

TEST(ControlGradient, CustomVjp) {
  GradientCheck check;
  Graph& g = check.graph();
  std::size_t calls = 0;
  const auto index = [&] { return constant(g, Shape(DType::kI32, {}), 2); };
  check.add("both outputs", {{3}}, 0.2, 0.8, [&](const Values& x) {
    return custom(g, exp(x[0]), index(), &calls);
  });
  for (const std::size_t used : {0, 1}) {
    check.add("one output", {{3}}, 0.2, 0.8, [&](const Values& x) {
      return Values{custom(g, exp(x[0]), index(), &calls)[used]};
    });
  }
  for (const RematPolicy& policy : policies()) {
    check.add("in a scan", {{3}, {3}}, 0.2, 0.8, [&](const Values& x) {
      return join(scan(g, {x[0]}, {}, steps(3, false, policy),
                       [&](Value i, const Values& c, const Values&) {
                         const Values y = custom(g, c[0] * x[1], i, &calls);
                         return ScanValues{{tanh(y[0])}, {y[1]}};
                       }));
    });
  }
  check.expect_all();
  EXPECT_GT(calls, 0u);
}

TEST(ControlGradient, CustomVjpIsWhatIsUsed) {
  // A wrong gradient on purpose: differences would not give it.
  Graph g;
  const Value x = g.parameter("x", Shape(DType::kF64, {2}));
  const Value y = custom_vjp(
      g, {x},
      [](const Values& in) {
        return CustomVjpForward{{in[0] * in[0]}, {in[0]}, {}};
      },
      [](const Values& r, const Values& ct) {
        return Values{ct[0] * (r[0] + 100.0)};
      })[0];
  g.result("gradient", gradient(reduce_sum(y, {0}), {x})[0]);
  const HostArray in = random_array({2}, 0, 1, 5);
  const HostArray out = ringmax::testing::run_graph(g, {in})[0];
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(out.data<double>()[i], in.data<double>()[i] + 100);
  }
}

struct UnderPolicy {
  std::size_t saved;  // stacked results that the gradient added
  std::vector<std::vector<double>> gradients;
};

UnderPolicy run_under(const RematPolicy& policy) {
  Graph g;
  Values x;
  std::vector<HostArray> arguments;
  for (std::size_t k = 0; k < kRecurrence.size(); ++k) {
    x.push_back(g.parameter("x" + std::to_string(k),
                            Shape(DType::kF64, kRecurrence[k])));
    arguments.push_back(random_array(kRecurrence[k], 0.2, 0.8, k));
  }
  const Values y = recurrence(g, x, steps(4, false, policy));
  const std::size_t before = g.node(y[0]).results.size();
  const Value loss = reduce_sum(y[0], {0}) + reduce_sum(y[1], {0, 1});
  for (const Value& d : gradient(loss, x)) g.result("d", d);
  UnderPolicy out;
  out.saved = g.node(y[0]).results.size() - before;
  for (const HostArray& d : ringmax::testing::run_graph(g, arguments)) {
    out.gradients.emplace_back(d.data<double>().begin(),
                               d.data<double>().end());
  }
  return out;
}

TEST(ControlGradient, PoliciesKeepLessAndAgree) {
  const UnderPolicy all = run_under({Kind::kSaveAll, {}});
  const UnderPolicy nothing = run_under({Kind::kSaveNothing, {}});
  const UnderPolicy names = run_under({Kind::kSaveNames, {"kept"}});
  const UnderPolicy no_such = run_under({Kind::kSaveNames, {"other"}});
  // The carry is always kept: it is where a step starts.
  EXPECT_EQ(nothing.saved, 1u);
  EXPECT_EQ(names.saved, 2u);
  EXPECT_EQ(no_such.saved, 1u);
  EXPECT_GT(all.saved, names.saved);
  // The same sums in another fusion: a few units in the last place of 1.
  constexpr double kRounding = 1e-14;
  for (const UnderPolicy* other : {&nothing, &names, &no_such}) {
    for (std::size_t k = 0; k < all.gradients.size(); ++k) {
      for (std::size_t i = 0; i < all.gradients[k].size(); ++i) {
        EXPECT_NEAR(other->gradients[k][i], all.gradients[k][i],
                    kRounding * (1 + std::abs(all.gradients[k][i])));
      }
    }
  }
}

}  // namespace
}  // namespace ringmax::graph
