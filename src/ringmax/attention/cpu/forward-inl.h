// The forward pass: a task is a run of queries of all heads of a group.
//
// Queries lie along lanes. For each block of keys and each panel of queries:
//   S^T = K Q^T, statistics and P^T = 2^(S^T - max) down the columns,
//   O^T = O^T * 2^(old max - max) + V^T P^T.
// K and V become elements (elements-inl.h) once a block for all panels of the
// group. Logits are in base 2: scale and log2(e) go into Q, or into the logits
// where Q is bfloat16 as it came.
// Included once per instruction set; no include guard in the usual sense.
#if defined(RINGMAX_ATTENTION_CPU_FORWARD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef RINGMAX_ATTENTION_CPU_FORWARD_INL_H_
#undef RINGMAX_ATTENTION_CPU_FORWARD_INL_H_
#else
#define RINGMAX_ATTENTION_CPU_FORWARD_INL_H_
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <optional>

#include "ringmax/attention/cpu/bf16_dots.h"
#include "ringmax/attention/cpu/contiguous.h"
#include "ringmax/attention/cpu/elements-inl.h"
#include "ringmax/attention/cpu/kernel.h"
#include "ringmax/attention/cpu/math-inl.h"
#include "ringmax/attention/cpu/product-inl.h"
#include "ringmax/attention/cpu/rows-inl.h"
#include "ringmax/attention/cpu/scratch.h"
#include "ringmax/attention/cpu/visibility.h"

HWY_BEFORE_NAMESPACE();
namespace ringmax::attention::cpu::HWY_NAMESPACE {

// One panel: kPanel queries of one head, on their way through the keys.
template <typename E>
struct ForwardPanel {
  std::int64_t head;   // query head, of all
  std::int64_t begin;  // first query
  std::int64_t count;  // queries, the rest of the lanes is unused
  std::int64_t vecs;   // vectors that hold them
  Hull* hulls;         // one a term
  Extent segments;
  E* q;          // [elements(D)][kPanel]; scaled if float32
  float* out;    // [V][kPanel]
  float* max;    // [kPanel]
  float* sum;    // [kPanel]
  bool started;  // out, max and sum hold something
};

// How a task is cut; the same for all tasks of a call.
struct ForwardPlan {
  std::int64_t kv_block;  // keys, a multiple of Visibility::kGroup
  std::int64_t q_block;   // queries of a task, a multiple of kPanel
  std::int64_t q_blocks;
  std::int64_t panels;  // at most, of a task
  std::size_t scratch_bytes;

