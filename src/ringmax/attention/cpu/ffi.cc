#include "ringmax/attention/cpu/ffi.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <initializer_list>
#include <span>
#include <vector>

#include "ringmax/attention/cpu/ffi_call.h"
#include "ringmax/attention/cpu/kernel.h"
#include "ringmax/base/error.h"
#include "xla/ffi/api/ffi.h"

namespace ringmax::attention::cpu {
namespace {

namespace ffi = xla::ffi;

CallAttributes read_attributes(const ffi::Dictionary& a) {
  CallAttributes c;
  c.mask = parse_mask(attribute<std::string_view>(a, "mask"));
  if (c.mask.find_dense() != nullptr) {
    fail_invalid("attribute mask holds an array");
  }
  c.scale = attribute<double>(a, "scale");
  c.soft_cap = attribute<double>(a, "soft_cap");
  c.block_q = attribute<std::int64_t>(a, "block_q");
  c.block_kv = attribute<std::int64_t>(a, "block_kv");
  c.segments = attribute<std::int64_t>(a, "segments") != 0;
  c.tile = attribute<std::int64_t>(a, "tile") != 0;
  c.tokens_first = attribute<std::int64_t>(a, "tokens_first") != 0;
  c.fresh = attribute<std::int64_t>(a, "fresh") != 0;
  c.devices = attribute<std::int64_t>(a, "devices");
  if (c.devices < 1) fail_invalid("attribute devices is {}", c.devices);
  return c;
}

// The arrays of queries, or of keys, of a call: how they lie in memory.
struct Arrays {
  std::int64_t batch, heads, groups, rows;  // no groups: those of keys
  bool tokens_first;

