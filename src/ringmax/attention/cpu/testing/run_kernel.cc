#include "ringmax/attention/cpu/testing/run_kernel.h"

#include <hwy/targets.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>

#include "ringmax/attention/cpu/bf16_dots.h"
#include "ringmax/attention/cpu/kernel.h"
#include "ringmax/base/error.h"

namespace ringmax::attention::cpu::testing {
namespace {

// A [batch, tokens, heads, columns] array of doubles, its shards as
// [shard][batch, slots, heads, columns] arrays of the kernel's dtype.
class Shards {
 public:
  Shards(const std::vector<double>& values, std::int64_t batch,
         std::int64_t heads, std::int64_t columns, const Layout& layout,
         DType dtype)
      : batch_(batch),
        slots_(layout.shard_tokens()),
        heads_(heads),
        columns_(columns),
        dtype_(dtype) {
    const std::int64_t tokens = layout.tokens();
    for (const std::int64_t position : layout.positions()) {
      for (std::int64_t b = 0; b < batch; ++b) {
        for (std::int64_t c = 0; c < heads * columns; ++c) {
          // What stands in padding must not matter.
          const double x =
              position >= tokens
                  ? 1e3
                  : values[(b * tokens + position) * heads * columns + c];
          slot_values_.push_back(static_cast<float>(x));
        }
      }
    }
    // From [shard * slot][batch][..] to [shard][batch][slot][..].
    f32_.resize(slot_values_.size());
    const std::int64_t row = heads * columns;
    for (std::int64_t s = 0; s < layout.padded_tokens(); ++s) {
      for (std::int64_t b = 0; b < batch; ++b) {
        std::copy_n(slot_values_.begin() + (s * batch + b) * row, row,
                    f32_.begin() +
                        ((s / slots_ * batch + b) * slots_ + s % slots_) * row);
      }
    }
    for (const float x : f32_) bf16_.push_back(float_to_bf16(x));
  }

  ConstRows shard(std::int64_t i) const {
    const std::int64_t at = i * batch_ * slots_ * heads_ * columns_;
    const void* data = dtype_ == DType::kBF16
                           ? static_cast<const void*>(bf16_.data() + at)
                           : static_cast<const void*>(f32_.data() + at);
    return {data, slots_ * heads_ * columns_, columns_, heads_ * columns_};
  }