  std::int64_t tasks(const Problem& p) const {
    return p.batch * p.kv_heads * q_blocks;
  }
};

template <typename E>
ForwardPlan forward_plan(const Problem& p, std::int64_t terms) {
  ForwardPlan plan;
  constexpr std::int64_t kGroup = Visibility::kGroup;
  const std::int64_t kv =
      p.block_kv > 0 ? std::min<std::int64_t>(p.block_kv, 128) : 128;
  plan.kv_block = std::max(kGroup, kv / kGroup * kGroup);
  // About 384 queries over all heads of the group: they share a block of keys.
  std::int64_t q = std::max<std::int64_t>(1, 384 / p.groups);
  if (p.block_q > 0) q = std::min(q, p.block_q);

  q = std::min(q, p.queries);
  plan.q_block = (q + kPanel - 1) / kPanel * kPanel;
  plan.q_blocks = (p.queries + plan.q_block - 1) / plan.q_block;
  plan.panels = plan.q_block / kPanel * p.groups;
  const auto floats = [](std::int64_t n) {
    return Scratch::rounded(static_cast<std::size_t>(n) * sizeof(float));
  };
  plan.scratch_bytes =
      floats(plan.kv_block * kPanel) +
      (kPairs<E> ? floats(plan.kv_block / 2 * kPanel) : 0) +
      floats(std::max(plan.kv_block, kPanel) * elements<E>(p.head_dim)) +
      floats(elements<E>(plan.kv_block) * p.value_dim) +
      Scratch::rounded(plan.kv_block * kPanel) +
      Scratch::rounded(plan.panels * sizeof(ForwardPanel<E>)) +
      static_cast<std::size_t>(plan.panels) *
          (floats(elements<E>(p.head_dim) * kPanel) +
           floats(p.value_dim * kPanel) + 2 * floats(kPanel) +
           Scratch::rounded(terms * sizeof(Hull)));
  return plan;
}

// T: how q, k and v are stored; E: what they become.
template <typename T, typename E>
class ForwardTask {
 public:
  ForwardTask(const Problem& p, const ForwardResult& result,
              const Visibility& visibility, const ForwardPlan& plan)
      : p_(p),
        result_(result),
        visibility_(visibility),
        plan_(plan),
        depth_(elements<E>(p.head_dim)),
        scratch_(plan.scratch_bytes),
        s_(scratch_.take<float>(plan.kv_block * kPanel)),
        weights_(kPairs<E> ? scratch_.take<E>(plan.kv_block / 2 * kPanel)
                           : reinterpret_cast<E*>(s_)),
        k_(scratch_.take<E>(std::max(plan.kv_block, kPanel) * depth_)),
        v_(scratch_.take<E>(elements<E>(plan.kv_block) * p.value_dim)),
        tile_(scratch_.take<std::uint8_t>(plan.kv_block * kPanel)),
        panels_(scratch_.take<Panel>(plan.panels)) {
    for (std::int64_t i = 0; i < plan.panels; ++i) {
      panels_[i].hulls = scratch_.take<Hull>(visibility.terms());
      panels_[i].q = scratch_.take<E>(depth_ * kPanel);
      panels_[i].out = scratch_.take<float>(p.value_dim * kPanel);
      panels_[i].max = scratch_.take<float>(kPanel);
      panels_[i].sum = scratch_.take<float>(kPanel);
    }
  }

  void run(std::int64_t task) {
    // The last queries first: under a causal mask they are the longest tasks.
    const std::int64_t heads = p_.batch * p_.kv_heads;
    const std::int64_t block = plan_.q_blocks - 1 - task / heads;
    const std::int64_t batch = task % heads / p_.kv_heads;
    const std::int64_t kv_head = task % heads % p_.kv_heads;
    const std::int64_t count = begin(batch, kv_head, block * plan_.q_block);
    const std::int64_t kv_blocks =
        (p_.keys + plan_.kv_block - 1) / plan_.kv_block;
    for (std::int64_t j = 0; j < kv_blocks; ++j) {
      const std::int64_t first = j * plan_.kv_block;
      const std::int64_t keys = std::min(plan_.kv_block, p_.keys - first);
      bool ready = false;
      for (std::int64_t i = 0; i < count; ++i) {
        const BlockKind kind = visibility_.classify(
            panels_[i].hulls, panels_[i].segments, batch, j);
        if (kind == BlockKind::kEmpty) continue;
        if (!ready) {
          take_rows(row_at<T>(p_.k, batch, kv_head, first), p_.k.row, keys,
                    p_.head_dim, 1.0f, k_);
          take_panels(row_at<T>(p_.v, batch, kv_head, first), p_.v.row, keys,
                      p_.value_dim, p_.value_dim, 0, v_);
          ready = true;
        }
        if (kind == BlockKind::kFull && p_.tile == nullptr) {
          step<false>(panels_[i], batch, first, 0, keys);
        } else {
          partial(panels_[i], batch, first, keys);
        }
      }
    }
    for (std::int64_t i = 0; i < count; ++i) finish(panels_[i], batch);
  }

 private:
  using Panel = ForwardPanel<E>;

  // What logits are multiplied with, in Q or afterwards.
  float logit_factor() const {
    return static_cast<float>(p_.soft_cap > 0 ? p_.scale / p_.soft_cap
                                              : p_.scale * kLog2E);
  }

