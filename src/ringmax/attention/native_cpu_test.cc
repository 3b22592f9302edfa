// attend() with the native kernel on virtual devices.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ringmax/attention/native.h"
#include "ringmax/attention/testing/attend_runner.h"
#include "ringmax/attention/testing/late_device.h"

namespace ringmax::attention {
namespace {

using testing::AttendRunner;
using testing::Case;
using testing::RunSettings;

// Float32 against float64, as for any kernel; bfloat16 rounds operands, and
// weights too where the processor multiplies bfloat16 by itself.
constexpr double kTolerance = 5e-5;
constexpr double kBf16Tolerance = 2e-2;

RunSettings on(Strategy strategy, std::int64_t devices, LayoutKind layout) {
  RunSettings how;
  how.kernel = "native";
  how.strategy = strategy;
  how.devices = devices;
  how.layout = layout;
  if (strategy == Strategy::kUsp) how.ulysses = 2;
  return how;
}

void expect_near(const ReferenceOutputs& got, const ReferenceOutputs& want,
                 double tolerance) {
  EXPECT_LE(attention_error(got.out, want.out), tolerance);
  EXPECT_LE(attention_error(got.lse, want.lse), tolerance);
  EXPECT_LE(attention_error(got.max_logits, want.max_logits), tolerance);
  EXPECT_LE(attention_error(got.dq, want.dq), tolerance);
  EXPECT_LE(attention_error(got.dk, want.dk), tolerance);
  EXPECT_LE(attention_error(got.dv, want.dv), tolerance);
  EXPECT_LE(attention_error(got.dsinks, want.dsinks), tolerance);
}

TEST(NativeCpuTest, GivesTheKnownAnswersOnARing) {
  AttendRunner runner;
  for (const Case& c : testing::known_cases()) {
    const RunSettings how = on(Strategy::kRing, 4, LayoutKind::kZigzag);
    for (const std::string& finding :
         testing::check_case(c, runner.run(c, how))) {
      ADD_FAILURE() << how.to_string() << ": " << finding;
    }
  }
}

TEST(NativeCpuTest, EveryFeatureUnderEveryStrategy) {
  AttendRunner runner;
  Case c = testing::random_case("features", Mask::causal() & Mask::local(30, 0),
                                2, 90, 90, 4, 2, 16, 1, 3);
  for (std::int64_t i = 0; i < 180; ++i) {
    c.inputs.query_segments.push_back(i % 90 > 80 ? 0 : i % 90 < 40 ? 1 : 2);
  }
  c.inputs.kv_segments = c.inputs.query_segments;
  c.inputs.soft_cap = 3;
  c.inputs.sinks = {0.5, -1, 2, 0};
  const ReferenceOutputs want = reference_attention(c.inputs);
  for (const RunSettings& how :
       {on(Strategy::kSingle, 1, LayoutKind::kContiguous),
        on(Strategy::kRing, 4, LayoutKind::kZigzag),
        on(Strategy::kRing, 8, LayoutKind::kContiguous),
        on(Strategy::kAllGather, 2, LayoutKind::kZigzag),
        on(Strategy::kUlysses, 2, LayoutKind::kStriped),
        on(Strategy::kUsp, 4, LayoutKind::kZigzag)}) {
    SCOPED_TRACE(how.to_string());
    expect_near(runner.run(c, how), want, kTolerance);
  }
  RunSettings how = on(Strategy::kRing, 4, LayoutKind::kStriped);
  how.dtype = DType::kBF16;
  expect_near(runner.run(c, how), want, kBf16Tolerance);
}

TEST(NativeCpuTest, IsTakenWhereThePluginHasFfiAndRefusesElsewhere) {
  KernelRequest request;
  hw::Target target = hw::cpu_target(1);
  EXPECT_EQ(choose_backend("auto", request, target).backend->name(), "native");
  target.has_ffi = false;
  const BackendChoice choice = choose_backend("auto", request, target);
  EXPECT_EQ(choice.backend->name(), "stablehlo");
  EXPECT_THAT(choice.refused,
              ::testing::Contains("native: this plugin takes no FFI kernels"));
  EXPECT_TRUE(native_backend().refusal(request, hw::tpu_target("v5p-8")));
  request.dtype = DType::kF64;
  EXPECT_TRUE(native_backend().refusal(request, hw::cpu_target(1)));
}

TEST(NativeCpuTest, ADeviceThatIsLateDelaysTheOthersAndNothingElse) {
  for (const auto transport :
       {RingTransport::kCollective, RingTransport::kMemory}) {
    EXPECT_EQ(testing::late_device_finding(3, transport), "");
  }
}

}  // namespace
}  // namespace ringmax::attention
