#include "ringmax/base/file.h"

#include <fcntl.h>
#include <glob.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <set>
#include <utility>

#include "ringmax/base/error.h"

namespace ringmax {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail_errno(std::string_view doing, const std::string& path,
                             int error) {
  const bool missing = error == ENOENT || error == ENOTDIR;
  fail(missing ? ErrorCode::kNotFound : ErrorCode::kIo, "{} '{}': {}", doing,
       path, std::strerror(error));
}

// A descriptor that closes itself.
class Fd {
 public:
  explicit Fd(int fd) : fd_(fd) {}
  ~Fd() {
    if (fd_ >= 0) ::close(fd_);
  }
  Fd(const Fd&) = delete;
  Fd& operator=(const Fd&) = delete;
  int get() const { return fd_; }

 private:
  int fd_;
};

int open_for_reading(const std::string& path) {
  // Opening a pipe that nobody writes to would wait for a writer.
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) fail_errno("cannot open", path, errno);
  return fd;
}

std::size_t regular_file_size(int fd, const std::string& path) {
  struct stat info = {};
  if (::fstat(fd, &info) != 0) fail_errno("cannot examine", path, errno);
  if (S_ISDIR(info.st_mode)) {
    fail_invalid("'{}' is a directory, a file is needed", path);
  }
  if (!S_ISREG(info.st_mode)) {
    fail_invalid("'{}' is not a regular file", path);
  }
  return static_cast<std::size_t>(info.st_size);
}

void write_all(int fd, std::span<const std::byte> bytes,
               const std::string& path) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd, bytes.data(), bytes.size());
    if (written < 0) {
      if (errno == EINTR) continue;
      fail_errno("cannot write", path, errno);
    }
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
}

// A rename is only on disk once its directory is.
void sync_directory(const std::string& directory) {
  const Fd fd(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  // Some file systems cannot sync a directory; the rename itself stands.
  if (fd.get() >= 0) ::fsync(fd.get());
}

void list_into(const fs::path& directory, std::vector<std::string>& out) {
  std::error_code error;
  for (fs::directory_iterator it(directory, error), end; it != end;
       it.increment(error)) {
    if (error) break;
    if (it->path().filename().string().starts_with('.')) continue;
    std::error_code ignored;
    if (it->is_symlink(ignored)) {
      if (it->is_regular_file(ignored)) out.push_back(it->path().string());
    } else if (it->is_directory(ignored)) {
      list_into(it->path(), out);
    } else if (it->is_regular_file(ignored)) {
      out.push_back(it->path().string());
    }
  }
  if (error) {
    fail(ErrorCode::kIo, "cannot list '{}': {}", directory.string(),
         error.message());
  }
}

// Length of `text` up to and with its last newline.
std::size_t whole_lines_length(std::string_view text) {
  const std::size_t last = text.rfind('\n');
  return last == std::string_view::npos ? 0 : last + 1;
}

}  // namespace

bool path_exists(const std::string& path) {
  struct stat info = {};
  return ::stat(path.c_str(), &info) == 0;
}

bool is_directory(const std::string& path) {
  struct stat info = {};
  return ::stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
}

std::int64_t file_size(const std::string& path) {
  const Fd fd(open_for_reading(path));
  return static_cast<std::int64_t>(regular_file_size(fd.get(), path));
}

std::string read_file(const std::string& path) {
  const Fd fd(open_for_reading(path));
  std::string text(regular_file_size(fd.get(), path), '\0');
  std::size_t have = 0;
  while (true) {
    // One byte more than the size says: /proc files claim to be empty.
    if (have == text.size()) text.resize(have + 4096);
    const ssize_t got =
        ::read(fd.get(), text.data() + have, text.size() - have);
    if (got < 0) {
      if (errno == EINTR) continue;
      fail_errno("cannot read", path, errno);
    }
    if (got == 0) break;
    have += static_cast<std::size_t>(got);
  }
  text.resize(have);
  return text;
}

void make_directories(const std::string& path) {
  std::error_code error;
  fs::create_directories(path, error);
  if (!error && !is_directory(path)) {
    error = std::make_error_code(std::errc::not_a_directory);
  }
  if (error) {
    fail(ErrorCode::kIo, "cannot make directory '{}': {}", path,
         error.message());
  }
}

std::string join_path(std::string_view directory, std::string_view name) {
  return (fs::path(directory) / name).string();
}

std::string parent_directory(const std::string& path) {
  const fs::path parent = fs::path(path).parent_path();
  return parent.empty() ? "." : parent.string();
}

std::vector<std::string> list_files(const std::string& directory) {
  if (!is_directory(directory)) {
    fail(ErrorCode::kNotFound, "'{}' is not a directory", directory);
  }
  std::vector<std::string> files;
  list_into(directory, files);
  std::sort(files.begin(), files.end());
  std::set<std::pair<dev_t, ino_t>> seen;
  std::erase_if(files, [&seen](const std::string& path) {
    struct stat info = {};
    if (::stat(path.c_str(), &info) != 0) return true;
    return !seen.emplace(info.st_dev, info.st_ino).second;
  });
  return files;
}

