#include "ringmax/base/reminder.h"

#include <utility>

namespace ringmax {

Reminder::Reminder(std::chrono::milliseconds after, std::function<void()> say)
    : thread_([this, after, say = std::move(say)] {
        std::unique_lock<std::mutex> lock(mutex_);
        if (!over_.wait_for(lock, after, [this] { return done_; })) say();
      }) {}

Reminder::~Reminder() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    done_ = true;
  }
  over_.notify_all();
  thread_.join();
}

}  // namespace ringmax
