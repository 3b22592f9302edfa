#include "ringmax/attention/cpu/team.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <latch>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

namespace ringmax::attention::cpu {
namespace {

TEST(Team, RunsEveryTaskOnceForAnyNumberOfCallers) {
  std::vector<std::thread> callers;
  for (int c = 0; c < 8; ++c) {
    callers.emplace_back([c] {
      for (int round = 0; round < 40; ++round) {
        std::vector<std::atomic<int>> count(1 + 7 * c);
        Team::instance().run(std::ssize(count),
                             [&](std::int64_t i) { ++count[i]; });
        for (const auto& n : count) EXPECT_EQ(n.load(), 1);
      }
    });
  }
  for (std::thread& t : callers) t.join();
  Team::instance().run(0, [](std::int64_t) { FAIL(); });
}

// Tasks that end only together need as many threads as there are cores, and
// each is a core's own.
TEST(Team, HasAThreadForEachCore) {
  cpu_set_t allowed;
  ASSERT_EQ(sched_getaffinity(0, sizeof(allowed), &allowed), 0);
  const int cores = CPU_COUNT(&allowed);
  std::latch all(cores);
  std::mutex mutex;
  std::set<std::thread::id> threads;
  Team::instance().run(cores, [&](std::int64_t) {
    all.arrive_and_wait();
    cpu_set_t own;
    const std::lock_guard lock(mutex);
    EXPECT_EQ(sched_getaffinity(0, sizeof(own), &own), 0);
    EXPECT_EQ(CPU_COUNT(&own), 1);
    threads.insert(std::this_thread::get_id());
  });
  EXPECT_EQ(std::ssize(threads), cores);
  EXPECT_FALSE(threads.contains(std::this_thread::get_id()));
}

// As the backward kernel's do.
TEST(Team, TasksMayWaitForThoseBefore) {
  std::vector<std::atomic<bool>> done(50);
  Team::instance().run(std::ssize(done), [&](std::int64_t i) {
    if (i > 0) done[i - 1].wait(false);
    done[i] = true;
    done[i].notify_all();
  });
  for (const auto& d : done) EXPECT_TRUE(d.load());
}

// Its last task still tells a caller that it is through when the caller's
// thread, and all that is the thread's own, has gone.
TEST(Team, CallersMayEndWithTheirCall) {
  std::atomic<int> ran = 0;
  std::vector<std::thread> callers;
  for (int c = 0; c < 200; ++c) {
    callers.emplace_back(
        [&] { Team::instance().run(3, [&](std::int64_t) { ++ran; }); });
  }
  for (std::thread& t : callers) t.join();
  EXPECT_EQ(ran.load(), 3 * 200);
}

TEST(Team, FindsCoresWhereverTheyAre) {
  // A machine of 3,000 cores of which a job has these.
  const std::vector<int> allowed = {0, 2, 63, 64, 1023, 1024, 2999};
  const auto affinity = [&](std::size_t bytes, cpu_set_t* set) {
    if (bytes * 8 < 3000) {
      errno = EINVAL;
      return -1;
    }
    for (const int core : allowed) {
      CPU_SET_S(static_cast<std::size_t>(core), bytes, set);
    }
    return 0;
  };
  EXPECT_EQ(allowed_cores(affinity), allowed);
}

TEST(Team, HasThreadsWhereNobodySaysWhichCoresThereAre) {
  for (const int error : {EPERM, EINVAL}) {
    const std::vector<int> cores = allowed_cores([&](std::size_t, cpu_set_t*) {
      errno = error;
      return -1;
    });
    EXPECT_EQ(cores.size(), std::max(1U, std::thread::hardware_concurrency()));
  }
  EXPECT_FALSE(
      allowed_cores([](std::size_t, cpu_set_t*) { return 0; }).empty());
}

}  // namespace
}  // namespace ringmax::attention::cpu
