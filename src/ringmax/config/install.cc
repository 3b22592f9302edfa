#include "ringmax/config/install.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>

#include "ringmax/base/error.h"

namespace ringmax::config {
namespace {

namespace fs = std::filesystem;

std::string find_config_directory() {
  std::error_code error;
  std::vector<std::string> candidates;
  // build/ringmax, build/PRESET/ringmax and bin/ringmax all lie under it.
  fs::path above = fs::read_symlink("/proc/self/exe", error).parent_path();
  for (int level = 0; level < 3; ++level) {
    above = above.parent_path();
    candidates.push_back((above / "configs").string());
    candidates.push_back((above / "share" / "ringmax" / "configs").string());
  }
  candidates.emplace_back(RINGMAX_SOURCE_DIR "/configs");
  for (const std::string& each : candidates) {
    if (fs::is_regular_file(fs::path(each) / "base.yml", error)) return each;
  }
  fail(ErrorCode::kNotFound,
       "the config files that come with ringmax are not there: no base.yml in "
       "{}",
       fmt::join(candidates, ", "));
}

}  // namespace

const std::string& config_directory() {
  static const std::string directory = find_config_directory();
  return directory;
}

std::vector<std::string> preset_names(const std::string& directory) {
  std::vector<std::string> names;
  std::error_code error;
  for (const fs::directory_entry& entry :
       fs::directory_iterator(fs::path(directory) / "models", error)) {
    if (entry.path().extension() == ".yml") {
      names.push_back(entry.path().stem().string());
    }
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace ringmax::config
