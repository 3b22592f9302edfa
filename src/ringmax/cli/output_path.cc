#include "ringmax/cli/output_path.h"

#include <unistd.h>

#include <filesystem>
#include <system_error>

#include "ringmax/base/error.h"
#include "ringmax/base/file.h"

namespace ringmax::cli {

void check_output_path(std::string_view option, const std::string& path,
                       const std::vector<std::string>& taken) {
  const std::string folder = parent_directory(path);
  if (path.empty() || is_directory(path) || !is_directory(folder)) {
    fail_invalid("{} {} must name a file in a directory that exists", option,
                 path);
  }
  if (path_exists(path) && !std::filesystem::is_regular_file(path)) {
    fail_invalid("{} {} is no regular file, and would be replaced by one",
                 option, path);
  }
  if (::access(folder.c_str(), W_OK) != 0) {
    fail_invalid("{} {}: directory {} cannot be written", option, path, folder);
  }
  for (const std::string& other : taken) {
    std::error_code unlike;  // a file that is not there is no other file
    if (path == other || std::filesystem::equivalent(path, other, unlike)) {
      fail_invalid("{} {} is also {}, another file of this command", option,
                   path, other);
    }
  }
}

void check_output_folder(std::string_view option, const std::string& path) {
  if (path.empty()) fail_invalid("{} must name a folder", option);
  // What is there of it already.
  std::string there = path;
  while (!path_exists(there) && parent_directory(there) != there) {
    there = parent_directory(there);
  }
  if (!is_directory(there)) {
    fail_invalid("{} {}: {} is no folder", option, path, there);
  }
  if (::access(there.c_str(), W_OK) != 0) {
    fail_invalid("{} {}: folder {} cannot be written", option, path, there);
  }
}

}  // namespace ringmax::cli
