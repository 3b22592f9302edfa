// For tests: what a call that must be refused says.
#ifndef RINGMAX_BASE_TESTING_MESSAGE_OF_H_
#define RINGMAX_BASE_TESTING_MESSAGE_OF_H_

#include <functional>
#include <string>

#include "ringmax/base/error.h"

namespace ringmax {

// The message of the Error that it throws.
inline std::string message_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.message();
  }
  return "nothing was thrown";
}

}  // namespace ringmax

#endif  // RINGMAX_BASE_TESTING_MESSAGE_OF_H_
