#include "ringmax/base/file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <functional>

#include "ringmax/base/error.h"
#include "ringmax/base/testing/temp_dir.h"

namespace ringmax {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

ErrorCode code_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.code();
  }
  ADD_FAILURE() << "nothing was thrown";
  return ErrorCode::kInternal;
}

TEST(File, ReadsWhatIsThere) {
  const TempDir dir;
  const std::string binary("a\0b\n\xFF", 5);
  const std::string path = dir.write("x", binary);
  EXPECT_EQ(read_file(path), binary);
  EXPECT_EQ(MappedFile(path).text(), binary);
  EXPECT_EQ(read_file(dir.write("empty", "")), "");
  EXPECT_EQ(MappedFile(dir.path() + "/empty").size(), 0u);
  EXPECT_FALSE(read_file("/proc/self/stat").empty());
}

TEST(File, MissingFilesAndDirectories) {
  const TempDir dir;
  EXPECT_EQ(code_of([&] { read_file(dir.path() + "/no"); }),
            ErrorCode::kNotFound);
  EXPECT_EQ(code_of([&] { MappedFile(dir.path() + "/no"); }),
            ErrorCode::kNotFound);
  EXPECT_EQ(code_of([&] { read_file(dir.path()); }),
            ErrorCode::kInvalidArgument);
  EXPECT_EQ(code_of([&] { MappedFile("/dev/null"); }),
            ErrorCode::kInvalidArgument);
}

TEST(File, SharedBytesOutliveTheFileAndItsMap) {
  const TempDir dir;
  const std::string path = dir.write("x", "hello");
  std::shared_ptr<std::byte> tail;
  {
    const MappedFile file(path);
    tail = file.share(1);
  }
  ::unlink(path.c_str());
  EXPECT_EQ(std::string_view(reinterpret_cast<char*>(tail.get()), 4), "ello");
}

TEST(File, AtomicWriteReplacesWhole) {
  const TempDir dir;
  const std::string path = dir.path() + "/x";
  atomic_write(path, "one");
  atomic_write(path, "two");
  EXPECT_EQ(read_file(path), "two");
  EXPECT_THAT(list_files(dir.path()), ElementsAre(path));
}

TEST(File, AbandonedWriteLeavesNothing) {
  const TempDir dir;
  const std::string path = dir.write("x", "old");
  {
    AtomicFile file(path);
    file.write("half");
    EXPECT_EQ(read_file(path), "old");
  }
  EXPECT_EQ(read_file(path), "old");
  ::unlink(path.c_str());
  // rmdir fails unless the temporary file is gone too.
  EXPECT_EQ(::rmdir(dir.path().c_str()), 0);
}

TEST(FileDeathTest, AWriterThatIsKilledLeavesNothing) {
  const TempDir dir;
  const std::string path = dir.path() + "/x";
  EXPECT_EXIT(
      {
        AtomicFile file(path);
        file.write("half");
        ::raise(SIGKILL);
      },
      ::testing::KilledBySignal(SIGKILL), "");
  EXPECT_FALSE(path_exists(path));
  const int nameless = ::open(dir.path().c_str(), O_TMPFILE | O_WRONLY, 0600);
  if (nameless >= 0) {
    ::close(nameless);
    EXPECT_EQ(::rmdir(dir.path().c_str()), 0);
  }
}

TEST(File, AtomicWriteRefusesBadTargets) {
  const TempDir dir;
  EXPECT_EQ(code_of([&] { atomic_write(dir.path(), "x"); }),
            ErrorCode::kInvalidArgument);
  EXPECT_EQ(code_of([&] { atomic_write(dir.path() + "/", "x"); }),
            ErrorCode::kInvalidArgument);
  EXPECT_EQ(code_of([&] { atomic_write(dir.path() + "/no/x", "x"); }),
            ErrorCode::kNotFound);
}

TEST(File, ReportsAFullDisk) {
  try {
    AppendFile full("/dev/full", AppendFile::Mode::kFresh);
    full.append_line("x");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kIo);
    EXPECT_THAT(error.message(), HasSubstr("/dev/full"));
  }
}