 private:
  std::int64_t batch_, slots_, heads_, columns_;
  DType dtype_;
  std::vector<float> slot_values_, f32_;
  std::vector<std::uint16_t> bf16_;
};

// [batch, slots, heads, columns] of floats, written by the kernel.
struct Made {
  Made(std::int64_t batch, std::int64_t slots, std::int64_t heads,
       std::int64_t columns, float value)
      : values(batch * slots * heads * columns, value),
        rows{values.data(), slots * heads * columns, columns, heads * columns} {
  }
  Made(const Made&) = delete;
  std::vector<float> values;
  FloatRows rows;
};

std::vector<std::int32_t> shard_positions(const Layout& layout) {
  std::vector<std::int32_t> result;
  for (const std::int64_t p : layout.positions()) {
    result.push_back(p >= layout.tokens() ? -1 : static_cast<std::int32_t>(p));
  }
  return result;
}

// [shard][batch][slot]; empty without segments.
std::vector<std::int32_t> shard_segments(const std::vector<std::int32_t>& ids,
                                         std::int64_t batch,
                                         const Layout& layout) {
  std::vector<std::int32_t> result;
  if (ids.empty()) return result;
  const std::vector<std::int64_t> positions = layout.positions();
  const std::int64_t slots = layout.shard_tokens();
  for (std::int64_t shard = 0; shard < layout.shards(); ++shard) {
    for (std::int64_t b = 0; b < batch; ++b) {
      for (std::int64_t s = 0; s < slots; ++s) {
        const std::int64_t p = positions[shard * slots + s];
        result.push_back(p >= layout.tokens() ? 0
                                              : ids[b * layout.tokens() + p]);
      }
    }
  }
  return result;
}

}  // namespace

ReferenceOutputs run_kernel(const Mask& mask, const ReferenceInputs& in,
                            const KernelSettings& settings) {
  const Layout q_layout(settings.layout, in.queries, settings.ring_size);
  const Layout kv_layout(settings.layout, in.keys, settings.ring_size);
  RINGMAX_CHECK(settings.tile.empty() || settings.ring_size == 1);
  const std::int64_t batch = in.batch;
  const std::int64_t heads = in.query_heads;
  const std::int64_t slots = q_layout.shard_tokens();
  const std::int64_t kv_slots = kv_layout.shard_tokens();
  const auto shards = [&](const std::vector<double>& x, std::int64_t n,
                          std::int64_t columns, const Layout& layout) {
    return Shards(x, batch, n, columns, layout, settings.dtype);
  };
  const Shards q = shards(in.q, heads, in.head_dim, q_layout);
  const Shards k = shards(in.k, in.kv_heads, in.head_dim, kv_layout);
  const Shards v = shards(in.v, in.kv_heads, in.value_dim, kv_layout);
  const bool gradients = !in.dout.empty();
  const Shards dout = shards(
      gradients
          ? in.dout
          : std::vector<double>(batch * in.queries * heads * in.value_dim),
      heads, in.value_dim, q_layout);
  const std::vector<std::int32_t> q_positions = shard_positions(q_layout);
  const std::vector<std::int32_t> kv_positions = shard_positions(kv_layout);
  const std::vector<std::int32_t> q_segments =
      shard_segments(in.query_segments, batch, q_layout);
  const std::vector<std::int32_t> kv_segments =
      shard_segments(in.kv_segments, batch, kv_layout);

  Problem p;
  p.batch = batch;
  p.kv_heads = in.kv_heads;
  p.groups = heads / in.kv_heads;
  p.queries = slots;
  p.keys = kv_slots;
  p.head_dim = in.head_dim;
  p.value_dim = in.value_dim;
  p.dtype = settings.dtype;
  p.scale = in.scale;
  p.soft_cap = in.soft_cap.value_or(0);
  p.mask = mask;
  p.block_q = settings.block_q;
  p.block_kv = settings.block_kv;
  if (!settings.tile.empty()) p.tile = settings.tile.data();
  const auto at = [&](std::int64_t d, std::int64_t e) {
    p.q = q.shard(d);
    p.k = k.shard(e);
    p.v = v.shard(e);
    p.q_positions = q_positions.data() + d * slots;
    p.kv_positions = kv_positions.data() + e * kv_slots;
    if (!q_segments.empty()) {
      p.q_segments = q_segments.data() + d * batch * slots;
      p.kv_segments = kv_segments.data() + e * batch * kv_slots;
    }
  };

  ReferenceOutputs result;
  constexpr double kNone = -std::numeric_limits<double>::infinity();
  const std::int64_t rows = batch * in.queries * heads;
  result.out.assign(rows * in.value_dim, 0);
  result.lse.assign(rows, kNone);
  result.max_logits.assign(rows, kNone);
  if (gradients) {
    result.dq.assign(rows * in.head_dim, 0);
    result.dk.assign(batch * in.keys * in.kv_heads * in.head_dim, 0);
    result.dv.assign(batch * in.keys * in.kv_heads * in.value_dim, 0);
  }
  // Written where there is one call, added to where there are several.
  const bool fresh = settings.ring_size == 1;
  const float before = fresh ? std::nanf("") : 0;
  std::vector<std::unique_ptr<Made>> dk, dv;
  for (std::int64_t e = 0; e < settings.ring_size; ++e) {
    dk.push_back(std::make_unique<Made>(batch, kv_slots, in.kv_heads,
                                        in.head_dim, before));
    dv.push_back(std::make_unique<Made>(batch, kv_slots, in.kv_heads,
                                        in.value_dim, before));
  }
  const std::int64_t lanes = batch * heads * slots;  // [B, H, S]
  for (std::int64_t d = 0; d < settings.ring_size; ++d) {
    const auto position = [&](std::int64_t s) {
      return q_positions[d * slots + s];
    };
    std::vector<double> lse(lanes, kNone), max(lanes, kNone);
    std::vector<double> out(lanes * in.value_dim, 0);
    for (std::int64_t e = 0; e < settings.ring_size; ++e) {
      at(d, e);
      // NaN where the kernel writes nothing.
      Made part(batch, slots, heads, in.value_dim, std::nanf(""));
      std::vector<float> part_sum(lanes, std::nanf("")), part_max(part_sum);
      forward(p, {part.rows, part_sum.data(), part_max.data()},
              settings.workers);
      for (std::int64_t i = 0; i < lanes; ++i) {
        const std::int64_t b = i / (heads * slots), h = i / slots % heads,
                           s = i % slots;
        const double a = lse[i];
        const double c =
            part_max[i] + std::log(static_cast<double>(part_sum[i]));
        const double top = std::max(a, c);
        const double sum =
            top == kNone
                ? kNone
                : top + std::log(std::exp(a - top) + std::exp(c - top));
        for (std::int64_t x = 0; x < in.value_dim; ++x) {
          const double old = out[i * in.value_dim + x];
          const double add =
              part.values[((b * slots + s) * heads + h) * in.value_dim + x];
          out[i * in.value_dim + x] =
              sum == kNone ? old + add
                           : old * std::exp(a - sum) + add * std::exp(c - sum);
        }
        lse[i] = std::isnan(c) ? c : sum;
        max[i] = std::max(max[i], static_cast<double>(part_max[i]));
      }
    }
    std::vector<float> lse_f(lanes), delta(lanes);
    for (std::int64_t i = 0; i < lanes; ++i) {
      const std::int64_t b = i / (heads * slots), h = i / slots % heads,
                         s = i % slots;
      lse_f[i] = static_cast<float>(lse[i] == kNone ? 0 : lse[i]);
      if (position(s) < 0) continue;
      const std::int64_t row = (b * in.queries + position(s)) * heads + h;
      result.lse[row] = lse[i];
      result.max_logits[row] = max[i];
      double sum = 0;
      for (std::int64_t x = 0; x < in.value_dim; ++x) {
        result.out[row * in.value_dim + x] = out[i * in.value_dim + x];
        if (gradients) {
          sum += out[i * in.value_dim + x] * in.dout[row * in.value_dim + x];
        }
      }
      delta[i] = static_cast<float>(sum);
    }
    if (!gradients) continue;
    Made dq(batch, slots, heads, in.head_dim, before);
    for (std::int64_t e = 0; e < settings.ring_size; ++e) {
      at(d, e);
      BackwardInputs back;
      back.dout = dout.shard(d);
      back.lse = lse_f.data();
      back.delta = delta.data();
      back.dq = dq.rows;
      back.dk = dk[e]->rows;
      back.dv = dv[e]->rows;
      back.fresh = fresh;
      backward(p, back, settings.workers);
    }
    for (std::int64_t b = 0; b < batch; ++b) {
      for (std::int64_t s = 0; s < slots; ++s) {
        if (position(s) < 0) continue;
        const std::int64_t row = heads * in.head_dim;
        std::copy_n(dq.values.begin() + (b * slots + s) * row, row,
                    result.dq.begin() + (b * in.queries + position(s)) * row);
      }
    }
  }
  if (!gradients) return result;
  for (std::int64_t e = 0; e < settings.ring_size; ++e) {
    for (std::int64_t b = 0; b < batch; ++b) {
      for (std::int64_t s = 0; s < kv_slots; ++s) {
        const std::int64_t position = kv_positions[e * kv_slots + s];
        if (position < 0) continue;
        const auto copy = [&](const Made& from, std::int64_t row,
                              std::vector<double>& to) {
          std::copy_n(from.values.begin() + (b * kv_slots + s) * row, row,
                      to.begin() + (b * in.keys + position) * row);
        };
        copy(*dk[e], in.kv_heads * in.head_dim, result.dk);
        copy(*dv[e], in.kv_heads * in.value_dim, result.dv);
      }
    }
  }
  return result;
}

std::string InstructionSet::name() const {
  return std::string(hwy::TargetName(target)) + (bf16_dots ? "_BF16" : "");
}

std::vector<InstructionSet> instruction_sets() {
  std::vector<InstructionSet> sets;
  // The kernel is built for these; a lower bit is a better set.
  for (const std::int64_t set : {static_cast<std::int64_t>(HWY_AVX3),
                                 static_cast<std::int64_t>(HWY_AVX2),
                                 static_cast<std::int64_t>(HWY_SSE4),
                                 static_cast<std::int64_t>(HWY_NEON),
                                 static_cast<std::int64_t>(HWY_SCALAR)}) {
    if ((hwy::SupportedTargets() & set) == 0) continue;
    if (set == HWY_AVX3 && has_bf16_dots()) sets.push_back({set, true});
    sets.push_back({set, false});
  }
  return sets;
}

UseInstructionSet::UseInstructionSet(const InstructionSet& set) {
  hide_bf16_dots(!set.bf16_dots);
  hwy::SetSupportedTargetsForTest(set.target);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

UseInstructionSet::~UseInstructionSet() {
  hide_bf16_dots(false);
  hwy::SetSupportedTargetsForTest(0);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

}  // namespace ringmax::attention::cpu::testing
