#include "ringmax/attention/cpu/team.h"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <thread>

namespace ringmax::attention::cpu {

Team& Team::instance() {
  // Never destroyed: devices' threads may outlive main.
  static auto* const team = new Team();
  return *team;
}

Team::Team() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (sched_getaffinity(0, sizeof(allowed), &allowed) != 0) {
    for (unsigned i = 0; i < std::thread::hardware_concurrency(); ++i) {
      CPU_SET(i, &allowed);
    }
  }
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (!CPU_ISSET(core, &allowed)) continue;
    std::thread thread([this] { work(); });
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(core, &one);
    // Where that is forbidden it works all the same.
    pthread_setaffinity_np(thread.native_handle(), sizeof(one), &one);
    pthread_setname_np(thread.native_handle(), "ringmax_team");
    thread.detach();
  }
}

void Team::run(std::int64_t count,
               const std::function<void(std::int64_t)>& task) {
  if (count <= 0) return;
  thread_local Sleeper sleeper;
  sleeper.done = false;
  Job job{.count = count, .task = &task, .owner = &sleeper};
  std::int64_t wake = 0;
  {
    const std::lock_guard lock(mutex_);
    jobs_.push_back(&job);
    wake = std::min(count, idle_);
  }
  // No more than there is work for: cores may be many.
  for (; wake > 0; --wake) news_.notify_one();
  std::unique_lock lock(sleeper.mutex);
  sleeper.news.wait(lock, [&] { return sleeper.done; });
}

void Team::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    while (jobs_.empty()) {
      ++idle_;
      news_.wait(lock);
      --idle_;
    }
    Job& job = *jobs_.front();
    const std::int64_t i = job.next++;
    if (job.next == job.count) jobs_.pop_front();
    lock.unlock();
    (*job.task)(i);
    lock.lock();
    if (++job.done < job.count) continue;
    Sleeper& owner = *job.owner;
    lock.unlock();
    {
      // From here on the job may be gone.
      const std::lock_guard own(owner.mutex);
      owner.done = true;
    }
    owner.news.notify_one();
    lock.lock();
  }
}

}  // namespace ringmax::attention::cpu
