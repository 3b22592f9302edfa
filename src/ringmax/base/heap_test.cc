#include "ringmax/base/heap.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstddef>
#include <cstdlib>
#include <cstring>

namespace ringmax {
namespace {

long page_faults() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_minflt;
}

// Faults of touching a large block that was allocated and freed before.
long faults_the_second_time() {
  constexpr std::size_t kBytes = std::size_t{96} << 20;
  long faults = 0;
  for (int i = 0; i < 2; ++i) {
    void* block = nullptr;
    if (posix_memalign(&block, 64, kBytes) != 0) return -1;
    const long before = page_faults();
    std::memset(block, 1, kBytes);
    faults = page_faults() - before;
    std::free(block);
  }
  return faults;
}

#if defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__)
TEST(Heap, ALargeBlockIsThereTheSecondTime) {
  // In a process of its own: the setting is for good.
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    keep_freed_memory();
    _exit(faults_the_second_time() < 100 ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}
#endif

}  // namespace
}  // namespace ringmax
