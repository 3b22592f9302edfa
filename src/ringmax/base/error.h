// The one exception type of RingMax and the helpers that throw it.
//
// Errors are exceptions. A message names the setting or operand, its value, and
// what would be valid, so that a user can act on it without reading the source.
// FFI handlers and C callbacks are noexcept and convert at their door.
#ifndef RINGMAX_BASE_ERROR_H_
#define RINGMAX_BASE_ERROR_H_

#include <fmt/format.h>

#include <exception>
#include <string>
#include <string_view>
#include <utility>

namespace ringmax {

enum class ErrorCode {
  kInvalidArgument,     // a command, setting, shape or input file is wrong
  kNotFound,            // a file, plugin or key that should exist does not
  kFailedPrecondition,  // the request is fine but not in this state or place
  kResourceExhausted,   // the machine cannot hold the job; nothing was started
  kUnimplemented,       // a plugin lacks a function
  kPlugin,              // a PJRT plugin reported an error
  kIo,                  // reading or writing failed half-way
  kInternal,            // an invariant of RingMax itself is broken
};

// Stable lower-case name, e.g. "invalid_argument".
std::string_view error_code_name(ErrorCode code);

// Exit code of the binary for an error: 2 when the command, config, input file
// or machine is at fault and nothing was started, 1 otherwise.
int exit_code_for(ErrorCode code);

class Error : public std::exception {
 public:
  Error(ErrorCode code, std::string message)
      : code_(code), message_(std::move(message)) {}

  ErrorCode code() const { return code_; }
  const std::string& message() const { return message_; }
  const char* what() const noexcept override { return message_.c_str(); }

 private:
  ErrorCode code_;
  std::string message_;
};

template <typename... Args>
[[noreturn]] void fail(ErrorCode code, fmt::format_string<Args...> format,
                       Args&&... args) {
  throw Error(code, fmt::format(format, std::forward<Args>(args)...));
}

// kInvalidArgument, by far the most common code.
template <typename... Args>
[[noreturn]] void fail_invalid(fmt::format_string<Args...> format,
                               Args&&... args) {
  throw Error(ErrorCode::kInvalidArgument,
              fmt::format(format, std::forward<Args>(args)...));
}

namespace internal {
[[noreturn]] void check_failed(const char* condition, const char* file,
                               int line);
}  // namespace internal

}  // namespace ringmax

// An invariant of the program itself; never used to validate user input.
#define RINGMAX_CHECK(condition)                                         \
  do {                                                                   \
    if (!(condition)) {                                                  \
      ::ringmax::internal::check_failed(#condition, __FILE__, __LINE__); \
    }                                                                    \
  } while (false)

#endif  // RINGMAX_BASE_ERROR_H_
