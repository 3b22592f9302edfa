#include "ringmax/cli/testing/child.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

#include "ringmax/base/error.h"
#include "ringmax/base/installation.h"

namespace ringmax::cli {

std::string built_file(const std::string& name) {
  return (executable_path().parent_path() / name).string();
}

Child::Child(const std::vector<std::string>& args) {
  const std::string binary = built_file("ringmax");
  std::vector<std::string> words = {binary};
  words.insert(words.end(), args.begin(), args.end());
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  int ends[2];
  RINGMAX_CHECK(::pipe2(ends, O_CLOEXEC) == 0);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  ::posix_spawn_file_actions_adddup2(&actions, ends[1], STDERR_FILENO);
  const int failed = ::posix_spawn(&pid_, binary.c_str(), &actions, nullptr,
                                   argv.data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  ::close(ends[1]);
  pipe_ = ends[0];
  if (failed != 0) {
    ::close(pipe_);
    fail(ErrorCode::kIo, "{} cannot be started: error {}", binary, failed);
  }
}

Child::~Child() {
  if (pid_ > 0) {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  stop_reading();
}

void Child::stop_reading() {
  if (pipe_ >= 0) ::close(pipe_);
  pipe_ = -1;
}

bool Child::read_more() {
  if (pipe_ < 0) return false;
  char buffer[4096];
  ssize_t count = 0;
  do {
    count = ::read(pipe_, buffer, sizeof(buffer));
  } while (count < 0 && errno == EINTR);
  if (count <= 0) return false;
  output_.append(buffer, static_cast<std::size_t>(count));
  return true;
}

bool Child::wait_for(const std::string& text) {
  while (true) {
    const std::size_t found = output_.find(text);
    if (found != std::string::npos &&
        output_.find('\n', found) != std::string::npos) {
      return true;
    }
    if (!read_more()) return false;
  }
}

void Child::signal(int number) const { ::kill(pid_, number); }

int Child::wait() {
  while (read_more()) {
  }
  int status = 0;
  RINGMAX_CHECK(::waitpid(pid_, &status, 0) == pid_);
  pid_ = -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

}  // namespace ringmax::cli
