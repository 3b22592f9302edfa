// Signals to a training run: the first ends it after the step in hand with all
// that a finished run leaves, the second ends it at once.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>

#include "ringmax/base/file.h"
#include "ringmax/base/safetensors.h"
#include "ringmax/base/testing/temp_dir.h"
#include "ringmax/cli/testing/child.h"

namespace ringmax::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

std::vector<std::string> train_command(const TempDir& dir, const char* length) {
  return {"train",
          "model_name=tiny",
          "dtype=float32",
          "run_name=run",
          "steps=100000",
          "per_device_batch_size=1",
          std::string("max_target_length=") + length,
          "base_output_directory=" + dir.path()};
}

std::vector<std::string> names_in(const std::string& directory) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(directory)) {
    names.push_back(entry.path().filename().string());
  }
  return names;
}

// Steps in metrics.jsonl, each line a whole object.
std::vector<int> steps_of(const std::string& run) {
  std::istringstream text(read_file(run + "/metrics.jsonl"));
  std::vector<int> steps;
  for (std::string line; std::getline(text, line);) {
    steps.push_back(nlohmann::json::parse(line).at("step").get<int>());
  }
  return steps;
}

class StopBySignal : public ::testing::TestWithParam<int> {};

TEST_P(StopBySignal, FinishesTheStepAndWritesAll) {
  const TempDir dir;
  const std::string run = dir.path() + "/run";
  Child child(train_command(dir, "128"));
  ASSERT_TRUE(child.wait_for("step 3/")) << child.output();
  child.signal(GetParam());
  EXPECT_EQ(child.wait(), 0) << child.output();
  const std::vector<int> steps = steps_of(run);
  ASSERT_GE(steps.size(), 3u);
  EXPECT_EQ(steps.back(), static_cast<int>(steps.size()));
  EXPECT_THAT(child.output(),
              HasSubstr("stopped after step " + std::to_string(steps.back()) +
                        " of 100000"));
  EXPECT_THAT(child.output(), HasSubstr("report: " + run + "/report.html"));
  EXPECT_THAT(names_in(run),
              UnorderedElementsAre("metrics.jsonl", "model.safetensors",
                                   "config.json", "report.html"));
  const SafetensorsFile weights(run + "/model.safetensors");
  EXPECT_TRUE(weights.contains("model.embed_tokens.weight"));
}

TEST_P(StopBySignal, TheSecondEndsItAtOnce) {
  const TempDir dir;
  const std::string run = dir.path() + "/run";
  // Steps of some tenths of a second: both signals arrive within one.
  Child child(train_command(dir, "2048"));
  ASSERT_TRUE(child.wait_for("step 1/")) << child.output();
  child.signal(GetParam());
  // The other kind counts as the second too, even when both are pending at once
  // and the kernel chooses which is taken first.
  child.signal(GetParam() == SIGINT ? SIGTERM : SIGINT);
  EXPECT_THAT(child.wait(), ::testing::AnyOf(-SIGINT, -SIGTERM));
  const std::vector<int> steps = steps_of(run);
  EXPECT_EQ(steps.back(), static_cast<int>(steps.size()));
  EXPECT_THAT(names_in(run), UnorderedElementsAre("metrics.jsonl"));
}

INSTANTIATE_TEST_SUITE_P(Signals, StopBySignal,
                         ::testing::Values(SIGINT, SIGTERM),
                         [](const auto& info) {
                           return std::string(info.param == SIGINT ? "SigInt"
                                                                   : "SigTerm");
                         });

}  // namespace
}  // namespace ringmax::cli
