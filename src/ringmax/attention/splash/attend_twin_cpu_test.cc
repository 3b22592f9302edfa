// kernel=mosaic_twin inside attend(): every feature at once and every kind of
// block, against the reference; known_cases_cpu_test.cc has the known answers.
#include <gtest/gtest.h>

#include "ringmax/attention/testing/attend_runner.h"

namespace ringmax::attention::splash {
namespace {

using attention::testing::AttendRunner;
using attention::testing::Case;
using attention::testing::everything_case;
using attention::testing::random_case;
using attention::testing::RunSettings;

// Float32 sums of some dozen products, as for every other kernel.
constexpr double kForwardTolerance = 2e-5;
constexpr double kGradientTolerance = 5e-5;

RunSettings twin(Strategy strategy, std::int64_t devices, LayoutKind layout) {
  RunSettings how;
  how.kernel = "mosaic_twin";
  how.strategy = strategy;
  how.devices = devices;
  how.layout = layout;
  return how;
}

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

TEST(AttendTwin, EveryFeatureAtOnce) {
  AttendRunner runner;
  const Case c = everything_case();
  const ReferenceOutputs want = reference_attention(c.inputs);
  expect_near(runner.run(c, twin(Strategy::kRing, 3, LayoutKind::kStriped)),
              want);
  expect_near(
      runner.run(c, twin(Strategy::kAllGather, 2, LayoutKind::kContiguous)),
      want);
}

// Blocks of 128, several of them: empty, full, triangular (strict ones too) and
// partial pairs, windows of several parts, heads of a group one after the
// other.
TEST(AttendTwin, EveryKindOfBlock) {
  AttendRunner runner;
  for (const Mask& mask :
       {Mask::causal(), Mask::local(200, 0), Mask::chunked(160),
        Mask::causal(-64) | Mask::local(3, 3)}) {
    SCOPED_TRACE(mask.to_string());
    const Case c = random_case("blocks", mask, 1, 640, 640, 2, 1, 16, 2, 17);
    const ReferenceOutputs want = reference_attention(c.inputs);
    RunSettings how = twin(Strategy::kSingle, 1, LayoutKind::kContiguous);
    how.block = 128;
    expect_near(runner.run(c, how), want);
  }
  const Case c =
      random_case("striped", Mask::causal(), 1, 512, 512, 2, 1, 16, 2, 18);
  RunSettings how = twin(Strategy::kRing, 2, LayoutKind::kStriped);
  how.block = 128;
  expect_near(runner.run(c, how), reference_attention(c.inputs));
}

}  // namespace
}  // namespace ringmax::attention::splash
