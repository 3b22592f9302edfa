// A directory that one process at a time may write into.
//
// The lock is flock(2) on the directory itself: it leaves no file behind and
// goes when its process goes, however that ends. A file system without locks
// gives everyone the lock. Not a guard against programs that do not ask.
#ifndef RINGMAX_BASE_DIRECTORY_LOCK_H_
#define RINGMAX_BASE_DIRECTORY_LOCK_H_

#include <string>

namespace ringmax {

class DirectoryLock {
 public:
  // Takes the lock, if it is free; never waits.
  explicit DirectoryLock(const std::string& directory);
  ~DirectoryLock();
  DirectoryLock(DirectoryLock&& other) noexcept;
  DirectoryLock& operator=(DirectoryLock&&) = delete;

  // False when another DirectoryLock, here or in another process, has it.
  bool held() const { return held_; }

 private:
  int fd_ = -1;
  bool held_ = true;
};

}  // namespace ringmax

#endif  // RINGMAX_BASE_DIRECTORY_LOCK_H_
