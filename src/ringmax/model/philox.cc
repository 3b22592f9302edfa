#include "ringmax/model/philox.h"

#include <cmath>
#include <utility>

#include "ringmax/graph/ops.h"

namespace ringmax::model {
namespace {

using graph::Graph;
using graph::Value;

Value literal(Graph& g, DType dtype, const Dims& dims, std::uint64_t value) {
  return graph::constant(g, Shape(dtype, dims), static_cast<double>(value));
}

// High and low 32 bits of x * multiplier.
std::pair<Value, Value> multiply_wide(Value x, std::uint64_t multiplier) {
  Graph& g = *x.graph;
  const Value wide = graph::convert(x, DType::kU64) *
                     literal(g, DType::kU64, x.dims(), multiplier);
  const Value high =
      graph::shift_right_logical(wide, literal(g, DType::kU64, x.dims(), 32));
  return {graph::convert(high, DType::kU32), graph::convert(wide, DType::kU32)};
}

}  // namespace

std::array<Value, 4> philox_words(Graph& g, const Dims& dims,
                                  std::uint64_t seed, std::uint64_t stream) {
  constexpr std::uint64_t kMultiplier0 = 0xD2511F53u;
  constexpr std::uint64_t kMultiplier1 = 0xCD9E8D57u;
  constexpr std::uint32_t kWeyl0 = 0x9E3779B9u;
  constexpr std::uint32_t kWeyl1 = 0xBB67AE85u;
  constexpr int kRounds = 10;

  Value index = literal(g, DType::kU64, dims, 0);
  std::uint64_t stride = 1;
  for (std::size_t d = dims.size(); d-- > 0;) {
    const Value along =
        graph::iota(g, Shape(DType::kU64, dims), static_cast<std::int64_t>(d));
    index = index + along * literal(g, DType::kU64, dims, stride);
    stride *= static_cast<std::uint64_t>(dims[d]);
  }
  const auto word = [&](std::uint64_t value) {
    return literal(g, DType::kU32, dims, value & 0xffffffffu);
  };
  std::array<Value, 4> c = {
      graph::convert(index, DType::kU32),
      graph::convert(
          graph::shift_right_logical(index, literal(g, DType::kU64, dims, 32)),
          DType::kU32),
      word(stream), word(stream >> 32)};
  auto key0 = static_cast<std::uint32_t>(seed);
  auto key1 = static_cast<std::uint32_t>(seed >> 32);
  for (int round = 0; round < kRounds; ++round) {
    const auto [high0, low0] = multiply_wide(c[0], kMultiplier0);
    const auto [high1, low1] = multiply_wide(c[2], kMultiplier1);
    c = {graph::logical_xor(graph::logical_xor(high1, c[1]), word(key0)), low1,
         graph::logical_xor(graph::logical_xor(high0, c[3]), word(key1)), low0};
    key0 += kWeyl0;
    key1 += kWeyl1;
  }
  return c;
}

Value approx_normal(Graph& g, const Dims& dims, std::uint64_t seed,
                    std::uint64_t stream, double stddev) {
  const std::array<Value, 4> words = philox_words(g, dims, seed, stream);
  Value sum;
  for (const Value& w : words) {
    const Value low =
        graph::logical_and(w, literal(g, DType::kU32, dims, 0xffff));
    const Value high =
        graph::shift_right_logical(w, literal(g, DType::kU32, dims, 16));
    sum = sum.valid() ? sum + low + high : low + high;
  }
  // Mean of eight uniform integers in [0, 65535], and their variance.
  const Value centred = graph::convert(sum, DType::kI32) -
                        graph::constant(g, Shape(DType::kI32, dims), 4 * 65535);
  const double sum_stddev = std::sqrt(8 * (65536.0 * 65536.0 - 1) / 12);
  return graph::convert(centred, DType::kF32) * (stddev / sum_stddev);
}

}  // namespace ringmax::model
