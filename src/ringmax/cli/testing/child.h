// For tests: the built binary in a process of its own.
#ifndef RINGMAX_CLI_TESTING_CHILD_H_
#define RINGMAX_CLI_TESTING_CHILD_H_

#include <sys/types.h>

#include <string>
#include <vector>

namespace ringmax::cli {

// A file that was built beside the running test, e.g. "ringmax".
std::string built_file(const std::string& name);

// A running `ringmax ARGS...`; killed by the destructor when it still runs.
class Child {
 public:
  explicit Child(const std::vector<std::string>& args);
  ~Child();
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  // Reads its output (standard output and error, in the order they came) up to
  // the end of the first line that holds `text`; false when it ends before.
  bool wait_for(const std::string& text);
  void signal(int number) const;
  // Closes our end of the pipe: what it writes from now on has no reader.
  void stop_reading();
  // Waits for its end: the exit code, or minus the signal that ended it.
  int wait();
  // All that was read so far; after wait(), all there is.
  const std::string& output() const { return output_; }

 private:
  bool read_more();

  pid_t pid_ = -1;
  int pipe_ = -1;
  std::string output_;
};

}  // namespace ringmax::cli

#endif  // RINGMAX_CLI_TESTING_CHILD_H_
