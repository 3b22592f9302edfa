#include "ringmax/cli/progress.h"

#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <utility>

namespace ringmax::cli {

Progress::Progress(std::string what) : what_(std::move(what)) {
  if (::isatty(STDERR_FILENO) != 0) thread_ = std::thread([this] { run(); });
}

Progress::~Progress() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    done_ = true;
  }
  wake_.notify_all();
  thread_.join();
}

void Progress::run() {
  constexpr const char* kWipe = "\r\033[K";
  const auto start = std::chrono::steady_clock::now();
  std::unique_lock<std::mutex> lock(mutex_);
  for (auto next = start + std::chrono::seconds(1);
       !wake_.wait_until(lock, next, [this] { return done_; });
       next += std::chrono::seconds(1)) {
    const auto seconds =
        std::chrono::round<std::chrono::seconds>(next - start).count();
    std::fprintf(stderr, "%s%s ... %ld s", kWipe, what_.c_str(),
                 static_cast<long>(seconds));
    std::fflush(stderr);
  }
  std::fputs(kWipe, stderr);
}

}  // namespace ringmax::cli
