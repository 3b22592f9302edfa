// Log lines on standard error. Results go to standard output, never here.
#ifndef RINGMAX_BASE_LOG_H_
#define RINGMAX_BASE_LOG_H_

#include <fmt/format.h>

#include <string_view>
#include <utility>

namespace ringmax {

enum class LogLevel { kDebug, kInfo, kWarning, kSilent };

void set_log_level(LogLevel level);
LogLevel log_level();
// One whole line; safe to call from several threads.
void log_line(LogLevel level, std::string_view text);

template <typename... Args>
void log_debug(fmt::format_string<Args...> format, Args&&... args) {
  if (log_level() <= LogLevel::kDebug) {
    log_line(LogLevel::kDebug,
             fmt::format(format, std::forward<Args>(args)...));
  }
}

template <typename... Args>
void log_info(fmt::format_string<Args...> format, Args&&... args) {
  if (log_level() <= LogLevel::kInfo) {
    log_line(LogLevel::kInfo, fmt::format(format, std::forward<Args>(args)...));
  }
}

template <typename... Args>
void log_warning(fmt::format_string<Args...> format, Args&&... args) {
  if (log_level() <= LogLevel::kWarning) {
    log_line(LogLevel::kWarning,
             fmt::format(format, std::forward<Args>(args)...));
  }
}

}  // namespace ringmax

#endif  // RINGMAX_BASE_LOG_H_
