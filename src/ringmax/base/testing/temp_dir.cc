#include "ringmax/base/testing/temp_dir.h"

#include <stdlib.h>

#include <filesystem>
#include <fstream>

#include "ringmax/base/error.h"

namespace ringmax {

namespace fs = std::filesystem;

TempDir::TempDir() : path_((fs::temp_directory_path() / "ringmaxXXXXXX")) {
  if (mkdtemp(path_.data()) == nullptr) {
    fail(ErrorCode::kIo, "cannot make a temporary directory like {}", path_);
  }
}

TempDir::~TempDir() {
  std::error_code error;
  fs::remove_all(path_, error);
}

std::string TempDir::write(std::string_view name, std::string_view text) const {
  const fs::path file = fs::path(path_) / name;
  fs::create_directories(file.parent_path());
  std::ofstream stream(file, std::ios::binary);
  stream << text;
  if (!stream.flush()) fail(ErrorCode::kIo, "cannot write {}", file.string());
  return file.string();
}

}  // namespace ringmax
