#include "ringmax/base/log.h"

#include <atomic>
#include <cstdio>
#include <string>

namespace ringmax {
namespace {
std::atomic<LogLevel> g_level = LogLevel::kInfo;
}  // namespace

void set_log_level(LogLevel level) { g_level = level; }
LogLevel log_level() { return g_level; }

void log_line(LogLevel level, std::string_view text) {
  std::string line;
  if (level == LogLevel::kWarning) line = "warning: ";
  line += text;
  line += '\n';
  // One fwrite a line: stderr is unbuffered, so lines do not interleave.
  std::fwrite(line.data(), 1, line.size(), stderr);
}

}  // namespace ringmax
