#include "ringmax/base/installation.h"

#include <algorithm>
#include <initializer_list>
#include <system_error>
#include <utility>

namespace ringmax {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> existing(std::initializer_list<fs::path> candidates) {
  std::vector<fs::path> found;
  for (const fs::path& candidate : candidates) {
    std::error_code error;
    fs::path path = fs::canonical(candidate, error);
    if (error || !fs::is_directory(path, error)) continue;
    if (std::find(found.begin(), found.end(), path) == found.end()) {
      found.push_back(std::move(path));
    }
  }
  return found;
}

}  // namespace

std::string_view version() { return RINGMAX_VERSION; }

fs::path executable_path() {
  std::error_code error;
  fs::path path = fs::read_symlink("/proc/self/exe", error);
  return error ? fs::path() : path;
}

std::vector<fs::path> config_directories(const fs::path& executable) {
  const fs::path above = executable.parent_path() / "..";
  return existing({above / "share" / "ringmax" / "configs", above / "configs",
                   fs::path(RINGMAX_SOURCE_DIR) / "configs"});
}

std::vector<fs::path> plugin_directories(const fs::path& executable) {
  const fs::path above = executable.parent_path() / "..";
  return existing({above / "lib" / "ringmax", above / ".deps" / "plugins",
                   fs::path(RINGMAX_DEPS_DIR) / "plugins"});
}

}  // namespace ringmax
