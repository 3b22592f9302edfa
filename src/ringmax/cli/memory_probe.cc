#include "ringmax/cli/memory_probe.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/inotify.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>

#include "ringmax/base/error.h"
#include "ringmax/base/file.h"
#include "ringmax/base/installation.h"
#include "ringmax/cli/scratch_folder.h"

namespace ringmax::cli {
namespace {

constexpr std::string_view kReportFile = "memory-usage-report.txt";

// A `ringmax compile` whose output goes into a file; it does not outlive us.
class Compilation {
 public:
  Compilation(std::vector<std::string> words, const std::string& output) {
    int ends[2];
    RINGMAX_CHECK(::pipe2(ends, O_CLOEXEC) == 0);
    const int file =
        ::open(output.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    RINGMAX_CHECK(file >= 0);
    // All that is allocated is there before the fork: other threads may hold
    // the allocator's lock.
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    const std::string binary = executable_path().string();
    const pid_t parent = ::getpid();
    pid_ = ::fork();
    if (pid_ == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (::getppid() != parent) ::_exit(1);
      ::dup2(file, STDOUT_FILENO);
      ::dup2(file, STDERR_FILENO);
      ::fcntl(ends[1], F_SETFD, 0);  // stays open until the process ends
      ::execv(binary.c_str(), argv.data());
      ::_exit(127);
    }
    ::close(file);
    ::close(ends[1]);
    alive_ = ends[0];
    if (pid_ < 0) {
      ::close(alive_);
      fail(ErrorCode::kFailedPrecondition, "{} cannot be started", binary);
    }
  }
  ~Compilation() {
    if (pid_ > 0) {
      ::kill(pid_, SIGKILL);
      ::waitpid(pid_, nullptr, 0);
    }
    ::close(alive_);
  }
  Compilation(const Compilation&) = delete;
  Compilation& operator=(const Compilation&) = delete;

  // Readable, at its end, once the process has ended.
  int alive() const { return alive_; }

 private:
  pid_t pid_ = -1;
  int alive_ = -1;
};

// Tells when a file in a folder is complete.
class FolderWatch {
 public:
  explicit FolderWatch(const std::string& folder)
      : inotify_(::inotify_init1(IN_CLOEXEC | IN_NONBLOCK)) {
    RINGMAX_CHECK(inotify_ >= 0);
    RINGMAX_CHECK(::inotify_add_watch(inotify_, folder.c_str(),
                                      IN_CLOSE_WRITE | IN_MOVED_TO) >= 0);
  }
  ~FolderWatch() { ::close(inotify_); }
  FolderWatch(const FolderWatch&) = delete;
  FolderWatch& operator=(const FolderWatch&) = delete;

  // False when `other` ends before something happens.
  bool wait(int other) {
    pollfd polled[] = {{inotify_, POLLIN, 0}, {other, POLLIN, 0}};
    while (::poll(polled, 2, -1) < 0) RINGMAX_CHECK(errno == EINTR);
    if (polled[0].revents == 0) return false;
    char events[4096];
    while (::read(inotify_, events, sizeof(events)) > 0) continue;
    return true;
  }

 private:
  int inotify_;
};

std::optional<std::int64_t> report_in(const std::string& folder) {
  for (const std::string& path : list_files(folder)) {
    if (!path.ends_with(kReportFile)) continue;
    if (const auto bytes = reported_bytes(read_file(path))) return bytes;
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::int64_t> reported_bytes(std::string_view report) {
  // Other memory spaces follow the device's.
  const std::size_t space = report.find("(color=0)");
  if (space == std::string_view::npos) return std::nullopt;
  constexpr std::string_view kTotal = "Total bytes: ";
  const std::size_t at = report.find(kTotal, space);
  if (at == std::string_view::npos) return std::nullopt;
  std::int64_t bytes = 0;
  const char* first = report.data() + at + kTotal.size();
  const char* last = report.data() + report.size();
  const auto [end, error] = std::from_chars(first, last, bytes);
  // A number that the text ends with may go on.
  if (error != std::errc() || end == last) return std::nullopt;
  return bytes;
}

std::int64_t probe_memory(const std::vector<std::string>& settings,
                          const std::string& compile_xla_flags) {
  const ScratchFolder scratch("find_max_length=true");
  const std::string dump = join_path(scratch.path(), "dump");
  const std::string output = join_path(scratch.path(), "output");
  make_directories(dump);
  std::vector<std::string> words = {"ringmax", "compile"};
  words.insert(words.end(), settings.begin(), settings.end());
  words.push_back("compile_xla_flags=" + compile_xla_flags +
                  " --xla_dump_to=" + dump);
  FolderWatch watch(dump);
  const Compilation compilation(std::move(words), output);
  bool running = true;
  while (running) {
    running = watch.wait(compilation.alive());
    if (const auto bytes = report_in(dump)) return *bytes;
  }
  const std::string said = read_file(output);
  const bool too_large = said.find("does not fit") != std::string::npos;
  fail(too_large ? ErrorCode::kResourceExhausted : ErrorCode::kPlugin,
       "find_max_length=true: {}",
       said.empty() ? "a compilation ended without a word" : said);
}

}  // namespace ringmax::cli
