#include "ringmax/base/error.h"

namespace ringmax {

std::string_view error_code_name(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalidArgument:
      return "invalid_argument";
    case ErrorCode::kNotFound:
      return "not_found";
    case ErrorCode::kFailedPrecondition:
      return "failed_precondition";
    case ErrorCode::kResourceExhausted:
      return "resource_exhausted";
    case ErrorCode::kUnimplemented:
      return "unimplemented";
    case ErrorCode::kPlugin:
      return "plugin";
    case ErrorCode::kIo:
      return "io";
    case ErrorCode::kInternal:
      return "internal";
  }
  return "unknown";
}

int exit_code_for(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalidArgument:
    case ErrorCode::kNotFound:
    case ErrorCode::kFailedPrecondition:
    case ErrorCode::kResourceExhausted:
      return 2;
    case ErrorCode::kUnimplemented:
    case ErrorCode::kPlugin:
    case ErrorCode::kIo:
    case ErrorCode::kInternal:
      return 1;
  }
  return 1;
}

namespace internal {
void check_failed(const char* condition, const char* file, int line) {
  fail(ErrorCode::kInternal, "internal error: {} does not hold at {}:{}",
       condition, file, line);
}
}  // namespace internal

}  // namespace ringmax
