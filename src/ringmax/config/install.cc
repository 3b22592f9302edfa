#include "ringmax/config/install.h"

#include <algorithm>
#include <filesystem>

#include "ringmax/base/error.h"
#include "ringmax/base/installation.h"

namespace ringmax::config {
namespace {

namespace fs = std::filesystem;

std::string find_config_directory() {
  std::error_code error;
  for (const fs::path& each : config_directories()) {
    if (fs::is_regular_file(each / "base.yml", error)) return each.string();
  }
  fail(ErrorCode::kNotFound,
       "the config files that come with ringmax are not there: no "
       "configs/base.yml beside {} or in its source tree",
       executable_path().parent_path().string());
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