  // Sets up the panels of queries [first, first + q_block) of a group.
  std::int64_t begin(std::int64_t batch, std::int64_t kv_head,
                     std::int64_t first) {
    const std::int64_t end = std::min(first + plan_.q_block, p_.queries);
    std::int64_t count = 0;
    for (std::int64_t g = 0; g < p_.groups; ++g) {
      for (std::int64_t i = first; i < end; i += kPanel) {
        Panel& x = panels_[count++];
        x.head = kv_head * p_.groups + g;
        x.begin = i;
        x.count = std::min<std::int64_t>(kPanel, end - i);
        x.vecs = (x.count + kLanes - 1) / kLanes;
        x.started = false;
        visibility_.hull(i, i + x.count, x.hulls);
        x.segments = visibility_.query_segments(batch, i, i + x.count);
        if (x.count < kPanel) {
          std::fill_n(x.q, depth_ * kPanel, E{});
        }
        const T* rows = row_at<T>(p_.q, batch, x.head, i);
        if constexpr (kPairs<E>) {
          take_rows(rows, p_.q.row, x.count, p_.head_dim, 1.0f, k_);
          transpose(k_, depth_, x.count, depth_, 1.0f, x.q, kPanel);
        } else {
          transpose(rows, p_.q.row, x.count, p_.head_dim, logit_factor(), x.q,
                    kPanel);
        }
      }
    }
    return count;
  }

  // Keys that no query of the panel sees are left out at both ends.
  void partial(Panel& x, std::int64_t batch, std::int64_t first,
               std::int64_t keys) {
    constexpr std::int64_t kGroup = Visibility::kGroup;
    std::int64_t lo = 0;
    std::int64_t hi = keys;
    while (lo < keys &&
           visibility_.group_empty(x.hulls, (first + lo) / kGroup)) {
      lo += kGroup;
    }
    while (hi > lo &&
           visibility_.group_empty(x.hulls, (first + hi - 1) / kGroup)) {
      hi = (hi - 1) / kGroup * kGroup;
    }
    if (lo >= hi) return;
    if (p_.tile != nullptr) {
      unsigned any = 0;
      for (std::int64_t l = 0; l < x.count; ++l) {
        const std::uint8_t* row = p_.tile + (x.begin + l) * p_.keys + first;
        for (std::int64_t r = lo; r < hi; ++r) {
          tile_[r * kPanel + l] = row[r];
          any |= row[r];
        }
      }
      if (any == 0) return;
      for (std::int64_t l = x.count; l < kPanel; ++l) {
        for (std::int64_t r = lo; r < hi; ++r) tile_[r * kPanel + l] = 0;
      }
    }
    step<true>(x, batch, first, lo, hi);
  }

  // Adds keys [first + lo, first + hi) to a panel.
  template <bool kMasked>
  void step(Panel& x, std::int64_t batch, std::int64_t first, std::int64_t lo,
            std::int64_t hi) {
    // Two sums a logit, though one would be no longer than kLongestSum: most of
    // the output's error comes from here.
    product_in_parts<E>(
        hi - lo, x.vecs, {k_ + lo * depth_, depth_}, {x.q, kPanel}, depth_,
        std::min(kLongestSum, (depth_ + 1) / 2), {s_ + lo * kPanel, kPanel});
    const bool adjusted = kMasked || p_.soft_cap > 0;
    if (adjusted) adjust<kMasked>(x, batch, first, lo, hi);
    alignas(64) float factor[kPanel];
    const bool rescale = kPairs<E> && !adjusted
                             ? softmax<true>(x, lo, hi, factor)
                             : softmax<false>(x, lo, hi, factor);
    // lo is even.
    const A<E> values{v_ + elements<E>(lo) * p_.value_dim, p_.value_dim};
    const B<E> weights{weights_ + elements<E>(lo) * kPanel, kPanel};
    const C out{x.out, kPanel};
    const std::int64_t depth = elements<E>(hi - lo);
    if (!x.started) {
      product_panel<Order::kColumns, Start::kZero, E>(
          p_.value_dim, x.vecs, values, weights, depth, out);
      x.started = true;
    } else if (rescale) {
      product_panel<Order::kColumns, Start::kScaled, E>(
          p_.value_dim, x.vecs, values, weights, depth, out, factor);
    } else {
      product_panel<Order::kColumns, Start::kOld, E>(
          p_.value_dim, x.vecs, values, weights, depth, out);
    }
  }