std::vector<std::string> expand_glob(const std::string& pattern) {
  glob_t matches = {};
  const int rc =
      ::glob(pattern.c_str(), GLOB_NOSORT | GLOB_TILDE, nullptr, &matches);
  std::vector<std::string> paths(
      matches.gl_pathv, matches.gl_pathv + (rc == 0 ? matches.gl_pathc : 0));
  ::globfree(&matches);
  if (rc == GLOB_NOSPACE) throw std::bad_alloc();
  // glob's own order follows the locale.
  std::sort(paths.begin(), paths.end());
  return paths;
}

MappedFile::MappedFile(const std::string& path) {
  const Fd fd(open_for_reading(path));
  const std::size_t size = regular_file_size(fd.get(), path);
  if (size == 0) return;  // mmap refuses a length of 0.
  void* address = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd.get(), 0);
  if (address == MAP_FAILED) fail_errno("cannot map", path, errno);
  size_ = size;
  data_ =
      std::shared_ptr<std::byte>(static_cast<std::byte*>(address),
                                 [size](std::byte* p) { ::munmap(p, size); });
}

std::shared_ptr<std::byte> MappedFile::share(std::size_t offset) const {
  RINGMAX_CHECK(offset <= size_);
  return {data_, data_.get() + offset};
}

AtomicFile::AtomicFile(std::string path) : path_(std::move(path)) {
  static std::atomic<unsigned> counter = 0;
  const std::string name = fs::path(path_).filename().string();
  if (name.empty() || is_directory(path_)) {
    fail_invalid("'{}' is a directory, a file name is needed", path_);
  }
  temporary_ =
      join_path(parent_directory(path_),
                fmt::format(".{}.{}.{}.tmp", name, ::getpid(), counter++));
  // A file without a name goes when its process goes, however that ends. It
  // gets its name through /proc. Not every file system has such files.
  if (is_directory("/proc/self/fd")) {
    fd_ = ::open(parent_directory(path_).c_str(),
                 O_TMPFILE | O_WRONLY | O_CLOEXEC, 0666);
    named_ = fd_ < 0;
  }
  if (fd_ < 0) {
    fd_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC,
                 0666);
  }
  if (fd_ < 0) fail_errno("cannot write", path_, errno);
}

AtomicFile::~AtomicFile() {
  if (fd_ < 0) return;
  ::close(fd_);
  if (named_) ::unlink(temporary_.c_str());
}

void AtomicFile::write(std::span<const std::byte> bytes) {
  RINGMAX_CHECK(fd_ >= 0);
  write_all(fd_, bytes, path_);
}

void AtomicFile::commit() {
  RINGMAX_CHECK(fd_ >= 0);
  if (::fsync(fd_) != 0) fail_errno("cannot flush", path_, errno);
  if (!named_) {
    const std::string source = fmt::format("/proc/self/fd/{}", fd_);
    if (::linkat(AT_FDCWD, source.c_str(), AT_FDCWD, temporary_.c_str(),
                 AT_SYMLINK_FOLLOW) != 0) {
      fail_errno("cannot put in place", path_, errno);
    }
    named_ = true;
  }
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) {
    fail_errno("cannot put in place", path_, errno);
  }
  ::close(std::exchange(fd_, -1));
  sync_directory(parent_directory(path_));
}

void atomic_write(const std::string& path, std::string_view bytes) {
  AtomicFile file(path);
  file.write(bytes);
  file.commit();
}

AppendFile::AppendFile(std::string path, Mode mode) : path_(std::move(path)) {
  std::size_t keep = 0;
  if (mode == Mode::kKeep && path_exists(path_)) {
    keep = whole_lines_length(MappedFile(path_).text());
  }
  fd_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (fd_ < 0) fail_errno("cannot write", path_, errno);
  if (::ftruncate(fd_, static_cast<off_t>(keep)) != 0) {
    const int error = errno;
    ::close(std::exchange(fd_, -1));
    fail_errno("cannot truncate", path_, error);
  }
}

AppendFile::~AppendFile() {
  if (fd_ >= 0) ::close(fd_);
}

void AppendFile::append_line(std::string_view line) {
  std::string whole(line);
  whole += '\n';
  const off_t before = ::lseek(fd_, 0, SEEK_END);
  try {
    write_all(fd_, std::as_bytes(std::span<const char>(whole)), path_);
  } catch (const Error&) {
    // A full disk may have taken half of the line. What has no length, such as
    // a pipe, cannot be cut.
    [[maybe_unused]] const int cut = before < 0 ? 0 : ::ftruncate(fd_, before);
    throw;
  }
}

}  // namespace ringmax
