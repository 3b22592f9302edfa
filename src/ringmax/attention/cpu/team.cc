#include "ringmax/attention/cpu/team.h"

#include <pthread.h>

#include <algorithm>
#include <cerrno>
#include <thread>
#include <utility>

namespace ringmax::attention::cpu {
namespace {

// A set of cores of any size: a cpu_set_t holds the first 1,024.
using CoreSet = std::vector<cpu_set_t>;

std::size_t bytes(const CoreSet& set) { return set.size() * sizeof(set[0]); }

CoreSet only(int core) {
  CoreSet set(static_cast<std::size_t>(core) / CPU_SETSIZE + 1);
  CPU_ZERO_S(bytes(set), set.data());
  CPU_SET_S(static_cast<std::size_t>(core), bytes(set), set.data());
  return set;
}

}  // namespace

std::vector<int> allowed_cores(
    const std::function<int(std::size_t, cpu_set_t*)>& affinity) {
  constexpr std::size_t kMostSets = 1024;
  std::vector<int> cores;
  for (std::size_t sets = 1; sets <= kMostSets; sets *= 2) {
    CoreSet set(sets);
    CPU_ZERO_S(bytes(set), set.data());
    if (affinity(bytes(set), set.data()) == 0) {
      for (std::size_t core = 0; core < sets * CPU_SETSIZE; ++core) {
        if (CPU_ISSET_S(core, bytes(set), set.data())) {
          cores.push_back(static_cast<int>(core));
        }
      }
      break;
    }
    // EINVAL: there are more cores than the set holds.
    if (errno != EINVAL) break;
  }
  if (!cores.empty()) return cores;
  const auto count = std::max(1U, std::thread::hardware_concurrency());
  for (unsigned core = 0; core < count; ++core) {
    cores.push_back(static_cast<int>(core));
  }
  return cores;
}

Team& Team::instance() {
  // Never destroyed: devices' threads may outlive main.
  static auto* const team = new Team();
  return *team;
}

Team::Team() {
  const std::vector<int> cores =
      allowed_cores([](std::size_t size, cpu_set_t* set) {
        return sched_getaffinity(0, size, set);
      });
  for (const int core : cores) {
    std::thread thread([this] { work(); });
    const CoreSet own = only(core);
    // Where that is forbidden it works all the same.
    pthread_setaffinity_np(thread.native_handle(), bytes(own), own.data());
    pthread_setname_np(thread.native_handle(), "ringmax_team");
    thread.detach();
  }
}

void Team::Bed::sleep() {
  std::unique_lock lock(mutex_);
  news_.wait(lock, [&] { return woken_; });
  woken_ = false;
}

void Team::Bed::wake() {
  {
    const std::lock_guard lock(mutex_);
    woken_ = true;
  }
  news_.notify_one();
}

void Team::run(std::int64_t count,
               const std::function<void(std::int64_t)>& task) {
  if (count <= 0) return;
  thread_local const auto bed = std::make_shared<Bed>();
  Job job{.count = count, .task = &task, .owner = bed};
  std::vector<Bed*> wake;
  {
    const std::lock_guard lock(mutex_);
    jobs_.push_back(&job);
    // No more than there is work for: cores may be many.
    const auto begin = idle_.end() - std::min(count, std::ssize(idle_));
    wake.assign(begin, idle_.end());
    idle_.erase(begin, idle_.end());
  }
  for (Bed* each : wake) each->wake();
  bed->sleep();
}

void Team::work() {
  Bed bed;
  std::unique_lock lock(mutex_);
  while (true) {
    while (jobs_.empty()) {
      idle_.push_back(&bed);
      lock.unlock();
      bed.sleep();
      lock.lock();
    }
    Job& job = *jobs_.front();
    const std::int64_t i = job.next++;
    if (job.next == job.count) jobs_.pop_front();
    lock.unlock();
    (*job.task)(i);
    lock.lock();
    if (++job.done < job.count) continue;
    // Once its owner is awake the job may be gone.
    const std::shared_ptr<Bed> owner = std::move(job.owner);
    lock.unlock();
    owner->wake();
    lock.lock();
  }
}

}  // namespace ringmax::attention::cpu
