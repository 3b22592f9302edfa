#include "ringmax/model/layers.h"

#include <cmath>
#include <numbers>
#include <vector>

#include "ringmax/graph/ops.h"

namespace ringmax::model {

using graph::Value;

Value rms_norm(Value x_BSE, Value scale_E, double epsilon) {
  const Value x = graph::convert(x_BSE, DType::kF32);
  const auto width = static_cast<double>(x.dim(2));
  const Value mean = graph::reduce_sum(x * x, {2}) / width;
  const Value inverse = graph::rsqrt(mean + epsilon);
  const Value normal = x * graph::broadcast_in_dim(inverse, x.dims(), {0, 1});
  const Value scale = graph::convert(scale_E, DType::kF32);
  return graph::convert(normal * graph::broadcast_in_dim(scale, x.dims(), {2}),
                        x_BSE.dtype());
}

namespace {

// Angular frequencies [D/2], radians a token.
std::vector<float> frequencies(const ModelOptions& o) {
  const std::int64_t half = o.head_dim / 2;
  std::vector<float> result(static_cast<std::size_t>(half));
  for (std::int64_t i = 0; i < half; ++i) {
    double f = std::pow(o.rope_max_timescale,
                        -static_cast<double>(i) / static_cast<double>(half));
    if (o.rope_scaling()) {
      // Long wavelengths are stretched by the factor, short ones kept, those
      // between blended.
      const double wavelength = 2 * std::numbers::pi / f;
      const auto original = static_cast<double>(o.rope_llama3_original_length);
      const double longest = original / o.rope_llama3_low_freq_factor;
      const double shortest = original / o.rope_llama3_high_freq_factor;
      if (wavelength > longest) {
        f /= o.rope_llama3_factor;
      } else if (wavelength >= shortest) {
        const double blend =
            (original / wavelength - o.rope_llama3_low_freq_factor) /
            (o.rope_llama3_high_freq_factor - o.rope_llama3_low_freq_factor);
        f = (1 - blend) * f / o.rope_llama3_factor + blend * f;
      }
    }
    result[static_cast<std::size_t>(i)] = static_cast<float>(f);
  }
  return result;
}

}  // namespace

RotaryAngles rotary_angles(Value positions_BS, const ModelOptions& options) {
  graph::Graph& g = *positions_BS.graph;
  const std::vector<float> f = frequencies(options);
  const auto half = static_cast<std::int64_t>(f.size());
  const Value frequency = graph::constant(
      g, HostArray::from<float>({half}, std::span<const float>(f)));
  const Dims dims = {positions_BS.dim(0), positions_BS.dim(1), half};
  const Value angle =
      graph::broadcast_in_dim(graph::convert(positions_BS, DType::kF32), dims,
                              {0, 1}) *
      graph::broadcast_in_dim(frequency, dims, {2});
  const Value sine = graph::sine(angle);
  const Value cosine = graph::cosine(angle);
  return {graph::concatenate({sine, sine}, 2),
          graph::concatenate({cosine, cosine}, 2)};
}

Value apply_rotary(Value x_BSHD, const RotaryAngles& angles) {
  const Value x = graph::convert(x_BSHD, DType::kF32);
  const std::int64_t d = x.dim(3);
  const Value low = graph::slice_dim(x, 3, 0, d / 2);
  const Value high = graph::slice_dim(x, 3, d / 2, d);
  const Value turned = graph::concatenate({graph::negate(high), low}, 3);
  const auto spread = [&](Value a) {
    return graph::broadcast_in_dim(a, x.dims(), {0, 1, 3});
  };
  return graph::convert(
      x * spread(angles.cosine_BSD) + turned * spread(angles.sine_BSD),
      x_BSHD.dtype());
}

}  // namespace ringmax::model
