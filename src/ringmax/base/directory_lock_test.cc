#include "ringmax/base/directory_lock.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <optional>
#include <utility>

#include "ringmax/base/testing/temp_dir.h"

namespace ringmax {
namespace {

TEST(DirectoryLock, OneHasIt) {
  const TempDir dir;
  std::optional<DirectoryLock> first(dir.path());
  EXPECT_TRUE(first->held());
  EXPECT_FALSE(DirectoryLock(dir.path()).held());
  {
    const DirectoryLock moved = std::move(*first);
    first.reset();
    EXPECT_TRUE(moved.held());
    EXPECT_FALSE(DirectoryLock(dir.path()).held());
  }
  EXPECT_TRUE(DirectoryLock(dir.path()).held());
  // Nothing is left in it.
  EXPECT_EQ(::rmdir(dir.path().c_str()), 0);
}

TEST(DirectoryLock, WhereThereIsNoDirectoryNobodyIsInTheWay) {
  EXPECT_TRUE(DirectoryLock("/nonexistent").held());
}

}  // namespace
}  // namespace ringmax
