// A thread's working memory for kernel tasks: grown, never given back, so that
// a task does not allocate.
#ifndef RINGMAX_ATTENTION_CPU_SCRATCH_H_
#define RINGMAX_ATTENTION_CPU_SCRATCH_H_

#include <cstddef>
#include <cstdint>

namespace ringmax::attention::cpu {

// Hands out consecutive aligned pieces of one thread-local allocation. Only
// one may live on a thread at a time.
class Scratch {
 public:
  explicit Scratch(std::size_t bytes);
  static constexpr std::size_t rounded(std::size_t bytes) {
    return (bytes + 63) / 64 * 64;
  }
  template <typename T>
  T* take(std::ptrdiff_t count) {
    void* piece = next_;
    next_ += rounded(static_cast<std::size_t>(count) * sizeof(T));
    return static_cast<T*>(piece);
  }
  // Whether no more was taken than was asked for.
  bool within() const { return next_ <= end_; }

 private:
  std::byte* next_;
  std::byte* end_;
};

}  // namespace ringmax::attention::cpu

#endif  // RINGMAX_ATTENTION_CPU_SCRATCH_H_
