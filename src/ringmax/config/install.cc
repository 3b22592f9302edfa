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
  const fs::path binary = fs::read_symlink("/proc/self/exe", error);
  const fs::path above = binary.parent_path().parent_path();
  const std::vector<std::string> candidates = {
      (above / "configs").string(),
      (above / "share" / "ringmax" / "configs").string(),
      RINGMAX_SOURCE_DIR "/configs"};
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
