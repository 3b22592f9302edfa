#include "ringmax/cli/output_path.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ringmax/base/error.h"
#include "ringmax/base/file.h"
#include "ringmax/base/testing/temp_dir.h"

namespace ringmax::cli {
namespace {

using ::testing::HasSubstr;

class OutputPathTest : public ::testing::Test {
 protected:
  std::string path(const std::string& name) {
    return join_path(directory_.path(), name);
  }
  static std::string refusal(const std::string& out,
                             const std::vector<std::string>& taken = {}) {
    try {
      check_output_path("--out", out, taken);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
      return error.message();
    }
    return "";
  }

  TempDir directory_;
};

TEST_F(OutputPathTest, TakesNewAndRegularFiles) {
  EXPECT_EQ(refusal(path("new.st")), "");
  atomic_write(path("old.st"), "old");
  EXPECT_EQ(refusal(path("old.st")), "");
  EXPECT_EQ(refusal(path("old.st"), {path("other.st")}), "");
}

TEST_F(OutputPathTest, RefusesWhatIsNoFile) {
  EXPECT_THAT(refusal(""), HasSubstr("--out"));
  EXPECT_THAT(refusal(directory_.path()), HasSubstr("must name a file"));
  EXPECT_THAT(refusal(path("nowhere/x.st")),
              HasSubstr("directory that exists"));
  // A rename would put a file in the place of a device.
  EXPECT_THAT(refusal("/dev/null"), HasSubstr("no regular file"));
  ASSERT_EQ(::mkfifo(path("pipe").c_str(), 0600), 0);
  EXPECT_THAT(refusal(path("pipe")), HasSubstr("no regular file"));
}

TEST_F(OutputPathTest, FoldersNeedNotBeThereYet) {
  const auto folder = [](const std::string& name) -> std::string {
    try {
      check_output_folder("--dump", name);
    } catch (const Error& error) {
      return error.message();
    }
    return "";
  };
  EXPECT_EQ(folder(directory_.path()), "");
  EXPECT_EQ(folder(path("a/b")), "");
  EXPECT_EQ(folder("not_there_yet"), "");
  EXPECT_FALSE(path_exists(path("a")));
  atomic_write(path("file"), "x");
  EXPECT_THAT(folder(path("file")), HasSubstr("is no folder"));
  EXPECT_THAT(folder(path("file/below")), HasSubstr("is no folder"));
  EXPECT_THAT(folder(""), HasSubstr("must name a folder"));
}

TEST_F(OutputPathTest, RefusesTheOtherFilesOfTheCommand) {
  atomic_write(path("in.st"), "in");
  EXPECT_THAT(refusal(path("in.st"), {path("in.st")}), HasSubstr("is also"));
  EXPECT_THAT(refusal(path("./in.st"), {path("in.st")}), HasSubstr("is also"));
  ASSERT_EQ(::symlink(path("in.st").c_str(), path("link").c_str()), 0);
  EXPECT_THAT(refusal(path("link"), {path("in.st")}), HasSubstr("is also"));
  EXPECT_THAT(refusal(path("new.st"), {path("new.st")}), HasSubstr("is also"));
}

}  // namespace
}  // namespace ringmax::cli
