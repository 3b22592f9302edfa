#include "ringmax/attention/cpu/meeting.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "ringmax/base/error.h"

namespace ringmax::attention::cpu {

void Meeting::run(const std::function<void()>& work) {
  std::unique_lock lock(mutex_);
  if (std::exchange(begun_, true)) {
    ended_.wait(lock, [&] { return done_; });
  } else {
    lock.unlock();
    std::exception_ptr error;
    try {
      work();
    } catch (...) {
      error = std::current_exception();
    }
    lock.lock();
    error_ = error;
    done_ = true;
    ended_.notify_all();
  }
  if (error_) std::rethrow_exception(error_);
}

Meetings& Meetings::instance() {
  // Never destroyed: threads of a plugin may outlive main.
  static auto* const meetings = new Meetings();
  return *meetings;
}

std::int64_t Meetings::put(std::shared_ptr<const Part> part) {
  const std::lock_guard lock(mutex_);
  parts_.emplace(next_, std::move(part));
  return next_++;
}

std::shared_ptr<Meeting> Meetings::join(std::span<const std::int64_t> tickets) {
  if (tickets.empty()) fail(ErrorCode::kInternal, "nobody meets");
  const std::lock_guard lock(mutex_);
  auto at = open_.find(tickets[0]);
  if (at == open_.end()) {
    Parts parts;
    for (const std::int64_t ticket : tickets) {
      const auto found = parts_.extract(ticket);
      if (found.empty()) {
        fail(ErrorCode::kInternal, "nobody brings a part {}, or it is taken",
             ticket);
      }
      parts.push_back(found.mapped());
    }
    Open open{{tickets.begin(), tickets.end()},
              std::make_shared<Meeting>(std::move(parts)),
              std::ssize(tickets)};
    at = open_.emplace(tickets[0], std::move(open)).first;
  } else if (!std::equal(tickets.begin(), tickets.end(),
                         at->second.tickets.begin(),
                         at->second.tickets.end())) {
    fail(ErrorCode::kInternal, "[{}] is not the meeting of [{}]",
         fmt::join(tickets, ", "), fmt::join(at->second.tickets, ", "));
  }
  std::shared_ptr<Meeting> meeting = at->second.meeting;
  if (--at->second.missing == 0) open_.erase(at);
  return meeting;
}

std::int64_t Meetings::waiting() const {
  const std::lock_guard lock(mutex_);
  return std::ssize(parts_) + std::ssize(open_);
}

void Meetings::clear() {
  const std::lock_guard lock(mutex_);
  parts_.clear();
  open_.clear();
}

}  // namespace ringmax::attention::cpu
