#include "ringmax/cli/scratch_folder.h"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "ringmax/base/error.h"

namespace ringmax::cli {

ScratchFolder::ScratchFolder(const std::string& what, bool wanted) {
  if (!wanted) return;
  std::string pattern =
      (std::filesystem::temp_directory_path() / "ringmax_XXXXXX").string();
  if (::mkdtemp(pattern.data()) == nullptr) {
    fail(ErrorCode::kFailedPrecondition, "{}: cannot make a folder like {}",
         what, pattern);
  }
  path_ = pattern;
}

ScratchFolder::~ScratchFolder() {
  if (path_.empty()) return;
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace ringmax::cli
