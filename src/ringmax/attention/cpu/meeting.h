// Where the devices of a ring find each other's shards: each puts its own and
// gets a ticket, the tickets travel as values of the program, and who has all
// of them joins the meeting of their owners.
//
// Nobody waits for a device that has not come, only for what one that is here
// has begun. So devices' calls may begin at any time, in any order.
#ifndef RINGMAX_ATTENTION_CPU_MEETING_H_
#define RINGMAX_ATTENTION_CPU_MEETING_H_

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "ringmax/attention/cpu/together.h"

namespace ringmax::attention::cpu {

class Meeting {
 public:
  explicit Meeting(Parts parts) : together_(std::move(parts)) {}

  Together& together() { return together_; }
  // The first to come runs `work`, of which all have the same; every other one
  // waits until it is done. What it throws, everybody throws.
  void run(const std::function<void()>& work);

 private:
  Together together_;
  std::mutex mutex_;
  std::condition_variable ended_;
  bool begun_ = false;
  bool done_ = false;
  std::exception_ptr error_;
};

class Meetings {
 public:
  // The process' own.
  static Meetings& instance();

  // No two tickets are alike.
  std::int64_t put(std::shared_ptr<const Part> part);
  // The meeting of these tickets, in the order of the devices; each of them
  // joins once, and it ends with the last of its guests. Throws kInternal for
  // tickets that are none or were taken otherwise, kInvalidArgument for parts
  // that do not fit each other.
  std::shared_ptr<Meeting> join(std::span<const std::int64_t> tickets);
  // Parts and meetings that wait for devices.
  std::int64_t waiting() const;
  // Forgets all that wait: after a program has failed and no other runs.
  void clear();

 private:
  struct Open {
    std::vector<std::int64_t> tickets;
    std::shared_ptr<Meeting> meeting;
    std::int64_t missing;
  };
  mutable std::mutex mutex_;
  std::int64_t next_ = 1;
  std::map<std::int64_t, std::shared_ptr<const Part>> parts_;
  std::map<std::int64_t, Open> open_;  // by their first ticket
};

}  // namespace ringmax::attention::cpu

#endif  // RINGMAX_ATTENTION_CPU_MEETING_H_
