#include "ringmax/attention/cpu/ffi_call.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <thread>
#include <utility>

namespace ringmax::attention::cpu {
namespace {

namespace ffi = xla::ffi;

std::string type_text(ffi::DataType type) {
  switch (type) {
    case ffi::DataType::F32:
      return "f32";
    case ffi::DataType::BF16:
      return "bf16";
    case ffi::DataType::S32:
      return "s32";
    case ffi::DataType::S64:
      return "s64";
    case ffi::DataType::PRED:
      return "pred";
    default:
      return fmt::format("type {}", static_cast<int>(type));
  }
}

void* checked(const char* name, const ffi::AnyBuffer& buffer,
              ffi::DataType type, std::span<const std::int64_t> dims) {
  const auto have = buffer.dimensions();
  if (buffer.element_type() != type ||
      !std::equal(have.begin(), have.end(), dims.begin(), dims.end())) {
    fail_invalid("{} is {}, not {}", name,
                 shape_text(buffer.element_type(), {have.begin(), have.end()}),
                 shape_text(type, dims));
  }
  return buffer.untyped_data();
}

}  // namespace

std::string shape_text(ffi::DataType type, std::span<const std::int64_t> dims) {
  return fmt::format("{}[{}]", type_text(type), fmt::join(dims, ","));
}

ffi::AnyBuffer Buffers::next_argument(const char* name) {
  const auto buffer = args_.get<ffi::AnyBuffer>(next_argument_++);
  if (!buffer) fail_invalid("operand {} is missing", name);
  return *buffer;
}

ffi::AnyBuffer Buffers::next_result(const char* name) {
  auto buffer = rets_.get<ffi::AnyBuffer>(next_result_++);
  if (!buffer) fail_invalid("result {} is missing", name);
  return **buffer;
}

void* Buffers::argument(const char* name, ffi::DataType type,
                        std::span<const std::int64_t> dims) {
  return checked(name, next_argument(name), type, dims);
}

void* Buffers::result(const char* name, ffi::DataType type,
                      std::span<const std::int64_t> dims) {
  return checked(name, next_result(name), type, dims);
}

void Buffers::done() const {
  if (args_.size() != next_argument_ || rets_.size() != next_result_) {
    fail_invalid("there are {} operands and {} results, not {} and {}",
                 args_.size(), rets_.size(), next_argument_, next_result_);
  }
}

Workers workers_of(const ffi::ThreadPool& pool, std::int64_t devices) {
  if (devices > 1) return Workers(Team::instance());
  const std::int64_t cores = std::min<std::int64_t>(
      pool.num_threads(), std::thread::hardware_concurrency());
  // A pool's Schedule is not const, but a copy is as good.
  return {std::max<std::int64_t>(1, cores) - 1,
          [pool](std::function<void()> f) {
            ffi::ThreadPool copy = pool;
            copy.Schedule(std::move(f));
          }};
}

}  // namespace ringmax::attention::cpu
