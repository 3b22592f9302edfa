#include "ringmax/data/prefetcher.h"

#include <algorithm>
#include <utility>

#include "ringmax/base/error.h"

namespace ringmax::data {

Prefetcher::Prefetcher(std::shared_ptr<const Dataset> dataset, RowRange rows,
                       std::int64_t first_step, std::int64_t end_step,
                       std::size_t depth)
    : dataset_(std::move(dataset)),
      rows_(rows),
      depth_(std::max<std::size_t>(depth, 1)),
      left_(end_step - first_step),
      thread_([this, first_step, end_step] { run(first_step, end_step); }) {}

Prefetcher::~Prefetcher() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void Prefetcher::run(std::int64_t first_step, std::int64_t end_step) {
  for (std::int64_t step = first_step; step < end_step; ++step) {
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return stop_ || ready_.size() < depth_; });
      if (stop_) return;
    }
    try {
      Batch batch = dataset_->batch(step, rows_);
      const std::lock_guard lock(mutex_);
      ready_.push_back(std::move(batch));
    } catch (...) {
      const std::lock_guard lock(mutex_);
      failure_ = std::current_exception();
    }
    changed_.notify_all();
    if (failure_) return;  // only this thread sets it
  }
}

Batch Prefetcher::next() {
  RINGMAX_CHECK(left_ > 0);
  std::unique_lock lock(mutex_);
  changed_.wait(lock,
                [this] { return !ready_.empty() || failure_ != nullptr; });
  if (ready_.empty()) std::rethrow_exception(failure_);
  Batch batch = std::move(ready_.front());
  ready_.pop_front();
  --left_;
  lock.unlock();
  changed_.notify_all();
  return batch;
}

}  // namespace ringmax::data