  // Scale where Q has none, soft cap, then -inf where a pair is hidden.
  template <bool kMasked>
  HWY_NOINLINE void adjust(const Panel& x, std::int64_t batch,
                           std::int64_t first, std::int64_t lo,
                           std::int64_t hi) {
    const FloatTag d;
    const IntTag di;
    const bool cap = p_.soft_cap > 0;
    const Vec cap_v = hn::Set(d, static_cast<float>(p_.soft_cap * kLog2E));
    [[maybe_unused]] const Vec scale = hn::Set(d, logit_factor());
    const Vec hidden = hn::Set(d, -std::numeric_limits<float>::infinity());
    const std::int32_t* kv = visibility_.kv_positions() + first;
    const std::int32_t* q_segments = visibility_.q_segments(batch);
    const std::int32_t* kv_segments = visibility_.kv_segments(batch);
    for (std::int64_t j = 0; j < x.vecs; ++j) {
      const std::int64_t query = x.begin + j * kLanes;
      for (std::int64_t r = lo; r < hi; ++r) {
        float* at = s_ + r * kPanel + j * kLanes;
        Vec s = hn::LoadU(d, at);
        if constexpr (kPairs<E>) s = hn::Mul(s, scale);
        if (cap) s = hn::Mul(cap_v, tanh(s));
        if constexpr (kMasked) {
          const IntVec key = hn::Set(di, kv[r]);
          auto seen = hn::FirstN(di, 0);
          for (std::int64_t t = 0; t < visibility_.terms(); ++t) {
            const auto before =
                hn::Gt(hn::LoadU(di, visibility_.first(t) + query), key);
            const auto after =
                hn::Gt(key, hn::LoadU(di, visibility_.last(t) + query));
            seen = hn::Or(seen, hn::Not(hn::Or(before, after)));
          }
          if (q_segments != nullptr) {
            seen = hn::And(seen, hn::Eq(hn::LoadU(di, q_segments + query),
                                        hn::Set(di, kv_segments[first + r])));
          }
          if (p_.tile != nullptr) {
            const hn::Rebind<std::uint8_t, IntTag> d8;
            const IntVec bits = hn::PromoteTo(
                di, hn::LoadU(d8, tile_ + r * kPanel + j * kLanes));
            seen = hn::And(seen, hn::Ne(bits, hn::Zero(di)));
          }
          s = hn::IfThenElse(hn::RebindMask(d, seen), s, hidden);
        }
        hn::StoreU(s, d, at);
      }
    }
  }

