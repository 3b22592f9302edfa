#include "ringmax/base/problems.h"

#include "ringmax/base/error.h"

namespace ringmax {

void Problems::throw_if_any() const {
  if (messages_.empty()) return;
  if (messages_.size() == 1) {
    throw Error(ErrorCode::kInvalidArgument, messages_.front());
  }
  std::string all = fmt::format("{} problems:", messages_.size());
  for (std::size_t i = 0; i < messages_.size(); ++i) {
    all += fmt::format("\n  {}. {}", i + 1, messages_[i]);
  }
  throw Error(ErrorCode::kInvalidArgument, all);
}

}  // namespace ringmax