TEST(File, ALineThatDoesNotFitLeavesNoHalf) {
  const TempDir dir;
  AppendFile file(dir.path() + "/log", AppendFile::Mode::kFresh);
  file.append_line("whole");
  rlimit limit = {};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &limit), 0);
  const rlimit tight = {8, limit.rlim_max};
  const auto old = ::signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &tight), 0);
  const ErrorCode code = code_of([&] { file.append_line("longer"); });
  ::setrlimit(RLIMIT_FSIZE, &limit);
  ::signal(SIGXFSZ, old);
  EXPECT_EQ(code, ErrorCode::kIo);
  EXPECT_EQ(read_file(file.path()), "whole\n");
}

TEST(File, PipesAreRefusedAndNotWaitedFor) {
  const TempDir dir;
  const std::string pipe = dir.path() + "/pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_EQ(code_of([&] { file_size(pipe); }), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code_of([&] { read_file(pipe); }), ErrorCode::kInvalidArgument);
}

TEST(File, AppendKeepsWholeLinesOnly) {
  const TempDir dir;
  const std::string path = dir.write("log", "one\ntwo\nhal");
  {
    AppendFile file(path, AppendFile::Mode::kKeep);
    file.append_line("three");
  }
  EXPECT_EQ(read_file(path), "one\ntwo\nthree\n");
  AppendFile(path, AppendFile::Mode::kFresh).append_line("new");
  EXPECT_EQ(read_file(path), "new\n");
  const std::string half = dir.write("half", "no newline at all");
  AppendFile(half, AppendFile::Mode::kKeep).append_line("x");
  EXPECT_EQ(read_file(half), "x\n");
}

TEST(File, MakesDirectories) {
  const TempDir dir;
  const std::string deep = dir.path() + "/a/b/c";
  make_directories(deep);
  make_directories(deep + "/");
  EXPECT_TRUE(is_directory(deep));
  const std::string file = dir.write("f", "");
  EXPECT_EQ(code_of([&] { make_directories(file); }), ErrorCode::kIo);
  EXPECT_EQ(code_of([&] { make_directories(file + "/x"); }), ErrorCode::kIo);
}

TEST(File, ListsSortedOnceWithoutHiddenAndLoops) {
  const TempDir dir;
  const std::string b = dir.write("b", "1");
  const std::string ac = dir.write("a/c", "2");
  dir.write(".hidden", "3");
  dir.write(".git/config", "3");
  ASSERT_EQ(::symlink("b", (dir.path() + "/z").c_str()), 0);
  ASSERT_EQ(::symlink("..", (dir.path() + "/a/up").c_str()), 0);
  ASSERT_EQ(::symlink("nowhere", (dir.path() + "/dangling").c_str()), 0);
  ASSERT_EQ(::mkfifo((dir.path() + "/pipe").c_str(), 0600), 0);
  EXPECT_THAT(list_files(dir.path()), ElementsAre(ac, b));
  EXPECT_EQ(code_of([&] { list_files(b); }), ErrorCode::kNotFound);
}

TEST(File, ExpandsGlobs) {
  const TempDir dir;
  const std::string b = dir.write("x/b.txt", "");
  const std::string a = dir.write("y/a.txt", "");
  dir.write("y/a.md", "");
  EXPECT_THAT(expand_glob(dir.path() + "/*/*.txt"), ElementsAre(b, a));
  EXPECT_THAT(expand_glob(dir.path() + "/*.none"), IsEmpty());
}

TEST(File, JoinsAndSplitsPaths) {
  EXPECT_EQ(join_path("a/b", "c"), "a/b/c");
  EXPECT_EQ(join_path("a/", "c"), "a/c");
  EXPECT_EQ(parent_directory("a/b"), "a");
  EXPECT_EQ(parent_directory("b"), ".");
  EXPECT_EQ(parent_directory("/b"), "/");
}

}  // namespace
}  // namespace ringmax