  // Turns logits into weights, updates max and sum; writes what the output so
  // far must be multiplied with, and tells whether that is not 1 everywhere.
  // With kScale the logits have yet to be scaled.
  template <bool kScale>
  HWY_NOINLINE bool softmax(Panel& x, std::int64_t lo, std::int64_t hi,
                            float* factor) {
    const FloatTag d;
    const Vec none = hn::Set(d, -std::numeric_limits<float>::infinity());
    [[maybe_unused]] const Vec scale = hn::Set(d, logit_factor());
    bool rescale = false;
    for (std::int64_t j = 0; j < x.vecs; ++j) {
      const float* s = s_ + j * kLanes;
      const auto logit = [&](std::int64_t r) HWY_ATTR {
        const Vec v = hn::LoadU(d, s + r * kPanel);
        if constexpr (kScale) return hn::Mul(v, scale);
        return v;
      };
      const Vec old = x.started ? hn::LoadU(d, x.max + j * kLanes) : none;
      Vec top0 = old, top1 = none, top2 = none, top3 = none;
      std::int64_t r = lo;
      for (; r + 4 <= hi; r += 4) {
        top0 = hn::Max(top0, logit(r));
        top1 = hn::Max(top1, logit(r + 1));
        top2 = hn::Max(top2, logit(r + 2));
        top3 = hn::Max(top3, logit(r + 3));
      }
      for (; r < hi; ++r) top0 = hn::Max(top0, logit(r));
      const Vec top = hn::Max(hn::Max(top0, top1), hn::Max(top2, top3));
      // A row that has seen nothing keeps -inf, but subtracts 0.
      const Vec base = hn::IfThenZeroElse(hn::Eq(top, none), top);
      const Vec keep = exp2(hn::Sub(old, base));
      const auto weight = [&](std::int64_t at) HWY_ATTR {
        if constexpr (kScale) {
          return exp2(hn::MulSub(hn::LoadU(d, s + at * kPanel), scale, base));
        }
        return exp2(hn::Sub(hn::LoadU(d, s + at * kPanel), base));
      };
      // A sum of thousands of keys would round each weight to its size: those
      // of the block are added up first, in four chains.
      Vec sum0 = hn::Zero(d), sum1 = sum0, sum2 = sum0, sum3 = sum0;
      E* to = weights_ + j * kLanes;
      r = lo;
      for (; r + 4 <= hi; r += 4) {
        const Vec p0 = weight(r);
        const Vec p1 = weight(r + 1);
        put(p0, p1, r, to);
        const Vec p2 = weight(r + 2);
        const Vec p3 = weight(r + 3);
        put(p2, p3, r + 2, to);
        sum0 = hn::Add(sum0, p0);
        sum1 = hn::Add(sum1, p1);
        sum2 = hn::Add(sum2, p2);
        sum3 = hn::Add(sum3, p3);
      }
      for (; r < hi; r += 2) {
        const Vec p0 = weight(r);
        const Vec p1 = r + 1 < hi ? weight(r + 1) : hn::Zero(d);
        put(p0, p1, r, to);
        sum0 = hn::Add(sum0, p0);
        sum1 = hn::Add(sum1, p1);
      }
      Vec sum = hn::Add(hn::Add(sum0, sum1), hn::Add(sum2, sum3));
      if (x.started) {
        sum = hn::MulAdd(keep, hn::LoadU(d, x.sum + j * kLanes), sum);
      }
      hn::StoreU(top, d, x.max + j * kLanes);
      hn::StoreU(sum, d, x.sum + j * kLanes);
      hn::StoreU(keep, d, factor + j * kLanes);
      rescale = rescale || !hn::AllTrue(d, hn::Eq(keep, hn::Set(d, 1.0f)));
    }
    return rescale;
  }

  // The weights of keys r and r + 1.
  static HWY_INLINE void put(Vec p0, Vec p1, std::int64_t r, E* to) {
    if constexpr (kPairs<E>) {
      store_pairs(p0, p1, to + r / 2 * kPanel);
    } else {
      hn::StoreU(p0, FloatTag(), to + r * kPanel);
      hn::StoreU(p1, FloatTag(), to + (r + 1) * kPanel);
    }
  }

  void finish(Panel& x, std::int64_t batch) {
    const FloatTag d;
    float* out = row_at(result_.out, batch, x.head, x.begin);
    const std::int64_t heads = p_.kv_heads * p_.groups;
    const std::int64_t at = (batch * heads + x.head) * p_.queries + x.begin;
    constexpr float kNone = -std::numeric_limits<float>::infinity();
    if (!x.started) {
      for (std::int64_t l = 0; l < x.count; ++l) {
        std::fill_n(out + l * result_.out.row, p_.value_dim, 0.0f);
        result_.sum[at + l] = 0;
        result_.max[at + l] = kNone;
      }
      return;
    }
    for (std::int64_t j = 0; j < x.vecs; ++j) {
      const Vec sum = hn::LoadU(d, x.sum + j * kLanes);
      const Vec inverse = hn::IfThenZeroElse(hn::Eq(sum, hn::Zero(d)),
                                             hn::Div(hn::Set(d, 1.0f), sum));
      for (std::int64_t c = 0; c < p_.value_dim; ++c) {
        float* p = x.out + c * kPanel + j * kLanes;
        hn::StoreU(hn::Mul(hn::LoadU(d, p), inverse), d, p);
      }
    }
    transpose(x.out, kPanel, p_.value_dim, x.count, 1.0f, out, result_.out.row);
    for (std::int64_t l = 0; l < x.count; ++l) {
      const auto max = static_cast<float>(x.max[l] * kLn2);
      result_.max[at + l] = max;
      // Rounding the maximum of 60000 to natural units moves it by 0.002: the
      // sum is that of the maximum as it leaves.
      result_.sum[at + l] =
          x.sum[l] > 0 ? static_cast<float>(x.sum[l] *
                                            std::exp2(x.max[l] - max * kLog2E))
                       : 0;
    }
  }

