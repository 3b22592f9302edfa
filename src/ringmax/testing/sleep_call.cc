#include "ringmax/testing/sleep_call.h"

#include <fmt/format.h>

#include <chrono>
#include <cstring>
#include <thread>

#include "ringmax/graph/control.h"
#include "ringmax/graph/parallel.h"
#include "ringmax/pjrt/ffi.h"
#include "ringmax/testing/run_graph.h"
#include "xla/ffi/api/ffi.h"

namespace ringmax::testing {
namespace {

namespace ffi = xla::ffi;

ffi::Error sleep_call(ffi::AnyBuffer x, ffi::Buffer<ffi::S32> here,
                      ffi::Result<ffi::AnyBuffer> y, std::int64_t device,
                      double seconds) {
  if (here.typed_data()[0] == device) {
    std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
  }
  std::memcpy(y->untyped_data(), x.untyped_data(), x.size_bytes());
  return ffi::Error::Success();
}

XLA_FFI_DEFINE_HANDLER(kSleepHandler, sleep_call,
                       ffi::Ffi::Bind()
                           .Arg<ffi::AnyBuffer>()
                           .Arg<ffi::Buffer<ffi::S32>>()
                           .Ret<ffi::AnyBuffer>()
                           .Attr<std::int64_t>("device")
                           .Attr<double>("seconds"));

}  // namespace

graph::Value sleep_on_device(graph::Value x, std::string_view axis,
                             std::int64_t device, double seconds) {
  static const bool registered = [] {
    pjrt::register_ffi_handler(cpu_client().plugin(), "ringmax_test_sleep",
                               reinterpret_cast<void*>(kSleepHandler));
    return true;
  }();
  static_cast<void>(registered);
  graph::CustomCallAttr attr;
  attr.target = "ringmax_test_sleep";
  attr.backend_config = fmt::format(
      "{{device = {} : i64, seconds = {:.6e} : f64}}", device, seconds);
  return graph::custom_call(*x.graph, {x, graph::axis_index(*x.graph, axis)},
                            {x.shape()}, std::move(attr))[0];
}

}  // namespace ringmax::testing
