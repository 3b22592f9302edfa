// What the doors to XLA share: operands taken and checked one after another,
// attributes, the cores of a call, and exceptions that stay inside.
#ifndef RINGMAX_ATTENTION_CPU_FFI_CALL_H_
#define RINGMAX_ATTENTION_CPU_FFI_CALL_H_

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <initializer_list>
#include <span>
#include <string>

#include "ringmax/attention/cpu/workers.h"
#include "ringmax/base/error.h"
#include "ringmax/base/ordered_call.h"
#include "xla/ffi/api/ffi.h"

namespace ringmax::attention::cpu {

// "f32[4,8]"
std::string shape_text(xla::ffi::DataType type,
                       std::span<const std::int64_t> dims);

// Takes the buffers of a call one after another.
class Buffers {
 public:
  Buffers(xla::ffi::RemainingArgs args, xla::ffi::RemainingRets rets)
      : args_(args), rets_(rets) {}

  std::size_t arguments() const { return args_.size(); }
  std::size_t results() const { return rets_.size(); }
  xla::ffi::AnyBuffer next_argument(const char* name);
  xla::ffi::AnyBuffer next_result(const char* name);
  void* argument(const char* name, xla::ffi::DataType type,
                 std::span<const std::int64_t> dims);
  void* argument(const char* name, xla::ffi::DataType type,
                 std::initializer_list<std::int64_t> dims) {
    return argument(name, type, std::span(dims.begin(), dims.size()));
  }
  void* result(const char* name, xla::ffi::DataType type,
               std::span<const std::int64_t> dims);
  void* result(const char* name, xla::ffi::DataType type,
               std::initializer_list<std::int64_t> dims) {
    return result(name, type, std::span(dims.begin(), dims.size()));
  }
  // Throws kInvalidArgument when some are left.
  void done() const;

 private:
  xla::ffi::RemainingArgs args_;
  xla::ffi::RemainingRets rets_;
  std::size_t next_argument_ = 0, next_result_ = 0;
};

template <typename T>
T attribute(const xla::ffi::Dictionary& attributes, const char* name) {
  const auto value = attributes.get<T>(name);
  if (!value) fail_invalid("attribute {} is missing or of another type", name);
  return *value;
}

// Of one device the plugin's pool, of several the team of this process: it
// gives every core something to do.
Workers workers_of(const xla::ffi::ThreadPool& pool, std::int64_t devices);

// No exception crosses the C boundary.
template <auto kCall>
xla::ffi::Error guarded(const char* name, xla::ffi::ThreadPool pool,
                        xla::ffi::RemainingArgs args,
                        xla::ffi::RemainingRets rets,
                        xla::ffi::Dictionary attributes) noexcept {
  [[maybe_unused]] const OrderedCall order;
  try {
    kCall(pool, args, rets, attributes);
    return xla::ffi::Error::Success();
  } catch (const Error& error) {
    return xla::ffi::Error::InvalidArgument(
        fmt::format("{}: {}", name, error.message()));
  } catch (const std::exception& error) {
    return xla::ffi::Error::Internal(fmt::format("{}: {}", name, error.what()));
  }
}

// A handler's function and its binding: kCall under the name kName.
template <auto kCall, const char* kName>
xla::ffi::Error handle(xla::ffi::ThreadPool pool, xla::ffi::RemainingArgs args,
                       xla::ffi::RemainingRets rets,
                       xla::ffi::Dictionary attributes) {
  return guarded<kCall>(kName, pool, args, rets, attributes);
}
inline auto call_binding() {
  return xla::ffi::Ffi::Bind()
      .Ctx<xla::ffi::ThreadPool>()
      .RemainingArgs()
      .RemainingRets()
      .Attrs();
}

}  // namespace ringmax::attention::cpu

#endif  // RINGMAX_ATTENTION_CPU_FFI_CALL_H_
