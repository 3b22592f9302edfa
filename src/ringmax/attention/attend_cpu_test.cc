// attend() on virtual devices: known answers, the reference, the collectives.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "ringmax/attention/attend.h"
#include "ringmax/attention/testing/attend_runner.h"
#include "ringmax/graph/print.h"

namespace ringmax::attention {
namespace {

using testing::AttendRunner;
using testing::build_case;
using testing::Case;
using testing::everything_case;
using testing::random_case;
using testing::RunSettings;

// Float32 against float64: sums of some dozen products of rounded factors,
// each rounding 6e-8 of values up to 16; gradients go through two such sums.
constexpr double kForwardTolerance = 2e-5;
constexpr double kGradientTolerance = 5e-5;

void expect_near(const ReferenceOutputs& got, const ReferenceOutputs& want) {
  EXPECT_LE(attention_error(got.out, want.out), kForwardTolerance);
  EXPECT_LE(attention_error(got.lse, want.lse), kForwardTolerance);
  EXPECT_LE(attention_error(got.max_logits, want.max_logits),
            kForwardTolerance);
  EXPECT_LE(attention_error(got.dq, want.dq), kGradientTolerance);
  EXPECT_LE(attention_error(got.dk, want.dk), kGradientTolerance);
  EXPECT_LE(attention_error(got.dv, want.dv), kGradientTolerance);
  EXPECT_LE(attention_error(got.dsinks, want.dsinks), kGradientTolerance);
}

std::int64_t count_of(const std::string& text, std::string_view word) {
  std::int64_t count = 0;
  for (std::size_t at = text.find(word); at != std::string::npos;
       at = text.find(word, at + 1)) {
    ++count;
  }
  return count;
}

RunSettings on(Strategy strategy, std::int64_t devices, LayoutKind layout,
               std::int64_t block = 3) {
  RunSettings how;
  how.strategy = strategy;
  how.devices = devices;
  how.layout = layout;
  how.block = block;
  if (strategy == Strategy::kUsp) how.ulysses = 2;
  return how;
}

// Logits of a wide spread and grouped heads, on rings of every kind of size:
// against the reference, and against the same kernel on one device.
TEST(AttendCpuTest, ARingGivesWhatOneDeviceGives) {
  constexpr double kDeviation = 4;
  const Case c = random_case("spread", Mask::causal(), 2, 48, 48, 8, 2, 16,
                             kDeviation, 11);
  const ReferenceOutputs want = reference_attention(c.inputs);
  for (const char* kernel : {"stablehlo", "native"}) {
    AttendRunner runner;
    const auto run = [&](std::int64_t ring) {
      RunSettings how = on(Strategy::kRing, ring, LayoutKind::kContiguous, 4);
      how.kernel = kernel;
      return runner.run(c, how);
    };
    const ReferenceOutputs single = run(1);
    for (const std::int64_t ring : {1, 2, 3, 4, 8}) {
      SCOPED_TRACE(fmt::format("{} on a ring of {}", kernel, ring));
      const ReferenceOutputs got = run(ring);
      expect_near(got, want);
      expect_near(got, single);
    }
  }
}

TEST(AttendCpuTest, EveryFeatureUnderEveryStrategy) {
  AttendRunner runner;
  const Case c = everything_case();
  const ReferenceOutputs want = reference_attention(c.inputs);
  for (const RunSettings& how :
       {on(Strategy::kSingle, 1, LayoutKind::kContiguous),
        on(Strategy::kRing, 3, LayoutKind::kContiguous),
        on(Strategy::kRing, 4, LayoutKind::kZigzag),
        on(Strategy::kAllGather, 2, LayoutKind::kZigzag),
        on(Strategy::kUlysses, 4, LayoutKind::kStriped),
        on(Strategy::kUsp, 4, LayoutKind::kZigzag)}) {
    SCOPED_TRACE(how.to_string());
    expect_near(runner.run(c, how), want);
  }
}

TEST(AttendCpuTest, BothWaysRoundAndInALoop) {
  AttendRunner runner;
  const Case c = everything_case();
  const ReferenceOutputs want = reference_attention(c.inputs);
  for (const std::int64_t unroll : {0, 1, 2}) {
    for (const bool bidirectional : {false, true}) {
      RunSettings how = on(Strategy::kRing, 7, LayoutKind::kStriped);
      how.ring_scan_unroll = unroll;
      how.bidirectional = bidirectional;
      SCOPED_TRACE(how.to_string());
      expect_near(runner.run(c, how), want);
    }
  }
}

// bfloat16 in and out, sums in float32: what a ring adds is float32's, so its
// error is that of one device. A quarter of chance, and half for the doubt.
TEST(AttendCpuTest, Bf16ErrorDoesNotGrowWithTheRing) {
  AttendRunner runner;
  Case c = random_case("bf16", Mask::causal(), 1, 64, 64, 4, 2, 16, 1, 7);
  for (auto* values : {&c.inputs.q, &c.inputs.k, &c.inputs.v, &c.inputs.dout}) {
    for (double& value : *values) {
      value = bf16_to_float(float_to_bf16(static_cast<float>(value)));
    }
  }
  const ReferenceOutputs want = reference_attention(c.inputs);
  const auto errors = [&](std::int64_t ring) {
    RunSettings how = on(Strategy::kRing, ring, LayoutKind::kZigzag, 16);
    how.dtype = DType::kBF16;
    how.ring_scan_unroll = 1;
    const ReferenceOutputs got = runner.run(c, how);
    return std::vector<double>{
        attention_error(got.out, want.out), attention_error(got.dq, want.dq),
        attention_error(got.dk, want.dk), attention_error(got.dv, want.dv)};
  };
  const std::vector<double> single = errors(1);
  for (const std::int64_t ring : {2, 3, 4, 5, 6, 8}) {
    const std::vector<double> many = errors(ring);
    for (std::size_t i = 0; i < many.size(); ++i) {
      EXPECT_LE(many[i], 1.5 * single[i]) << "ring " << ring << " tensor " << i;
      EXPECT_LE(many[i], 0x1p-7) << "ring " << ring << " tensor " << i;
    }
  }
}

// Case 13, the variant for CI: sums of 512 bf16 terms over 8 devices. dV_0 is
// the 512th harmonic number, rounded once; sums in bf16 would stop growing
// before 6.
TEST(AttendCpuTest, SumsOfBf16AreFloat32) {
  constexpr std::int64_t kLength = 512;
  Case c;
  c.mask = Mask::causal();
  ReferenceInputs& in = c.inputs;
  in.queries = in.keys = kLength;
  in.q.assign(kLength, 0);
  in.k = in.q;
  in.v = in.q;
  in.dout.assign(kLength, 1);
  RunSettings how = on(Strategy::kRing, 8, LayoutKind::kContiguous, 16);
  how.dtype = DType::kBF16;
  how.ring_scan_unroll = 1;
  double harmonic = 0;
  for (std::int64_t i = 1; i <= kLength; ++i) {
    harmonic += 1 / static_cast<double>(i);
  }
  AttendRunner runner;
  EXPECT_NEAR(runner.run(c, how).dv[0], harmonic, 0.032);
}

// The gradient of a row that sees nothing may be anything at all.
TEST(AttendCpuTest, BlindRowsTakeNoGradientEvenOfInfinity) {
  Case c = random_case("blind", Mask::causal(-5), 1, 16, 16, 2, 1, 4, 1, 5);
  c.inputs.sinks = {0.5, -1};
  AttendRunner runner;
  const RunSettings how = on(Strategy::kRing, 4, LayoutKind::kStriped);
  const ReferenceOutputs before = runner.run(c, how);
  const auto blind = c.inputs.dout.begin() + 5 * 2 * 4;
  for (const double value : {0.0, 1e6, std::numeric_limits<double>::infinity(),
                             -std::numeric_limits<double>::infinity()}) {
    std::fill(c.inputs.dout.begin(), blind, value);
    const ReferenceOutputs got = runner.run(c, how);
    EXPECT_EQ(got.dq, before.dq);
    EXPECT_EQ(got.dk, before.dk);
    EXPECT_EQ(got.dv, before.dv);
    EXPECT_EQ(got.dsinks, before.dsinks);
    for (std::size_t i = 0; i < 5 * 2 * 4; ++i) EXPECT_EQ(got.dq[i], 0);
  }
}

TEST(AttendCpuTest, ARingSendsEveryPayloadOnceAStep) {
  Case c = random_case("sends", Mask::full(), 1, 24, 24, 4, 2, 8, 1, 8);
  const std::vector<double> dout = c.inputs.dout;
  for (std::int64_t ring : {1, 2, 3, 4, 6, 8}) {
    SCOPED_TRACE(ring);
    const RunSettings how = on(Strategy::kRing, ring, LayoutKind::kContiguous);
    c.inputs.dout.clear();
    const std::string forward = graph::print_stablehlo(*build_case(c, how));
    // Keys and values.
    EXPECT_EQ(count_of(forward, "stablehlo.collective_permute"),
              2 * (ring - 1));
    c.inputs.dout = dout;
    const std::string both = graph::print_stablehlo(*build_case(c, how));
    // Forward, backward, and the gradients' way home.
    EXPECT_EQ(count_of(both, "stablehlo.collective_permute"), 6 * (ring - 1));
    for (const char* other : {"all_gather", "all_reduce", "reduce_scatter"}) {
      EXPECT_EQ(count_of(both, fmt::format("stablehlo.{}", other)), 0);
    }
    EXPECT_EQ(count_of(forward, "ring_send") > 0, ring > 1);
  }
}

TEST(AttendCpuTest, OtherStrategiesSendWhatTheyAreNamedFor) {
  const Case c = random_case("gathers", Mask::full(), 1, 24, 24, 4, 2, 8, 1, 8);
  const auto text = [&](Strategy strategy) {
    return graph::print_stablehlo(
        *build_case(c, on(strategy, 4, LayoutKind::kContiguous)));
  };
  const std::string gathered = text(Strategy::kAllGather);
  EXPECT_EQ(count_of(gathered, "stablehlo.all_gather"), 4);
  EXPECT_EQ(count_of(gathered, "stablehlo.reduce_scatter"), 2);
  EXPECT_EQ(count_of(gathered, "stablehlo.collective_permute"), 0);
  const std::string traded = text(Strategy::kUlysses);
  EXPECT_EQ(count_of(traded, "stablehlo.collective_permute"), 0);
  EXPECT_EQ(count_of(traded, "stablehlo.all_gather"), 0);
  EXPECT_GT(count_of(traded, "stablehlo.all_to_all"), 0);
  // A ring of two.
  EXPECT_EQ(count_of(text(Strategy::kUsp), "stablehlo.collective_permute"), 6);
}

// The window of a long sequence, at its real size: programs are only text.
TEST(AttendCpuTest, AWindowSendsKeysToNeighboursOnly) {
  Case c;
  c.mask = Mask::local(4095, 0);
  ReferenceInputs& in = c.inputs;
  in.queries = in.keys = 65536;
  in.query_heads = 4;
  in.kv_heads = 1;
  in.head_dim = in.value_dim = 64;
  const auto sends = [&](LayoutKind layout, bool gradients) {
    in.dout.assign(gradients ? 1 : 0, 0);
    return count_of(graph::print_stablehlo(
                        *build_case(c, on(Strategy::kRing, 8, layout, 512))),
                    "stablehlo.collective_permute");
  };
  // Keys and values once, and their gradients once home.
  EXPECT_EQ(sends(LayoutKind::kContiguous, false), 2);
  EXPECT_EQ(sends(LayoutKind::kContiguous, true), 2 + 2 + 2);
  // Chunk d has both its neighbours' chunks on the devices beside its own.
  EXPECT_EQ(sends(LayoutKind::kZigzag, false), 2 * 2);
  EXPECT_EQ(sends(LayoutKind::kZigzag, true), 2 * 2 * 3);
}

}  // namespace
}  // namespace ringmax::attention
