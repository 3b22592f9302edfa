#include "ringmax/attention/cpu/ffi.h"

#include <fmt/format.h>

#include <cstring>
#include <span>
#include <vector>

#include "ringmax/attention/cpu/ffi_call.h"
#include "ringmax/attention/cpu/ffi_operands.h"
#include "ringmax/attention/cpu/kernel.h"
#include "ringmax/base/error.h"
#include "xla/ffi/api/ffi.h"

namespace ringmax::attention::cpu {
namespace {

namespace ffi = xla::ffi;

std::int64_t floats_of(std::span<const std::int64_t> dims) {
  std::int64_t n = 1;
  for (const std::int64_t d : dims) n *= d;
  return n;
}

void call_forward(ffi::ThreadPool pool, ffi::RemainingArgs args,
                  ffi::RemainingRets rets, ffi::Dictionary attributes) {
  const CallAttributes a = read_attributes(attributes);
  Buffers buffers(args, rets);
  Problem p = read_problem(buffers, a);
  ForwardResult r;
  const Arrays queries = query_arrays(p, a.tokens_first);
  r.out = queries.floats(
      buffers.result("out", ffi::DataType::F32, queries.dims(p.value_dim)),
      p.value_dim);
  const std::vector<std::int64_t> row = row_dims(p);
  r.sum = static_cast<float*>(buffers.result("sum", ffi::DataType::F32, row));
  r.max = static_cast<float*>(buffers.result("max", ffi::DataType::F32, row));
  buffers.done();
  forward(p, r, workers_of(pool, a.devices));
}

void call_backward(ffi::ThreadPool pool, ffi::RemainingArgs args,
                   ffi::RemainingRets rets, ffi::Dictionary attributes) {
  const CallAttributes a = read_attributes(attributes);
  Buffers buffers(args, rets);
  Problem p = read_problem(buffers, a);
  BackwardInputs in = read_gradient(buffers, p, a);
  const Arrays queries = query_arrays(p, a.tokens_first);
  const Arrays keys = key_arrays(p, a.tokens_first);
  struct Sum {
    const char* name;
    FloatRows* rows;
    const Arrays& arrays;
    std::int64_t columns;
  };
  const Sum sums[] = {
      {"dq", &in.dq, queries, p.head_dim},
      {"dk", &in.dk, keys, p.head_dim},
      {"dv", &in.dv, keys, p.value_dim},
  };
  const void* given[3] = {};
  for (int i = 0; i < 3 && !a.fresh; ++i) {
    given[i] = buffers.argument(sums[i].name, ffi::DataType::F32,
                                sums[i].arrays.dims(sums[i].columns));
  }
  for (int i = 0; i < 3; ++i) {
    const Sum& s = sums[i];
    const std::vector<std::int64_t> dims = s.arrays.dims(s.columns);
    void* made = buffers.result(s.name, ffi::DataType::F32, dims);
    if (!a.fresh && made != given[i]) {
      std::memcpy(made, given[i], floats_of(dims) * sizeof(float));
    }
    *s.rows = s.arrays.floats(made, s.columns);
  }
  in.fresh = a.fresh;
  buffers.done();
  backward(p, in, workers_of(pool, a.devices));
}

constexpr auto kForwardCall = handle<call_forward, kForwardTarget>;
constexpr auto kBackwardCall = handle<call_backward, kBackwardTarget>;

XLA_FFI_DEFINE_HANDLER(kForwardHandler, kForwardCall, call_binding());
XLA_FFI_DEFINE_HANDLER(kBackwardHandler, kBackwardCall, call_binding());

}  // namespace

std::string attributes_text(const CallAttributes& a) {
  return fmt::format(
      "{{mask = \"{}\", scale = {:.17e} : f64, soft_cap = {:.17e} : f64, "
      "block_q = {} : i64, block_kv = {} : i64, segments = {} : i64, "
      "tile = {} : i64, tokens_first = {} : i64, fresh = {} : i64, "
      "devices = {} : i64, parts = {} : i64, gradient = {} : i64}}",
      a.mask.to_string(), a.scale, a.soft_cap, a.block_q, a.block_kv,
      a.segments ? 1 : 0, a.tile ? 1 : 0, a.tokens_first ? 1 : 0,
      a.fresh ? 1 : 0, a.devices, a.parts, a.gradient ? 1 : 0);
}

std::span<const FfiHandler> ffi_handlers() {
  static const FfiHandler handlers[] = {
      {kForwardTarget, reinterpret_cast<void*>(kForwardHandler)},
      {kBackwardTarget, reinterpret_cast<void*>(kBackwardHandler)},
  };
  return handlers;
}

}  // namespace ringmax::attention::cpu
