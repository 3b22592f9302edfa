// Files on the host: whole reads, read-only maps, writes that appear whole or
// not at all, line-wise appends, and listing what a path or pattern names.
//
// Not for remote storage: paths are local. Missing files are kNotFound, other
// failures of the system kIo with the path and the system's own words.
#ifndef RINGMAX_BASE_FILE_H_
#define RINGMAX_BASE_FILE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ringmax {

bool path_exists(const std::string& path);
bool is_directory(const std::string& path);
// Bytes of a regular file.
std::int64_t file_size(const std::string& path);

// The whole file as bytes. Throws kInvalidArgument for a directory.
std::string read_file(const std::string& path);

// Makes a directory and its missing parents; fine when it exists already.
void make_directories(const std::string& path);

// "a/b" + "c" -> "a/b/c".
std::string join_path(std::string_view directory, std::string_view name);
// The part before the last '/', "." when there is none.
std::string parent_directory(const std::string& path);

// All regular files under `directory`, recursively, sorted by path as bytes.
// Names that start with '.' are left out. Links to files are followed, links
// to directories are not, and a file reached twice is listed once.
std::vector<std::string> list_files(const std::string& directory);
// Paths that match a shell pattern (* ? [...] ~), sorted; none gives none.
std::vector<std::string> expand_glob(const std::string& pattern);

// A whole file mapped read-only. Copies share the mapping; it lives until the
// last copy, or the last pointer from share(), is gone. Another process that
// truncates the file while it is mapped kills this one (SIGBUS).
class MappedFile {
 public:
  MappedFile() = default;
  explicit MappedFile(const std::string& path);

  std::size_t size() const { return size_; }
  std::span<const std::byte> bytes() const { return {data_.get(), size_}; }
  std::string_view text() const {
    return {reinterpret_cast<const char*>(data_.get()), size_};
  }
  // A pointer to byte `offset` that keeps the mapping alive, for HostArray
  // views. Writing through it faults.
  std::shared_ptr<std::byte> share(std::size_t offset) const;

 private:
  std::shared_ptr<std::byte> data_;
  std::size_t size_ = 0;
};

// Writes a file piece by piece in the target's own directory, without a name
// where the file system can do that, else under a temporary one; commit()
// flushes it to disk and renames it into place. Without commit() the target is
// untouched and nothing is left.
class AtomicFile {
 public:
  explicit AtomicFile(std::string path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(std::span<const std::byte> bytes);
  void write(std::string_view text) {
    write(std::as_bytes(std::span<const char>(text)));
  }
  void commit();

 private:
  std::string path_;
  std::string temporary_;
  bool named_ = true;  // `temporary_` exists
  int fd_ = -1;
};

// AtomicFile in one call.
void atomic_write(const std::string& path, std::string_view bytes);

// A log of lines. Each append is one write of a whole line at the file's end,
// so a reader sees whole lines only. What a failed write left of a line is cut
// off again, and so is, on opening, a half line that a crash left.
class AppendFile {
 public:
  enum class Mode { kFresh, kKeep };

  AppendFile(std::string path, Mode mode);
  ~AppendFile();
  AppendFile(const AppendFile&) = delete;
  AppendFile& operator=(const AppendFile&) = delete;

  // `line` has no newline in it; one is added.
  void append_line(std::string_view line);
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  int fd_ = -1;
};

}  // namespace ringmax

#endif  // RINGMAX_BASE_FILE_H_
