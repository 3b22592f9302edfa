#include "ringmax/train/setup.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ringmax/analysis/testing/hlo_builder.h"
#include "ringmax/base/error.h"

namespace ringmax::train {
namespace {

using ::testing::HasSubstr;

TEST(Setup, SaysWhatTheMachineCannotHold) {
  const std::vector<std::string> args = {
      "model_name=llama3.1-8b", "max_target_length=1048576",
      "ici_context_parallelism=8", "per_device_batch_size=16"};
  const config::Config config = config::load(args);
  try {
    check_host_memory(config);
    FAIL() << "not refused";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kResourceExhausted);
    EXPECT_THAT(error.message(), HasSubstr("model_name=llama3.1-8b"));
    EXPECT_THAT(error.message(), HasSubstr("GB to give"));
  }
}

TEST(Setup, RefusesAStepWhoseDevicesMayWaitForEachOtherForEver) {
  using analysis::testing::loop_then_sum;
  const std::vector<std::string> args = {
      "model_name=tiny", "ici_context_parallelism=8",
      "per_device_batch_size=0.125", "scan_layers=false"};
  const config::Config config = config::load(args);
  check_collective_order(config, loop_then_sum("collective-permute", true));
  try {
    check_collective_order(config, loop_then_sum("collective-permute", false));
    FAIL() << "not refused";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kFailedPrecondition);
    EXPECT_EQ(exit_code_for(error.code()), 2);
    EXPECT_THAT(error.message(), HasSubstr("scan_layers=false: 8 devices"));
    EXPECT_THAT(error.message(),
                HasSubstr("all-reduce.9 may overtake while.7"));
    EXPECT_THAT(error.message(), HasSubstr("scan_layers=true makes another"));
  }
}

}  // namespace
}  // namespace ringmax::train
