#include "ringmax/model/cpu/exchange.h"

#include <cstdlib>
#include <new>
#include <utility>

#include "ringmax/base/error.h"

namespace ringmax::model::cpu {

Exchange& Exchange::instance() {
  // Never destroyed: threads of a plugin may outlive main.
  static auto* const exchange = new Exchange();
  return *exchange;
}

Exchange::Array Exchange::allocate(std::int64_t kind, std::int64_t floats) {
  constexpr std::size_t kLine = 64;
  const std::size_t bytes =
      (static_cast<std::size_t>(floats) * sizeof(float) + kLine - 1) / kLine *
      kLine;
  auto* data = static_cast<float*>(std::aligned_alloc(kLine, bytes + kLine));
  if (data == nullptr) throw std::bad_alloc();
  return {kind, floats,
          std::shared_ptr<float>(data, [](float* p) { std::free(p); })};
}

std::int64_t Exchange::put(Array array, std::int64_t readers) {
  const std::lock_guard lock(mutex_);
  entries_.emplace(next_, Entry{std::move(array), readers, false});
  return next_++;
}

std::int64_t Exchange::keep(Array array, std::int64_t releases) {
  const std::lock_guard lock(mutex_);
  entries_.emplace(next_, Entry{std::move(array), releases, true});
  return next_++;
}

void Exchange::release(std::int64_t ticket) {
  const std::lock_guard lock(mutex_);
  const auto it = entries_.find(ticket);
  if (it == entries_.end() || !it->second.kept) {
    fail(ErrorCode::kInternal, "array {} is not kept, or not any more", ticket);
  }
  if (--it->second.readers == 0) entries_.erase(it);
}

Exchange::Array Exchange::take(std::int64_t ticket, std::int64_t kind,
                               std::int64_t floats) {
  const std::lock_guard lock(mutex_);
  const auto it = entries_.find(ticket);
  if (it == entries_.end()) {
    fail(ErrorCode::kInternal, "there is no array {}, or all have read it",
         ticket);
  }
  Array array = it->second.array;
  if (array.kind != kind || array.floats != floats) {
    fail(ErrorCode::kInternal,
         "array {} is of kind {} with {} numbers, not {} with {}", ticket,
         array.kind, array.floats, kind, floats);
  }
  if (!it->second.kept && --it->second.readers == 0) entries_.erase(it);
  return array;
}

std::int64_t Exchange::waiting() const {
  const std::lock_guard lock(mutex_);
  return static_cast<std::int64_t>(entries_.size());
}

void Exchange::clear() {
  const std::lock_guard lock(mutex_);
  entries_.clear();
}

}  // namespace ringmax::model::cpu
