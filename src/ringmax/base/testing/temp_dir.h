// A directory of a test's own, removed with all it holds.
#ifndef RINGMAX_BASE_TESTING_TEMP_DIR_H_
#define RINGMAX_BASE_TESTING_TEMP_DIR_H_

#include <string>
#include <string_view>

namespace ringmax {

class TempDir {
 public:
  TempDir();
  ~TempDir();
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;

  const std::string& path() const { return path_; }
  // Writes a file (and the directories above it); returns its path.
  std::string write(std::string_view name, std::string_view text) const;

 private:
  std::string path_;
};

}  // namespace ringmax

#endif  // RINGMAX_BASE_TESTING_TEMP_DIR_H_
