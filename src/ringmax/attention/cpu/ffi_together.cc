// The calls that the devices of a ring make together.
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "ringmax/attention/cpu/ffi.h"
#include "ringmax/attention/cpu/ffi_call.h"
#include "ringmax/attention/cpu/ffi_operands.h"
#include "ringmax/attention/cpu/meeting.h"
#include "ringmax/base/error.h"
#include "xla/ffi/api/ffi.h"

namespace ringmax::attention::cpu {
namespace {

namespace ffi = xla::ffi;

void call_share(ffi::ThreadPool, ffi::RemainingArgs args,
                ffi::RemainingRets rets, ffi::Dictionary attributes) {
  const CallAttributes a = read_attributes(attributes);
  if (!a.tokens_first) fail_invalid("attribute tokens_first is 0");
  Buffers buffers(args, rets);
  const Problem p = read_problem(buffers, a);
  const BackwardInputs in =
      a.gradient ? read_gradient(buffers, p, a) : BackwardInputs{};
  auto* ticket = static_cast<std::int64_t*>(
      buffers.result("ticket", ffi::DataType::S64, {1}));
  buffers.done();
  *ticket = Meetings::instance().put(
      std::make_shared<Part>(p, a.parts, a.gradient ? &in : nullptr));
}

// A device's call that all make together.
class Call {
 public:
  Call(const ffi::ThreadPool& pool, Buffers& buffers,
       const ffi::Dictionary& attributes)
      : workers_(workers_of(pool, positive(attributes, "devices"))) {
    const std::int64_t parts = positive(attributes, "parts");
    const auto* tickets = static_cast<const std::int64_t*>(
        buffers.argument("tickets", ffi::DataType::S64, {parts}));
    index_ = *static_cast<const std::int32_t*>(
        buffers.argument("index", ffi::DataType::S32, {}));
    if (index_ < 0 || index_ >= parts) fail_invalid("index is {}", index_);
    meeting_ = Meetings::instance().join(
        std::span(tickets, static_cast<std::size_t>(parts)));
  }

  std::int64_t index() const { return index_; }
  Together& together() { return meeting_->together(); }
  const Problem& problem() { return together().part(index_).problem(); }
  const Workers& workers() const { return workers_; }
  void run(const std::function<void()>& work) { meeting_->run(work); }

 private:
  static std::int64_t positive(const ffi::Dictionary& a, const char* name) {
    const auto n = attribute<std::int64_t>(a, name);
    if (n < 1) fail_invalid("attribute {} is {}", name, n);
    return n;
  }

  Workers workers_;
  std::int64_t index_ = 0;
  std::shared_ptr<Meeting> meeting_;
};

void call_forward(ffi::ThreadPool pool, ffi::RemainingArgs args,
                  ffi::RemainingRets rets, ffi::Dictionary attributes) {
  Buffers buffers(args, rets);
  Call call(pool, buffers, attributes);
  const Problem& p = call.problem();
  const Arrays queries = query_arrays(p, true);
  const std::vector<std::int64_t> row = row_dims(p);
  ForwardResult r;
  r.out = queries.floats(
      buffers.result("out", ffi::DataType::F32, queries.dims(p.value_dim)),
      p.value_dim);
  r.sum = static_cast<float*>(buffers.result("sum", ffi::DataType::F32, row));
  r.max = static_cast<float*>(buffers.result("max", ffi::DataType::F32, row));
  buffers.done();
  call.run([&] { call.together().forward(call.workers()); });
  call.together().take(call.index(), r);
}

void call_backward(ffi::ThreadPool pool, ffi::RemainingArgs args,
                   ffi::RemainingRets rets, ffi::Dictionary attributes) {
  Buffers buffers(args, rets);
  Call call(pool, buffers, attributes);
  const Problem& p = call.problem();
  const auto result = [&](const char* name, const Arrays& arrays,
                          std::int64_t columns) {
    return arrays.floats(
        buffers.result(name, ffi::DataType::F32, arrays.dims(columns)),
        columns);
  };
  const FloatRows dq = result("dq", query_arrays(p, true), p.head_dim);
  const FloatRows dk = result("dk", key_arrays(p, true), p.head_dim);
  const FloatRows dv = result("dv", key_arrays(p, true), p.value_dim);
  buffers.done();
  call.run([&] { call.together().backward(call.workers()); });
  call.together().take(call.index(), dq, dk, dv);
}

constexpr auto kShareCall = handle<call_share, kShareTarget>;
constexpr auto kForwardCall = handle<call_forward, kForwardTogetherTarget>;
constexpr auto kBackwardCall = handle<call_backward, kBackwardTogetherTarget>;

XLA_FFI_DEFINE_HANDLER(kShareHandler, kShareCall, call_binding());
XLA_FFI_DEFINE_HANDLER(kForwardHandler, kForwardCall, call_binding());
XLA_FFI_DEFINE_HANDLER(kBackwardHandler, kBackwardCall, call_binding());

}  // namespace

std::span<const FfiHandler> together_handlers() {
  static const FfiHandler handlers[] = {
      {kShareTarget, reinterpret_cast<void*>(kShareHandler)},
      {kForwardTogetherTarget, reinterpret_cast<void*>(kForwardHandler)},
      {kBackwardTogetherTarget, reinterpret_cast<void*>(kBackwardHandler)},
  };
  return handlers;
}

}  // namespace ringmax::attention::cpu
