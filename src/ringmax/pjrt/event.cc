#include "ringmax/pjrt/event.h"

#include <exception>
#include <utility>

#include "ringmax/base/log.h"
#include "ringmax/pjrt/api.h"

namespace ringmax::pjrt {
namespace {

struct Pending {
  std::shared_ptr<const Api> api;
  const char* origin;
  std::function<void(const Error*)> callback;
};

void call_back(PJRT_Error* error, void* user_arg) noexcept {
  const std::unique_ptr<Pending> pending(static_cast<Pending*>(user_arg));
  try {
    if (error == nullptr) {
      pending->callback(nullptr);
    } else {
      const Error converted = pending->api->take_error(error, pending->origin);
      pending->callback(&converted);
    }
  } catch (const std::exception& failure) {
    log_warning("a callback of {} failed: {}", pending->origin, failure.what());
  }
}

}  // namespace

Event::Event(std::shared_ptr<const Api> api, PJRT_Event* event,
             const char* origin)
    : api_(std::move(api)), origin_(origin) {
  if (event == nullptr) return;
  event_ = std::shared_ptr<PJRT_Event>(event, [table = api_](PJRT_Event* e) {
    RINGMAX_PJRT_ARGS(PJRT_Event_Destroy_Args, args);
    args.event = e;
    RINGMAX_PJRT_CALL_QUIETLY(*table, PJRT_Event_Destroy, args);
  });
}

void Event::await() const {
  if (event_ == nullptr) return;
  RINGMAX_PJRT_ARGS(PJRT_Event_Await_Args, args);
  args.event = event_.get();
  // The error is that of the work, so it carries the work's name.
  api_->call(offsetof(PJRT_Api, PJRT_Event_Await), "PJRT_Event_Await", args,
             origin_);
}

bool Event::is_ready() const {
  if (event_ == nullptr) return true;
  RINGMAX_PJRT_ARGS(PJRT_Event_IsReady_Args, args);
  args.event = event_.get();
  RINGMAX_PJRT_CALL(*api_, PJRT_Event_IsReady, args);
  return args.is_ready;
}

void Event::on_ready(std::function<void(const Error*)> callback) const {
  if (event_ == nullptr) {
    callback(nullptr);
    return;
  }
  auto pending =
      std::make_unique<Pending>(Pending{api_, origin_, std::move(callback)});
  RINGMAX_PJRT_ARGS(PJRT_Event_OnReady_Args, args);
  args.event = event_.get();
  args.callback = &call_back;
  args.user_arg = pending.get();
  RINGMAX_PJRT_CALL(*api_, PJRT_Event_OnReady, args);
  // The callback owns it from here on; it may already have run.
  static_cast<void>(pending.release());
}

}  // namespace ringmax::pjrt