  ConstRows at(const void* data, std::int64_t columns) const {
    const std::int64_t all = heads * std::max<std::int64_t>(groups, 1);
    if (tokens_first) {
      return {data, all * rows * columns, columns, all * columns};
    }
    return {data, all * rows * columns, rows * columns, columns};
  }
  FloatRows floats(void* data, std::int64_t columns) const {
    const ConstRows like = at(nullptr, columns);
    return {static_cast<float*>(data), like.batch, like.head, like.row};
  }
  std::vector<std::int64_t> dims(std::int64_t columns) const {
    std::vector<std::int64_t> d = {heads};
    if (groups > 0) d.push_back(groups);
    d.insert(tokens_first ? d.begin() : d.end(), rows);
    d.insert(d.begin(), batch);
    d.push_back(columns);
    return d;
  }
};
Arrays query_arrays(const Problem& p, const CallAttributes& a) {
  return {p.batch, p.kv_heads, p.groups, p.queries, a.tokens_first};
}
Arrays key_arrays(const Problem& p, const CallAttributes& a) {
  return {p.batch, p.kv_heads, 0, p.keys, a.tokens_first};
}

// The operands that both calls begin with.
Problem read_problem(Buffers& buffers, const CallAttributes& a) {
  const ffi::AnyBuffer q = buffers.next_argument("q");
  const ffi::AnyBuffer k = buffers.next_argument("k");
  const ffi::AnyBuffer v = buffers.next_argument("v");
  const auto qd = q.dimensions();
  const auto kd = k.dimensions();
  const auto vd = v.dimensions();
  const std::size_t heads = a.tokens_first ? 2 : 1;
  const std::size_t keys = 3 - heads;
  const auto is_float = [](ffi::DataType type) {
    return type == ffi::DataType::F32 || type == ffi::DataType::BF16;
  };
  if (!is_float(q.element_type()) || k.element_type() != q.element_type() ||
      v.element_type() != q.element_type() || qd.size() != 5 ||
      kd.size() != 4 || vd.size() != 4 || kd[0] != qd[0] || vd[0] != qd[0] ||
      kd[heads] != qd[heads] || vd[heads] != qd[heads] ||
      vd[keys] != kd[keys] || kd[3] != qd[4]) {
    fail_invalid("q, k and v are {}, {} and {}, not {} of f32 or bf16",
                 shape_text(q.element_type(), {qd.begin(), qd.end()}),
                 shape_text(k.element_type(), {kd.begin(), kd.end()}),
                 shape_text(v.element_type(), {vd.begin(), vd.end()}),
                 a.tokens_first ? "[B,S,K,G,D], [B,T,K,D] and [B,T,K,V]"
                                : "[B,K,G,S,D], [B,K,T,D] and [B,K,T,V]");
  }
  Problem p;
  p.batch = qd[0];
  p.kv_heads = qd[heads];
  p.groups = qd[heads + 1];
  p.queries = qd[a.tokens_first ? 1 : 3];
  p.head_dim = qd[4];
  p.keys = kd[keys];
  p.value_dim = vd[3];
  p.dtype = q.element_type() == ffi::DataType::F32 ? DType::kF32 : DType::kBF16;
  p.scale = a.scale;
  p.soft_cap = a.soft_cap;
  p.mask = a.mask;
  p.block_q = a.block_q;
  p.block_kv = a.block_kv;
  p.q = query_arrays(p, a).at(q.untyped_data(), p.head_dim);
  p.k = key_arrays(p, a).at(k.untyped_data(), p.head_dim);
  p.v = key_arrays(p, a).at(v.untyped_data(), p.value_dim);
  const auto ints = [&](const char* name,
                        std::initializer_list<std::int64_t> dims) {
    return static_cast<const std::int32_t*>(
        buffers.argument(name, ffi::DataType::S32, dims));
  };
  p.q_positions = ints("q_positions", {p.queries});
  p.kv_positions = ints("kv_positions", {p.keys});
  if (a.segments) {
    p.q_segments = ints("q_segments", {p.batch, p.queries});
    p.kv_segments = ints("kv_segments", {p.batch, p.keys});
  }
  if (a.tile) {
    p.tile = static_cast<const std::uint8_t*>(
        buffers.argument("tile", ffi::DataType::PRED, {p.queries, p.keys}));
  }
  return p;
}

std::int64_t floats_of(std::span<const std::int64_t> dims) {
  std::int64_t n = 1;
  for (const std::int64_t d : dims) n *= d;
  return n;
}

std::vector<std::int64_t> row_dims(const Problem& p) {
  return {p.batch, p.kv_heads, p.groups, p.queries};
}

void call_forward(ffi::ThreadPool pool, ffi::RemainingArgs args,
                  ffi::RemainingRets rets, ffi::Dictionary attributes) {
  const CallAttributes a = read_attributes(attributes);
  Buffers buffers(args, rets);
  Problem p = read_problem(buffers, a);
  ForwardResult r;
  const Arrays queries = query_arrays(p, a);
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
  const ffi::DataType type =
      p.dtype == DType::kF32 ? ffi::DataType::F32 : ffi::DataType::BF16;
  BackwardInputs in;
  const Arrays queries = query_arrays(p, a);
  const Arrays keys = key_arrays(p, a);
  in.dout = queries.at(
      buffers.argument("dout", type, queries.dims(p.value_dim)), p.value_dim);
  const std::vector<std::int64_t> row = row_dims(p);
  in.lse = static_cast<const float*>(
      buffers.argument("lse", ffi::DataType::F32, row));
  in.delta = static_cast<const float*>(
      buffers.argument("delta", ffi::DataType::F32, row));
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

ffi::Error forward_call(ffi::ThreadPool pool, ffi::RemainingArgs args,
                        ffi::RemainingRets rets, ffi::Dictionary attributes) {
  return guarded<call_forward>(kForwardTarget, pool, args, rets, attributes);
}
ffi::Error backward_call(ffi::ThreadPool pool, ffi::RemainingArgs args,
                         ffi::RemainingRets rets, ffi::Dictionary attributes) {
  return guarded<call_backward>(kBackwardTarget, pool, args, rets, attributes);
}

XLA_FFI_DEFINE_HANDLER(kForwardHandler, forward_call,
                       ffi::Ffi::Bind()
                           .Ctx<ffi::ThreadPool>()
                           .RemainingArgs()
                           .RemainingRets()
                           .Attrs());
XLA_FFI_DEFINE_HANDLER(kBackwardHandler, backward_call,
                       ffi::Ffi::Bind()
                           .Ctx<ffi::ThreadPool>()
                           .RemainingArgs()
                           .RemainingRets()
                           .Attrs());

}  // namespace

std::string attributes_text(const CallAttributes& a) {
  return fmt::format(
      "{{mask = \"{}\", scale = {:.17e} : f64, soft_cap = {:.17e} : f64, "
      "block_q = {} : i64, block_kv = {} : i64, segments = {} : i64, "
      "tile = {} : i64, tokens_first = {} : i64, fresh = {} : i64, "
      "devices = {} : i64}}",
      a.mask.to_string(), a.scale, a.soft_cap, a.block_q, a.block_kv,
      a.segments ? 1 : 0, a.tile ? 1 : 0, a.tokens_first ? 1 : 0,
      a.fresh ? 1 : 0, a.devices);
}

std::span<const FfiHandler> ffi_handlers() {
  static const FfiHandler handlers[] = {
      {kForwardTarget, reinterpret_cast<void*>(kForwardHandler)},
      {kBackwardTarget, reinterpret_cast<void*>(kBackwardHandler)},
  };
  return handlers;
}

}  // namespace ringmax::attention::cpu
