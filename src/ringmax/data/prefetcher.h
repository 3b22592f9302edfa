// Prepares the next batches on a thread of its own while a step runs. Batches
// come in step order and are those of Dataset::batch, whatever the timing.
#ifndef RINGMAX_DATA_PREFETCHER_H_
#define RINGMAX_DATA_PREFETCHER_H_

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>

#include "ringmax/data/dataset.h"

namespace ringmax::data {

class Prefetcher {
 public:
  // Starts at `first_step` and prepares up to `depth` (at least 1) batches
  // ahead, never one at or after `end_step`.
  Prefetcher(std::shared_ptr<const Dataset> dataset, RowRange rows,
             std::int64_t first_step, std::int64_t end_step,
             std::size_t depth = 2);
  // Waits for the batch being made, if any.
  ~Prefetcher();
  Prefetcher(const Prefetcher&) = delete;
  Prefetcher& operator=(const Prefetcher&) = delete;

  // The next step's batch; throws what making it threw. May be called
  // end_step - first_step times.
  Batch next();

 private:
  void run(std::int64_t first_step, std::int64_t end_step);

  std::shared_ptr<const Dataset> dataset_;
  RowRange rows_;
  std::size_t depth_;
  std::int64_t left_;  // next() calls still allowed

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Batch> ready_;
  std::exception_ptr failure_;
  bool stop_ = false;
  std::thread thread_;  // last: it uses all of the above
};

}  // namespace ringmax::data

#endif  // RINGMAX_DATA_PREFETCHER_H_
