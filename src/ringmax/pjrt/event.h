// Completion of something that a plugin does in the background.
#ifndef RINGMAX_PJRT_EVENT_H_
#define RINGMAX_PJRT_EVENT_H_

#include <functional>
#include <memory>

#include "ringmax/base/array.h"
#include "ringmax/base/error.h"

struct PJRT_Event;

namespace ringmax::pjrt {

class Api;

// A shared handle. A default-made Event is ready and without error. Dropping
// an event neither waits nor cancels.
class Event {
 public:
  Event() = default;
  // Takes ownership of `event` (null: ready). `origin` names the call that made
  // it, for messages; it must be a literal.
  Event(std::shared_ptr<const Api> api, PJRT_Event* event, const char* origin);

  // Blocks; throws the error that the work ended with.
  void await() const;
  bool is_ready() const;
  // Calls back once, at the latest when the work ends: on a thread of the
  // plugin or on this one. The pointer is null on success. The callback must
  // not throw and must not wait for device work.
  void on_ready(std::function<void(const Error*)> callback) const;

 private:
  std::shared_ptr<const Api> api_;
  std::shared_ptr<PJRT_Event> event_;
  const char* origin_ = "";
};

// An array on its way to the host.
class HostFuture {
 public:
  HostFuture(HostArray array, Event done)
      : array_(std::move(array)), done_(std::move(done)) {}

  bool is_ready() const { return done_.is_ready(); }
  // Blocks; throws when the transfer, or the program that makes the values,
  // failed. Every call returns the same bytes.
  HostArray get() const {
    done_.await();
    return array_;
  }
  const Event& done() const { return done_; }

 private:
  HostArray array_;
  Event done_;
};

}  // namespace ringmax::pjrt

#endif  // RINGMAX_PJRT_EVENT_H_
