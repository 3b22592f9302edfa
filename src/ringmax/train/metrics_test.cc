#include "ringmax/train/metrics.h"

#include <gtest/gtest.h>

#include <cmath>

#include "ringmax/base/testing/temp_dir.h"

namespace ringmax::train {
namespace {

StepMetrics example() {
  return {.step = 12,
          .loss = 2.34561,
          .grad_norm = 0.98,
          .learning_rate = 3e-4,
          .step_time_s = 0.2312,
          .tokens_per_s = 17716.3,
          .tflops_per_device = 0.1234,
          .total_weights = 4096};
}

TEST(StepLine, ReadsAsPromised) {
  EXPECT_EQ(format_step_line(example(), 100, 8, std::nullopt),
            "step 12/100  loss 2.3456  grad_norm 0.98  lr 3.0e-04  231 ms  "
            "17,716 tok/s  2,215 tok/s/device  0.12 TFLOP/s/device  MFU n/a");
}

TEST(StepLine, LargeSmallAndBrokenValues) {
  StepMetrics metrics = example();
  metrics.loss = std::nan("");
  metrics.grad_norm = INFINITY;
  metrics.tokens_per_s = 1234567;
  metrics.tflops_per_device = 0.00123;
  EXPECT_EQ(format_step_line(metrics, 100, 1, 0.4567),
            "step 12/100  loss nan  grad_norm inf  lr 3.0e-04  231 ms  "
            "1,234,567 tok/s  1,234,567 tok/s/device  0.0012 TFLOP/s/device  "
            "MFU 45.7%");
  metrics = {};
  EXPECT_EQ(format_step_line(metrics, 1, 1, 0),
            "step 0/1  loss 0.0000  grad_norm 0.00  lr 0.0e+00  0 ms  0 tok/s  "
            "0 tok/s/device  0.00 TFLOP/s/device  MFU 0.0%");
  metrics.tokens_per_s = 999;
  metrics.grad_norm = 0.042;
  EXPECT_EQ(format_step_line(metrics, 1, 1, 0),
            "step 0/1  loss 0.0000  grad_norm 0.042  lr 0.0e+00  0 ms  999 "
            "tok/s  999 tok/s/device  0.00 TFLOP/s/device  MFU 0.0%");
}

TEST(MetricsJson, OneObject) {
  StepMetrics metrics = example();
  metrics.grad_norm = std::nan("");
  EXPECT_EQ(metrics_json(metrics),
            R"({"step":12,"loss":2.34561,"grad_norm":null,)"
            R"("learning_rate":0.0003,"step_time_s":0.2312,)"
            R"("tokens_per_s":17716.3,"tflops_per_device":0.1234,)"
            R"("total_weights":4096.0})");
}

TEST(MetricsJson, LargestLogitsWhenTheyWereRecorded) {
  StepMetrics metrics = example();
  metrics.max_logits = {1.5, 0.25};
  EXPECT_TRUE(metrics_json(metrics).ends_with(R"("max_logits":[1.5,0.25]})"));
}

TEST(MetricsWriter, FreshOrResumedWithoutStepsTwice) {
  const TempDir dir;
  const std::string path = dir.path() + "/metrics.jsonl";
  const auto lines = [&](std::initializer_list<int> steps) {
    std::string text;
    for (const int step : steps) {
      text += metrics_json({.step = step}) + "\n";
    }
    return text;
  };
  const auto run = [&](std::int64_t resumed, std::initializer_list<int> steps) {
    MetricsWriter writer(dir.path(), resumed);
    for (const int step : steps) writer.write({.step = step});
  };
  run(0, {1, 2, 3});
  EXPECT_EQ(read_file(path), lines({1, 2, 3}));
  run(2, {3, 4});
  EXPECT_EQ(read_file(path), lines({1, 2, 3, 4}));
  dir.write("metrics.jsonl", lines({1, 2}) + "garbage\n{\"step\":3,\"lo");
  run(4, {5});
  EXPECT_EQ(read_file(path), lines({1, 2, 5}));
  run(0, {1});
  EXPECT_EQ(read_file(path), lines({1}));
}

}  // namespace
}  // namespace ringmax::train
