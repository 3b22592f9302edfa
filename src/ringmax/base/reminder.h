// Says a word when what is under way takes long.
#ifndef RINGMAX_BASE_REMINDER_H_
#define RINGMAX_BASE_REMINDER_H_

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

namespace ringmax {

class Reminder {
 public:
  // Calls `say`, once and on a thread of its own, when the reminder still lives
  // after that time. It must not throw.
  Reminder(std::chrono::milliseconds after, std::function<void()> say);
  ~Reminder();
  Reminder(const Reminder&) = delete;
  Reminder& operator=(const Reminder&) = delete;

 private:
  std::mutex mutex_;
  std::condition_variable over_;
  bool done_ = false;
  std::thread thread_;
};

}  // namespace ringmax

#endif  // RINGMAX_BASE_REMINDER_H_
