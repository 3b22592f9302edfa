#include "ringmax/attention/cpu/workers.h"

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <thread>
#include <vector>

namespace ringmax::attention::cpu {
namespace {

TEST(Workers, TheCallerAloneRunsTasksInOrder) {
  std::vector<std::int64_t> seen;
  Workers().run(5, [&](std::int64_t i) { seen.push_back(i); });
  EXPECT_EQ(seen, (std::vector<std::int64_t>{0, 1, 2, 3, 4}));
  Workers().run(0, [](std::int64_t) { FAIL(); });
}

TEST(Workers, RunEachTaskOnceOnAnyNumberOfThreads) {
  std::vector<std::thread> threads;
  const Workers workers(
      3, [&](std::function<void()> f) { threads.emplace_back(std::move(f)); });
  for (int round = 0; round < 50; ++round) {
    std::vector<std::atomic<int>> count(100);
    workers.run(100, [&](std::int64_t i) { ++count[i]; });
    for (const auto& c : count) EXPECT_EQ(c.load(), 1);
  }
  for (std::thread& t : threads) t.join();
}

// A pool whose threads are all taken: the caller must not wait for helpers that
// have not begun, and they must find nothing when they begin after the call.
TEST(Workers, DoNotWaitForHelpersThatNeverBegin) {
  std::vector<std::function<void()>> late;
  const Workers workers(
      2, [&](std::function<void()> f) { late.push_back(std::move(f)); });
  int done = 0;
  {
    const std::vector<int> gone_after_the_call(8, 1);
    workers.run(8, [&](std::int64_t i) { done += gone_after_the_call[i]; });
  }
  EXPECT_EQ(done, 8);
  ASSERT_EQ(late.size(), 2U);
  for (const auto& f : late) f();
  EXPECT_EQ(done, 8);
}

}  // namespace
}  // namespace ringmax::attention::cpu
