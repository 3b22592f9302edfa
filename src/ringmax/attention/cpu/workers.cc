#include "ringmax/attention/cpu/workers.h"

#include <algorithm>
#include <atomic>
#include <memory>

namespace ringmax::attention::cpu {
namespace {

// Outlives the call: a helper that comes late finds no task left, and must not
// find the caller's frame gone.
struct Shared {
  explicit Shared(std::int64_t n) : count(n) {}
  const std::int64_t count;
  std::atomic<std::int64_t> next{0};
  std::atomic<std::int64_t> done{0};
};

}  // namespace

void Workers::run(std::int64_t count,
                  const std::function<void(std::int64_t)>& task) const {
  if (team_ != nullptr) return team_->run(count, task);
  const std::int64_t helpers = std::min(helpers_, count - 1);
  if (helpers <= 0) {
    for (std::int64_t i = 0; i < count; ++i) task(i);
    return;
  }
  const auto shared = std::make_shared<Shared>(count);
  // `task` is only read after a task was claimed, so while the caller waits.
  const auto work = [shared, &task] {
    while (true) {
      const std::int64_t i = shared->next.fetch_add(1);
      if (i >= shared->count) return;
      task(i);
      if (shared->done.fetch_add(1) + 1 == shared->count) {
        shared->done.notify_all();
      }
    }
  };
  for (std::int64_t h = 0; h < helpers; ++h) schedule_(work);
  work();
  for (std::int64_t done = shared->done.load(); done != count;
       done = shared->done.load()) {
    shared->done.wait(done);
  }
}

}  // namespace ringmax::attention::cpu
