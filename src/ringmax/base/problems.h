// A list of everything that is wrong with a command or config, so that a user
// reads all of it at once and not one error a try.
#ifndef RINGMAX_BASE_PROBLEMS_H_
#define RINGMAX_BASE_PROBLEMS_H_

#include <fmt/format.h>

#include <string>
#include <utility>
#include <vector>

namespace ringmax {

class Problems {
 public:
  template <typename... Args>
  void add(fmt::format_string<Args...> format, Args&&... args) {
    messages_.push_back(fmt::format(format, std::forward<Args>(args)...));
  }

  bool empty() const { return messages_.empty(); }
  const std::vector<std::string>& messages() const { return messages_; }
  // Throws kInvalidArgument: the one message, or a numbered list. Does nothing
  // when there are none.
  void throw_if_any() const;

 private:
  std::vector<std::string> messages_;
};

}  // namespace ringmax

#endif  // RINGMAX_BASE_PROBLEMS_H_
