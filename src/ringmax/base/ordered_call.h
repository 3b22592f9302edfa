// Order between threads that ThreadSanitizer cannot see, because code without
// instrumentation makes it: the plugin calls us on its threads, one call after
// another, and hands memory from one call to the next.
#ifndef RINGMAX_BASE_ORDERED_CALL_H_
#define RINGMAX_BASE_ORDERED_CALL_H_

#ifdef __SANITIZE_THREAD__
#include <sanitizer/tsan_interface.h>
#endif

namespace ringmax {

// Stands for one call from the plugin: what ended before it began happened
// before it. Calls that overlap stay unordered, so that races between them, and
// within one, are found. Nothing in other builds. Without it every write of a
// kernel looks like a race with the buffer's last user; the reports were
// suppressed, but took hours.
class OrderedCall {
 public:
#ifdef __SANITIZE_THREAD__
  OrderedCall() { __tsan_acquire(&door_); }
  ~OrderedCall() { __tsan_release(&door_); }
#else
  OrderedCall() = default;
  ~OrderedCall() = default;
#endif
  OrderedCall(const OrderedCall&) = delete;
  OrderedCall& operator=(const OrderedCall&) = delete;

 private:
#ifdef __SANITIZE_THREAD__
  static inline char door_ = 0;
#endif
};

}  // namespace ringmax

#endif  // RINGMAX_BASE_ORDERED_CALL_H_
