// One thread for each core, for the tasks of all devices of this process.
//
// Devices are many threads, and where the operating system puts them is its
// affair: on two cores it lets eight wait for one core while the other has
// nothing to do, for a fifth of the time. So a device leaves its tasks here and
// sleeps until they are done; each core's thread takes the next one there is.
//
// Not for a program of one device: there the plugin's pool does.
#ifndef RINGMAX_ATTENTION_CPU_TEAM_H_
#define RINGMAX_ATTENTION_CPU_TEAM_H_

#include <sched.h>

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

namespace ringmax::attention::cpu {

class Team {
 public:
  // The process' own, a thread for each core that it may use. It lives as long
  // as the process. Its threads round and flush small numbers as the one that
  // asks for it first, a plugin's: threads inherit that.
  static Team& instance();

  // task(0) .. task(count - 1), each once, begun in this order; returns when
  // all are done. Tasks must not throw, nor call the team; they may wait for
  // tasks with lower numbers.
  void run(std::int64_t count, const std::function<void(std::int64_t)>& task);

 private:
  // A thread's bed. Who wakes a caller holds a share of its bed and no lock: it
  // would wake up to wait for that, and may end before it is told. A bed for
  // each, also because glibc before 2.41 may lose a signal that one of several
  // who sleep in the same is meant to hear (its bug 25847).
  class Bed {
   public:
    void sleep();
    void wake();

   private:
    std::mutex mutex_;
    std::condition_variable news_;
    bool woken_ = false;
  };
  struct Job {
    std::int64_t count;
    const std::function<void(std::int64_t)>* task;
    std::shared_ptr<Bed> owner;
    std::int64_t next = 0;
    std::int64_t done = 0;
  };
  Team();
  void work();

  std::mutex mutex_;
  std::deque<Job*> jobs_;   // that have tasks nobody has begun
  std::vector<Bed*> idle_;  // of the team's threads, the last to lie down last
};

// Cores that the calling thread may run on, at least one; `affinity` answers as
// sched_getaffinity does for a set of so many bytes.
std::vector<int> allowed_cores(
    const std::function<int(std::size_t, cpu_set_t*)>& affinity);

}  // namespace ringmax::attention::cpu

#endif  // RINGMAX_ATTENTION_CPU_TEAM_H_
