#include "ringmax/train/setup.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

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

}  // namespace
}  // namespace ringmax::train
