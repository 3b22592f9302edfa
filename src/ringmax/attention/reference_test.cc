#include "ringmax/attention/reference.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "ringmax/attention/testing/cases.h"
#include "ringmax/base/error.h"

namespace ringmax::attention {
namespace {

using ::testing::IsEmpty;

TEST(Reference, AnswersTheKnownCases) {
  EXPECT_THAT(testing::run_known_cases(
                  [](const testing::Case& c, std::int64_t, LayoutKind) {
                    return reference_attention(c.inputs);
                  }),
              IsEmpty());
}

// The suite itself catches the faults it is there for.
TEST(KnownCases, CatchWrongResults) {
  const auto findings = [](auto spoil) {
    return testing::run_known_cases(
               [&](const testing::Case& c, std::int64_t, LayoutKind) {
                 ReferenceOutputs result = reference_attention(c.inputs);
                 spoil(result);
                 return result;
               })
        .size();
  };
  EXPECT_GT(findings([](auto& r) { r.out[3] += 1e-3; }), 0U);
  EXPECT_GT(findings([](auto& r) { r.out.back() = std::nan(""); }), 0U);
  EXPECT_GT(findings([](auto& r) {
              for (double& x : r.lse) x /= std::log(2);
            }),
            0U);
  EXPECT_GT(findings([](auto& r) { r.dq[0] += 1e-9; }), 0U);
  EXPECT_GT(findings([](auto& r) { r.dv.clear(); }), 0U);
}

// sum(out * dout) for central differences.
double objective(const ReferenceInputs& in) {
  const ReferenceOutputs result = reference_attention(in);
  double sum = 0;
  for (std::size_t i = 0; i < in.dout.size(); ++i) {
    sum += result.out[i] * in.dout[i];
  }
  return sum;
}

void expect_gradient(const ReferenceInputs& in,
                     std::vector<double> ReferenceInputs::*field,
                     const std::vector<double>& gradient, const char* what) {
  constexpr double kStep = 1e-5;
  ASSERT_EQ(gradient.size(), (in.*field).size()) << what;
  std::vector<double> numeric;
  ReferenceInputs moved = in;
  for (std::size_t i = 0; i < gradient.size(); ++i) {
    const double at = (in.*field)[i];
    (moved.*field)[i] = at + kStep;
    const double above = objective(moved);
    (moved.*field)[i] = at - kStep;
    const double below = objective(moved);
    (moved.*field)[i] = at;
    numeric.push_back((above - below) / (2 * kStep));
  }
  EXPECT_LT(attention_error(gradient, numeric), 1e-8) << what;
}

TEST(Reference, GradientsMeetCentralDifferences) {
  for (bool capped : {false, true}) {
    for (bool sink : {false, true}) {
      for (bool segments : {false, true}) {
        for (const Mask& mask :
             {Mask::full(), Mask::causal(), Mask::causal(-2)}) {
          ReferenceInputs in =
              testing::random_case("gradient", mask, 2, 5, 7, 4, 2, 3, 1, 7)
                  .inputs;
          if (capped) in.soft_cap = 1.5;
          if (sink) in.sinks = {0.5, -1, 2, 0};
          if (segments) {
            in.query_segments = {1, 1, 2, 2, 0, 1, 2, 2, 2, 3};
            in.kv_segments = {1, 1, 1, 2, 2, 0, 3, 1, 2, 2, 2, 3, 3, 0};
          }
          const ReferenceOutputs result = reference_attention(in);
          expect_gradient(in, &ReferenceInputs::q, result.dq, "dq");
          expect_gradient(in, &ReferenceInputs::k, result.dk, "dk");
          expect_gradient(in, &ReferenceInputs::v, result.dv, "dv");
          if (sink) {
            expect_gradient(in, &ReferenceInputs::sinks, result.dsinks,
                            "dsinks");
          }
        }
      }
    }
  }
}

// Case 11.
TEST(Reference, SinkTakesPartOnce) {
  ReferenceInputs in;
  in.queries = in.keys = 8;
  in.q.assign(8, 0);
  in.k.assign(8, 0);
  in.v.assign(8, 1);
  in.dout.assign(8, 1);
  in.sinks = {std::log(8.0)};
  const ReferenceOutputs result = reference_attention(in);
  for (std::size_t i = 0; i < 8; ++i) {
    EXPECT_NEAR(result.out[i], 0.5, 1e-15);
    EXPECT_NEAR(result.lse[i], std::log(16.0), 1e-14);
    EXPECT_EQ(result.max_logits[i], 0);
  }
  EXPECT_NEAR(result.dsinks[0], 8 * -0.25, 1e-14);
}

// Case 12: capped value and slope, seen through lse and dq.
TEST(Reference, SoftCapBendsTheLogit) {
  ReferenceInputs in;
  in.queries = 1;
  in.keys = 2;
  in.q = {1};
  in.k = {2, 0};
  in.v = {1, 0};
  in.dout = {1};
  in.soft_cap = 2;
  const ReferenceOutputs result = reference_attention(in);
  EXPECT_NEAR(result.max_logits[0], 1.523188, 1e-6);
  const double p = 1 / (1 + std::exp(-result.max_logits[0]));
  EXPECT_NEAR(result.out[0], p, 1e-15);
  EXPECT_NEAR(result.dk[0], p * (1 - p) * 0.419974, 1e-6);
}

TEST(Reference, RowsThatSeeNothing) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  ReferenceInputs in;
  in.queries = in.keys = 2;
  in.q = in.k = in.v = {1, 2};
  in.dout = {1e6, 1};
  in.mask = [](std::int64_t i, std::int64_t) { return i == 1; };
  const ReferenceOutputs result = reference_attention(in);
  EXPECT_EQ(result.out[0], 0);
  EXPECT_EQ(result.lse[0], -kInfinity);
  EXPECT_EQ(result.max_logits[0], -kInfinity);
  EXPECT_EQ(result.dq[0], 0);
  in.sinks = {3};
  const ReferenceOutputs with_sink = reference_attention(in);
  EXPECT_EQ(with_sink.out[0], 0);
  EXPECT_EQ(with_sink.lse[0], 3);
  EXPECT_EQ(with_sink.max_logits[0], -kInfinity);
  in.dout[0] = 0;
  EXPECT_EQ(reference_attention(in).dsinks, with_sink.dsinks);
}

TEST(Reference, SegmentZeroIsPaddingAndValuesMayDifferInSize) {
  ReferenceInputs in;
  in.queries = in.keys = 3;
  in.value_dim = 2;
  in.q = in.k = {0, 0, 0};
  in.v = {1, 2, 3, 4, 1e9, 1e9};
  in.query_segments = in.kv_segments = {1, 1, 0};
  const ReferenceOutputs result = reference_attention(in);
  EXPECT_EQ(result.out, (std::vector<double>{2, 3, 2, 3, 0, 0}));
  EXPECT_TRUE(result.dq.empty());
}

TEST(Reference, RefusesWhatDoesNotFit) {
  ReferenceInputs good =
      testing::random_case("good", Mask::full(), 1, 2, 2, 2, 1, 2, 1, 1).inputs;
  const auto refuses = [&](auto change) {
    ReferenceInputs in = good;
    change(in);
    EXPECT_THROW(reference_attention(in), Error);
  };
  refuses([](auto& in) { in.q.pop_back(); });
  refuses([](auto& in) { in.v.push_back(0); });
  refuses([](auto& in) { in.dout.pop_back(); });
  refuses([](auto& in) { in.kv_heads = 3; });
  refuses([](auto& in) { in.query_segments = {1, 1}; });
  refuses([](auto& in) { in.sinks = {0}; });
  refuses([](auto& in) { in.soft_cap = 0; });
  refuses([](auto& in) { in.queries = 0; });
}

TEST(AttentionError, TellsInfinitiesAndNaNApart) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  EXPECT_EQ(attention_error({1, -kInfinity}, {1, -kInfinity}), 0);
  EXPECT_EQ(attention_error({1, -kInfinity}, {1, 0}), kInfinity);
  EXPECT_EQ(attention_error({std::nan("")}, {std::nan("")}), kInfinity);
  EXPECT_EQ(attention_error({1}, {1, 2}), kInfinity);
  EXPECT_EQ(attention_error({0.25}, {0}), 0.25);
  EXPECT_EQ(attention_error({11, 4}, {10, 4}), 0.1);
  EXPECT_EQ(attention_error({}, {}), 0);
}

}  // namespace
}  // namespace ringmax::attention
