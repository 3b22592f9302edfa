// A line on standard error that says for how long something has been going on:
// "compiling ... 12 s". Nothing when standard error is no terminal.
#ifndef RINGMAX_CLI_PROGRESS_H_
#define RINGMAX_CLI_PROGRESS_H_

#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

namespace ringmax::cli {

class Progress {
 public:
  explicit Progress(std::string what);
  // Wipes the line.
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

 private:
  void run();

  std::string what_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool done_ = false;
  std::thread thread_;  // not running without a terminal
};

}  // namespace ringmax::cli

#endif  // RINGMAX_CLI_PROGRESS_H_
