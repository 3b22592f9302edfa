// Where a run may write.
#include "ringmax/train/options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "ringmax/base/error.h"
#include "ringmax/base/testing/temp_dir.h"

namespace ringmax::train {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::vector<std::string> problems_of(const std::string& directory) {
  Problems problems;
  check_run_directory(directory, problems);
  return problems.messages();
}

TEST(RunDirectory, HasFallbacksForBothParts) {
  TrainOptions options;
  EXPECT_EQ(run_directory(options, "tiny"), "runs/tiny");
  options.run_name = "a";
  options.base_output_directory = "out/";
  EXPECT_EQ(run_directory(options, "tiny"), "out/a");
}

TEST(RunDirectory, NewEmptyAndOldRunsAreFine) {
  const TempDir dir;
  EXPECT_THAT(problems_of(dir.path()), IsEmpty());
  EXPECT_THAT(problems_of(dir.path() + "/not/there/yet"), IsEmpty());
  dir.write("run/metrics.jsonl", "");
  dir.write("run/model.safetensors", "x");
  EXPECT_THAT(problems_of(dir.path() + "/run"), IsEmpty());
  EXPECT_FALSE(std::filesystem::exists(dir.path() + "/not"));
}

TEST(RunDirectory, WhatIsNoRunIsRefused) {
  const TempDir dir;
  dir.write("photos/one.jpg", "x");
  EXPECT_THAT(problems_of(dir.path() + "/photos"),
              ElementsAre("base_output_directory/run_name: " + dir.path() +
                          "/photos holds something else than a run (no "
                          "metrics.jsonl); choose another run_name, or empty "
                          "it"));
  const std::string file = dir.write("file", "x");
  EXPECT_THAT(problems_of(file), ElementsAre(HasSubstr("is no directory")));
  EXPECT_THAT(
      problems_of(file + "/run"),
      ElementsAre("base_output_directory: " + file + " is no directory, so " +
                  file + "/run cannot be made"));
  std::filesystem::create_symlink("/nonexistent", dir.path() + "/dangling");
  EXPECT_THAT(problems_of(dir.path() + "/dangling"),
              ElementsAre(HasSubstr("is no directory")));
}

TEST(RunDirectory, WhatCannotBeWrittenIsRefused) {
  const TempDir dir;
  const std::string locked = dir.path() + "/locked";
  std::filesystem::create_directory(locked);
  chmod(locked.c_str(), 0555);
  const auto found = problems_of(locked + "/run");
  if (geteuid() == 0) {
    EXPECT_THAT(found, IsEmpty());  // root may write anywhere
  } else {
    EXPECT_THAT(found, ElementsAre("base_output_directory: " + locked +
                                   " cannot be written, so " + locked +
                                   "/run cannot be made"));
  }
}

TEST(RunDirectory, WhatEvenRootCannotWriteIsRefused) {
  EXPECT_THAT(problems_of("/proc/nonexistent"),
              ElementsAre("base_output_directory: /proc cannot be written, so "
                          "/proc/nonexistent cannot be made"));
}

TEST(RunDirectory, NamesThatNoFileSystemTakesAreRefused) {
  const TempDir dir;
  EXPECT_THAT(problems_of(dir.path() + "/out/" + std::string(300, 'x')),
              ElementsAre(HasSubstr("cannot be made: File name too long")));
  std::filesystem::create_symlink("loop", dir.path() + "/loop");
  EXPECT_THAT(problems_of(dir.path() + "/loop/run"),
              ElementsAre(HasSubstr("cannot be made: Too many levels")));
  EXPECT_FALSE(std::filesystem::exists(dir.path() + "/out"));
}

TEST(RunDirectory, TwoRunsDoNotShareIt) {
  const TempDir dir;
  dir.write("run/metrics.jsonl", "");
  const std::string run = dir.path() + "/run";
  const std::string refusal =
      "base_output_directory/run_name: another run is writing into " + run +
      "; choose another run_name, or wait for its end";
  {
    const DirectoryLock lock = make_run_directory(run);
    EXPECT_THAT(problems_of(run), ElementsAre(refusal));
    try {
      make_run_directory(run);
      FAIL() << "no error";
    } catch (const Error& error) {
      EXPECT_EQ(exit_code_for(error.code()), 2);
      EXPECT_EQ(error.message(), refusal);
    }
  }
  EXPECT_THAT(problems_of(run), IsEmpty());
}

TEST(RunDirectory, MakingItSaysWhyItCannot) {
  const TempDir dir;
  make_run_directory(dir.path() + "/a/b");
  EXPECT_TRUE(std::filesystem::is_directory(dir.path() + "/a/b"));
  make_run_directory(dir.path() + "/a/b");
  try {
    make_run_directory("/proc/nonexistent/run");
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kFailedPrecondition);
    EXPECT_THAT(error.message(), HasSubstr("/proc/nonexistent/run cannot be "
                                           "made: No such file"));
  }
}

}  // namespace
}  // namespace ringmax::train
