// Who computes the tasks of a kernel call: the calling thread, helped by
// threads of a pool that belongs to someone else.
//
// The caller works too, and waits only for tasks that a helper has begun: a
// pool all of whose threads stand in such a call, or a helper that never gets
// a thread, delays nothing. Which thread computes a task never changes what is
// computed. Not for work that blocks, except that a task may wait for one with
// a lower number: that one has begun.
#ifndef RINGMAX_ATTENTION_CPU_WORKERS_H_
#define RINGMAX_ATTENTION_CPU_WORKERS_H_

#include <cstdint>
#include <functional>

#include "ringmax/attention/cpu/team.h"

namespace ringmax::attention::cpu {

class Workers {
 public:
  // Starts a function some time, on some thread.
  using Schedule = std::function<void(std::function<void()>)>;

  // The caller alone.
  Workers() = default;
  // The caller and at most `helpers` functions given to `schedule`.
  Workers(std::int64_t helpers, Schedule schedule)
      : helpers_(helpers), schedule_(std::move(schedule)) {}
  // The team's threads; the caller only waits.
  explicit Workers(Team& team) : team_(&team) {}

  // Runs task(0) .. task(count - 1), each once, begun in this order; returns
  // when all are done. `task` must not throw.
  void run(std::int64_t count,
           const std::function<void(std::int64_t)>& task) const;

 private:
  std::int64_t helpers_ = 0;
  Schedule schedule_;
  Team* team_ = nullptr;
};

}  // namespace ringmax::attention::cpu

#endif  // RINGMAX_ATTENTION_CPU_WORKERS_H_
