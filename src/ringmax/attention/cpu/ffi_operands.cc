#include "ringmax/attention/cpu/ffi_operands.h"

#include <algorithm>
#include <initializer_list>
#include <string_view>

#include "ringmax/base/error.h"

namespace ringmax::attention::cpu {

namespace ffi = xla::ffi;

ConstRows Arrays::at(const void* data, std::int64_t columns) const {
  const std::int64_t all = heads * std::max<std::int64_t>(groups, 1);
  if (tokens_first) {
    return {data, all * rows * columns, columns, all * columns};
  }
  return {data, all * rows * columns, rows * columns, columns};
}

FloatRows Arrays::floats(void* data, std::int64_t columns) const {
  const ConstRows like = at(nullptr, columns);
  return {static_cast<float*>(data), like.batch, like.head, like.row};
}

std::vector<std::int64_t> Arrays::dims(std::int64_t columns) const {
  std::vector<std::int64_t> d = {heads};
  if (groups > 0) d.push_back(groups);
  d.insert(tokens_first ? d.begin() : d.end(), rows);
  d.insert(d.begin(), batch);
  d.push_back(columns);
  return d;
}

Arrays query_arrays(const Problem& p, bool tokens_first) {
  return {p.batch, p.kv_heads, p.groups, p.queries, tokens_first};
}

Arrays key_arrays(const Problem& p, bool tokens_first) {
  return {p.batch, p.kv_heads, 0, p.keys, tokens_first};
}

std::vector<std::int64_t> row_dims(const Problem& p) {
  return {p.batch, p.kv_heads, p.groups, p.queries};
}

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
  c.gradient = attribute<std::int64_t>(a, "gradient") != 0;
  const auto count = [&](const char* name) {
    const auto n = attribute<std::int64_t>(a, name);
    if (n < 1) fail_invalid("attribute {} is {}", name, n);
    return n;
  };
  c.devices = count("devices");
  c.parts = count("parts");
  return c;
}

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
  p.q = query_arrays(p, a.tokens_first).at(q.untyped_data(), p.head_dim);
  p.k = key_arrays(p, a.tokens_first).at(k.untyped_data(), p.head_dim);
  p.v = key_arrays(p, a.tokens_first).at(v.untyped_data(), p.value_dim);
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
    p.tile = static_cast<const std::uint8_t*>(buffers.argument(
        "tile", ffi::DataType::PRED, {p.queries, p.keys * a.parts}));
  }
  return p;
}

BackwardInputs read_gradient(Buffers& buffers, const Problem& p,
                             const CallAttributes& a) {
  const ffi::DataType type =
      p.dtype == DType::kF32 ? ffi::DataType::F32 : ffi::DataType::BF16;
  const Arrays queries = query_arrays(p, a.tokens_first);
  const std::vector<std::int64_t> row = row_dims(p);
  BackwardInputs in;
  in.dout = queries.at(
      buffers.argument("dout", type, queries.dims(p.value_dim)), p.value_dim);
  in.lse = static_cast<const float*>(
      buffers.argument("lse", ffi::DataType::F32, row));
  in.delta = static_cast<const float*>(
      buffers.argument("delta", ffi::DataType::F32, row));
  return in;
}

}  // namespace ringmax::attention::cpu
