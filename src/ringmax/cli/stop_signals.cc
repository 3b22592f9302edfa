#include "ringmax/cli/stop_signals.h"

#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdint>

namespace ringmax::cli {
namespace {

constexpr std::int64_t kSameWishMs = 500;

// When the wish came; 0 while there is none.
std::atomic<std::int64_t> g_asked_ms = 0;
static_assert(std::atomic<std::int64_t>::is_always_lock_free);

// clock_gettime may be called in a signal's handler, std::chrono is not said to
// be.
std::int64_t now_ms() {
  timespec now = {};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1000 + now.tv_nsec / 1000000 + 1;
}

bool note_wish(std::int64_t now, std::int64_t& asked) {
  asked = 0;
  return g_asked_ms.compare_exchange_strong(asked, now);
}

void on_signal(int signal) {
  const int error = errno;
  const std::int64_t now = now_ms();
  std::int64_t asked = 0;
  if (note_wish(now, asked)) {
    constexpr char kText[] = "stopping after this step; again: at once\n";
    [[maybe_unused]] const ssize_t written =
        ::write(STDERR_FILENO, kText, sizeof(kText) - 1);
  } else if (now - asked >= kSameWishMs) {
    std::signal(signal, SIG_DFL);
    std::raise(signal);
  }
  errno = error;
}

}  // namespace

void catch_stop_signals() {
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGINT, on_signal);
  std::signal(SIGTERM, on_signal);
  // Under nohup(1) it stays ignored.
  if (std::signal(SIGHUP, on_signal) == SIG_IGN) std::signal(SIGHUP, SIG_IGN);
}

bool stop_asked() { return g_asked_ms.load() != 0; }

void ask_to_stop() {
  std::int64_t asked = 0;
  note_wish(now_ms(), asked);
}

}  // namespace ringmax::cli
