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

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>

namespace ringmax::attention::cpu {

class Team {
 public:
  // The process' own, a thread for each core that it may use. It lives as long
  // as the process.
  static Team& instance();

  // task(0) .. task(count - 1), each once, begun in this order; returns when
  // all are done. Tasks must not throw, nor call the team; they may wait for
  // tasks with lower numbers.
  void run(std::int64_t count, const std::function<void(std::int64_t)>& task);

 private:
  // A caller's bed; it outlives its jobs, so that who wakes it need not hold a
  // lock that it would wake up to wait for.
  struct Sleeper {
    std::mutex mutex;
    std::condition_variable news;
    bool done = false;
  };
  struct Job {
    std::int64_t count;
    const std::function<void(std::int64_t)>* task;
    Sleeper* owner;
    std::int64_t next = 0;
    std::int64_t done = 0;
  };
  Team();
  void work();

  std::mutex mutex_;
  std::condition_variable news_;
  std::deque<Job*> jobs_;  // that have tasks nobody has begun
  std::int64_t idle_ = 0;  // threads that wait for news
};

}  // namespace ringmax::attention::cpu

#endif  // RINGMAX_ATTENTION_CPU_TEAM_H_
