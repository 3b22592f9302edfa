// For tests: runs the command line in this process and keeps what it prints.
#ifndef RINGMAX_CLI_TESTING_RUN_H_
#define RINGMAX_CLI_TESTING_RUN_H_

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "ringmax/cli/commands.h"

namespace ringmax::cli {

struct Result {
  int code = 0;
  std::string out;
  std::string err;
};

inline Result run(std::vector<std::string> args) {
  Result result;
  ::testing::internal::CaptureStdout();
  ::testing::internal::CaptureStderr();
  result.code = run_cli(args);
  result.out = ::testing::internal::GetCapturedStdout();
  result.err = ::testing::internal::GetCapturedStderr();
  return result;
}

}  // namespace ringmax::cli

#endif  // RINGMAX_CLI_TESTING_RUN_H_
