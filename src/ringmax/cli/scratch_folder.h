// A folder under the system's one for temporary files, gone at the end.
#ifndef RINGMAX_CLI_SCRATCH_FOLDER_H_
#define RINGMAX_CLI_SCRATCH_FOLDER_H_

#include <string>

namespace ringmax::cli {

class ScratchFolder {
 public:
  // `what` it is for, in the message when it cannot be made
  // (kFailedPrecondition); with `wanted` false there is none.
  explicit ScratchFolder(const std::string& what, bool wanted = true);
  ~ScratchFolder();
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  const std::string& path() const { return path_; }  // "" when there is none

 private:
  std::string path_;
};

}  // namespace ringmax::cli

#endif  // RINGMAX_CLI_SCRATCH_FOLDER_H_
