#include "ringmax/pjrt/elf.h"

#include <gtest/gtest.h>

#include "ringmax/base/file.h"
#include "ringmax/base/testing/temp_dir.h"

namespace ringmax::pjrt {
namespace {

TEST(Elf, SeesThatTheEndIsMissing) {
  const TempDir dir;
  const std::string whole = read_file("/proc/self/exe");
  EXPECT_FALSE(is_cut_short("/proc/self/exe"));
  const auto cut = [&](std::size_t bytes) {
    return is_cut_short(dir.write("cut", whole.substr(0, bytes)));
  };
  EXPECT_TRUE(cut(whole.size() / 4));
  EXPECT_TRUE(cut(4096));
  EXPECT_TRUE(cut(100));
  // Not even a header: dlopen() says so.
  EXPECT_FALSE(cut(60));
  EXPECT_FALSE(cut(0));
}

TEST(Elf, LeavesOtherFilesAlone) {
  const TempDir dir;
  EXPECT_FALSE(is_cut_short(dir.write("text", std::string(500, 'x'))));
  EXPECT_FALSE(is_cut_short(dir.path()));
  EXPECT_FALSE(is_cut_short(dir.path() + "/no"));
}

}  // namespace
}  // namespace ringmax::pjrt