  const Problem& p_;
  const ForwardResult& result_;
  const Visibility& visibility_;
  const ForwardPlan& plan_;
  const std::int64_t depth_;  // elements(D)
  Scratch scratch_;
  float* s_;            // [kv_block][kPanel]
  E* weights_;          // [elements(kv_block)][kPanel]; float32: s_ itself
  E* k_;                // [kv_block][elements(D)]; first room for Q's rows
  E* v_;                // [elements(kv_block)][V]
  std::uint8_t* tile_;  // [kv_block][kPanel]
  Panel* panels_;
};

// How many tasks read a block of keys, on average over those of a head.
inline double reads_per_key(const Problem& p, const Visibility& visibility,
                            const ForwardPlan& plan) {
  const std::int64_t kv_blocks = (p.keys + plan.kv_block - 1) / plan.kv_block;
  const std::int64_t terms = visibility.terms();
  Scratch scratch(static_cast<std::size_t>(terms) * sizeof(Hull));
  Hull* const hulls = scratch.take<Hull>(terms);
  std::int64_t reads = 0;
  for (std::int64_t i = 0; i < p.queries; i += plan.q_block) {
    const std::int64_t end = std::min(i + plan.q_block, p.queries);
    visibility.hull(i, end, hulls);
    const Extent segments = visibility.query_segments(0, i, end);
    for (std::int64_t j = 0; j < kv_blocks; ++j) {
      const BlockKind kind = visibility.classify(hulls, segments, 0, j);
      if (kind != BlockKind::kEmpty) ++reads;
    }
  }
  return static_cast<double>(reads) / static_cast<double>(kv_blocks);
}

template <typename T, typename E>
void forward_with(const Problem& given, const ForwardResult& result,
                  const Workers& workers) {
  Problem p = given;
  const std::int64_t terms =
      std::ssize(visible_terms(p.mask, std::span<const std::int32_t>()));
  const ForwardPlan plan = forward_plan<E>(p, terms);
  const Visibility visibility(p, plan.kv_block);
  // Reading rows that lie apart costs some 5%, a copy as much as a few reads.
  constexpr double kWorthACopy = 8;
  std::optional<ContiguousRows> k;
  std::optional<ContiguousRows> v;
  const bool apart = p.k.row != p.head_dim || p.v.row != p.value_dim;
  if (apart && reads_per_key(p, visibility, plan) >= kWorthACopy) {
    k.emplace(p.k, RowSizes{p.batch, p.kv_heads, p.keys, p.head_dim}, sizeof(T),
              workers);
    v.emplace(p.v, RowSizes{p.batch, p.kv_heads, p.keys, p.value_dim},
              sizeof(T), workers);
    p.k = k->rows();
    p.v = v->rows();
  }
  workers.run(plan.tasks(p), [&](std::int64_t task) {
    ForwardTask<T, E>(p, result, visibility, plan).run(task);
  });
}

inline void forward(const Problem& p, const ForwardResult& result,
                    const Workers& workers) {
  if (p.dtype == DType::kF32)
    return forward_with<float, float>(p, result, workers);
#if RINGMAX_ATTENTION_CPU_PAIRS
  if (has_bf16_dots()) {
    return forward_with<std::uint16_t, Bf16Pair>(p, result, workers);
  }
#endif
  forward_with<std::uint16_t, float>(p, result, workers);
}

}  // namespace ringmax::attention::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
