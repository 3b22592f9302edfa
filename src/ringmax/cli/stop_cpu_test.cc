// Training runs that end before their last step. The first signal, or a reader
// of the output who leaves, ends a run after the step in hand with all that a
// finished run leaves; stop_signals_test.cc has the signal after it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

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

// timeout(1) signals the process and its group, so that both arrive at once.
TEST_P(StopBySignal, TwoAtOnceAreOne) {
  const TempDir dir;
  Child child(train_command(dir, "128"));
  ASSERT_TRUE(child.wait_for("step 3/")) << child.output();
  for (int i = 0; i < 2; ++i) {
    child.signal(GetParam());
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  EXPECT_EQ(child.wait(), 0) << child.output();
  EXPECT_TRUE(path_exists(dir.path() + "/run/report.html"));
}

TEST_P(StopBySignal, BeforeTheFirstStepItEndsAtOnceAndNothingIsWritten) {
  const TempDir dir;
  std::vector<std::string> command = train_command(dir, "128");
  command.push_back("executable_cache_dir=off");
  Child child(command);
  std::this_thread::sleep_for(std::chrono::milliseconds(300));  // compiling
  child.signal(GetParam());
  EXPECT_EQ(child.wait(), -GetParam()) << child.output();
  EXPECT_TRUE(std::filesystem::is_empty(dir.path()));
}

INSTANTIATE_TEST_SUITE_P(Signals, StopBySignal,
                         ::testing::Values(SIGINT, SIGTERM),
                         [](const auto& info) {
                           return std::string(info.param == SIGINT ? "SigInt"
                                                                   : "SigTerm");
                         });

TEST(Stop, AtAnyMomentLeavesWholeFiles) {
  const TempDir dir;
  const std::string run = dir.path() + "/run";
  Child child(train_command(dir, "128"));
  ASSERT_TRUE(child.wait_for("step 3/")) << child.output();
  child.signal(SIGKILL);
  EXPECT_EQ(child.wait(), -SIGKILL);
  EXPECT_EQ(steps_of(run).back(), static_cast<int>(steps_of(run).size()));
  EXPECT_THAT(names_in(run), UnorderedElementsAre("metrics.jsonl"));
}

TEST(Stop, WhenNobodyReadsAnyMoreTheParametersAreKept) {
  const TempDir dir;
  const std::string run = dir.path() + "/run";
  Child child(train_command(dir, "128"));
  ASSERT_TRUE(child.wait_for("step 3/")) << child.output();
  child.stop_reading();
  EXPECT_EQ(child.wait(), 1);
  EXPECT_EQ(steps_of(run).back(), static_cast<int>(steps_of(run).size()));
  EXPECT_TRUE(SafetensorsFile(run + "/model.safetensors")
                  .contains("model.embed_tokens.weight"));
}

TEST(Stop, ADirectoryThatWasTakenAwayIsMadeAgain) {
  const TempDir dir;
  const std::string run = dir.path() + "/run";
  Child child(train_command(dir, "128"));
  ASSERT_TRUE(child.wait_for("step 3/")) << child.output();
  std::filesystem::remove_all(run);
  child.signal(SIGINT);
  EXPECT_EQ(child.wait(), 0) << child.output();
  EXPECT_TRUE(path_exists(run + "/model.safetensors"));
}

TEST(Stop, WhatCannotBeWrittenAnyMoreIsNoFaultOfTheCommand) {
  const TempDir dir;
  const std::string run = dir.path() + "/run";
  Child child(train_command(dir, "128"));
  ASSERT_TRUE(child.wait_for("step 3/")) << child.output();
  std::filesystem::remove_all(run);
  dir.write("run", "a file");
  child.signal(SIGINT);
  EXPECT_EQ(child.wait(), 1) << child.output();
  EXPECT_THAT(child.output(), HasSubstr(run));
}

TEST(Stop, ASecondRunInTheSameDirectoryIsRefused) {
  const TempDir dir;
  const std::string run = dir.path() + "/run";
  Child child(train_command(dir, "128"));
  ASSERT_TRUE(child.wait_for("step 3/")) << child.output();
  Child second(train_command(dir, "128"));
  EXPECT_EQ(second.wait(), 2);
  EXPECT_THAT(second.output(), HasSubstr("another run is writing into " + run));
  child.signal(SIGINT);
  EXPECT_EQ(child.wait(), 0) << child.output();
  EXPECT_EQ(steps_of(run).back(), static_cast<int>(steps_of(run).size()));
}

// The first step's loss is fine, the parameters after it are not.
TEST(Stop, GradientsThatAreNotFiniteEndItWithoutParameters) {
  const TempDir dir;
  std::vector<std::string> command = train_command(dir, "128");
  command.push_back("learning_rate=1e30");
  command.push_back("learning_rate_schedule_steps=4");
  command.push_back("steps=2");
  Child child(command);
  EXPECT_EQ(child.wait(), 1) << child.output();
  EXPECT_THAT(child.output(), HasSubstr("grad_norm nan"));
  EXPECT_THAT(child.output(), HasSubstr("the gradient's norm nan; stopped"));
  EXPECT_THAT(names_in(dir.path() + "/run"),
              UnorderedElementsAre("metrics.jsonl"));
}

}  // namespace
}  // namespace ringmax::cli
