// The backward pass: a task is a run of keys with a run of queries of all
// heads of a group.
//
// Keys lie along lanes. A block of keys stays, with K^T and V^T in panels;
// blocks of queries pass by:
//   P = 2^(Q K^T - lse), dP = dO V^T, dS = P * (dP - delta),
//   dV += P^T dO, dK += dS^T Q, dQ += dS K,
// added in place, row-major, to the caller's gradients.
//
// So that a pair of blocks is computed once and nobody adds to the same rows at
// the same time, the keys and the queries of a group are cut into `runs` parts
// each, and round r pairs part i of the keys with part (i + r) mod runs of the
// queries. The cut depends on shapes only, hence so does every sum's order.
// Included once per instruction set; no include guard in the usual sense.
#if defined(RINGMAX_ATTENTION_CPU_BACKWARD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef RINGMAX_ATTENTION_CPU_BACKWARD_INL_H_
#undef RINGMAX_ATTENTION_CPU_BACKWARD_INL_H_
#else
#define RINGMAX_ATTENTION_CPU_BACKWARD_INL_H_
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <cstddef>
#include <limits>

#include "ringmax/attention/cpu/kernel.h"
#include "ringmax/attention/cpu/math-inl.h"
#include "ringmax/attention/cpu/product-inl.h"
#include "ringmax/attention/cpu/rows-inl.h"
#include "ringmax/attention/cpu/scratch.h"
#include "ringmax/attention/cpu/visibility.h"

HWY_BEFORE_NAMESPACE();
namespace ringmax::attention::cpu::HWY_NAMESPACE {

struct BackwardPlan {
  std::int64_t kv_block;  // keys, a multiple of kPanel
  std::int64_t q_block;   // queries
  std::int64_t runs;      // parts of keys and of queries
  std::int64_t kv_run;    // keys of a part, a multiple of kv_block
  std::int64_t q_run;     // queries of a part, a multiple of q_block
  std::size_t scratch_bytes;

  // Of one round.
  std::int64_t tasks(const Problem& p) const {
    return p.batch * p.kv_heads * runs;
  }
};

inline BackwardPlan backward_plan(const Problem& p, std::int64_t terms) {
  BackwardPlan plan;
  // About 192 keys by 96 queries.
  std::int64_t kv = std::min<std::int64_t>(192, p.keys);
  if (p.block_kv > 0) kv = std::min(kv, p.block_kv);
  plan.kv_block = (kv + kPanel - 1) / kPanel * kPanel;
  plan.q_block = std::min<std::int64_t>(96, p.queries);
  if (p.block_q > 0) plan.q_block = std::min(plan.q_block, p.block_q);
  // Enough tasks for many threads, but parts of some blocks each.
  const auto up = [](std::int64_t n, std::int64_t by) {
    return (n + by - 1) / by;
  };
  const std::int64_t heads = p.batch * p.kv_heads;
  plan.runs =
      std::clamp<std::int64_t>(std::min(p.queries, p.keys) / 512, 1,
                               std::max<std::int64_t>(1, up(16, heads)));
  plan.kv_run = up(up(p.keys, plan.runs), plan.kv_block) * plan.kv_block;
  plan.q_run = up(up(p.queries, plan.runs), plan.q_block) * plan.q_block;
  const auto floats = [](std::int64_t n) {
    return Scratch::rounded(static_cast<std::size_t>(n) * sizeof(float));
  };
  plan.scratch_bytes =
      floats(plan.kv_block * p.head_dim) * 2 +
      floats(plan.kv_block * p.value_dim) +
      floats(plan.kv_block * plan.q_block) * 2 +
      floats(plan.q_block * p.head_dim) + floats(plan.q_block * p.value_dim) +
      Scratch::rounded(static_cast<std::size_t>(terms) * sizeof(Hull));
  return plan;
}

class BackwardTask {
 public:
  BackwardTask(const Problem& p, const BackwardInputs& inputs,
               const Visibility& visibility, const BackwardPlan& plan)
      : p_(p),
        in_(inputs),
        visibility_(visibility),
        plan_(plan),
        scratch_(plan.scratch_bytes),
        k_panels_(scratch_.take<float>(plan.kv_block * p.head_dim)),
        v_panels_(scratch_.take<float>(plan.kv_block * p.value_dim)),
        k_room_(scratch_.take<float>(plan.kv_block * p.head_dim)),
        p_tile_(scratch_.take<float>(plan.kv_block * plan.q_block)),
        ds_tile_(scratch_.take<float>(plan.kv_block * plan.q_block)),
        q_room_(scratch_.take<float>(plan.q_block * p.head_dim)),
        dout_room_(scratch_.take<float>(plan.q_block * p.value_dim)),
        hulls_(scratch_.take<Hull>(visibility.terms())) {}

  template <typename T>
  void run(std::int64_t round, std::int64_t task) {
    const std::int64_t heads = p_.batch * p_.kv_heads;
    const std::int64_t kv_part = task / heads;
    const std::int64_t q_part = (kv_part + round) % plan_.runs;
    const std::int64_t batch = task % heads / p_.kv_heads;
    const std::int64_t kv_head = task % heads % p_.kv_heads;
    const std::int64_t q_begin = q_part * plan_.q_run;
    const std::int64_t q_end = std::min(q_begin + plan_.q_run, p_.queries);
    const std::int64_t kv_end = std::min((kv_part + 1) * plan_.kv_run, p_.keys);
    for (std::int64_t t = kv_part * plan_.kv_run; t < kv_end;
         t += plan_.kv_block) {
      kv_begin_ = t;
      keys_ = std::min(plan_.kv_block, kv_end - t);
      bool ready = false;
      for (std::int64_t g = 0; g < p_.groups; ++g) {
        for (std::int64_t s = q_begin; s < q_end; s += plan_.q_block) {
          q_begin_ = s;
          queries_ = std::min(plan_.q_block, q_end - s);
          visibility_.hull(s, s + queries_, hulls_);
          const BlockKind kind = visibility_.classify(
              hulls_, visibility_.query_segments(batch, s, s + queries_), batch,
              t / plan_.kv_block);
          if (kind == BlockKind::kEmpty) continue;
          if (!ready) take_keys<T>(batch, kv_head);
          ready = true;
          const bool masked = kind == BlockKind::kPartial || p_.tile != nullptr;
          pair<T>(batch, kv_head, kv_head * p_.groups + g, masked);
        }
      }
    }
  }

 private:
  template <typename T>
  void take_keys(std::int64_t batch, std::int64_t kv_head) {
    const T* k = row_at<T>(p_.k, batch, kv_head, kv_begin_);
    const T* v = row_at<T>(p_.v, batch, kv_head, kv_begin_);
    const float factor = static_cast<float>(
        p_.soft_cap > 0 ? p_.scale / p_.soft_cap : p_.scale * kLog2E);
    for (std::int64_t n = 0; n < keys_; n += kPanel) {
      const std::int64_t count = std::min<std::int64_t>(kPanel, keys_ - n);
      float* k_panel = k_panels_ + n * p_.head_dim;
      float* v_panel = v_panels_ + n * p_.value_dim;
      if (count < kPanel) {
        std::fill_n(k_panel, kPanel * p_.head_dim, 0.0f);
        std::fill_n(v_panel, kPanel * p_.value_dim, 0.0f);
      }
      transpose(k + n * p_.k.row, p_.k.row, count, p_.head_dim, factor, k_panel,
                kPanel);
      transpose(v + n * p_.v.row, p_.v.row, count, p_.value_dim, 1.0f, v_panel,
                kPanel);
    }
    k_rows_ = rows_as_float(k, p_.k.row, keys_, p_.head_dim, k_room_);
  }

  template <typename T>
  void pair(std::int64_t batch, std::int64_t kv_head, std::int64_t head,
            bool masked) {
    const A q = rows_as_float(row_at<T>(p_.q, batch, head, q_begin_), p_.q.row,
                              queries_, p_.head_dim, q_room_);
    const A dout =
        rows_as_float(row_at<T>(in_.dout, batch, head, q_begin_), in_.dout.row,
                      queries_, p_.value_dim, dout_room_);
    const std::int64_t tile = plan_.kv_block;
    const std::int64_t heads = p_.kv_heads * p_.groups;
    const std::int64_t at = (batch * heads + head) * p_.queries + q_begin_;
    // Queries [seen_begin, seen_end) see some key of a panel.
    std::int64_t begin = 0;
    std::int64_t end = queries_;
    for (std::int64_t n = 0; n < keys_; n += kPanel) {
      const std::int64_t count = std::min<std::int64_t>(kPanel, keys_ - n);
      if (masked) {
        seen_queries(n, count, begin, end);
        // dQ reads whole rows.
        for (std::int64_t i = 0; i < queries_; ++i) {
          if (i < begin || i >= end) {
            std::fill_n(ds_tile_ + i * tile + n, kPanel, 0.0f);
          }
        }
        if (begin == end) continue;
      }
      const std::int64_t vecs = (count + kLanes - 1) / kLanes;
      float* p_at = p_tile_ + begin * tile + n;
      float* ds_at = ds_tile_ + begin * tile + n;
      product_panel<Order::kRows, Start::kZero>(
          end - begin, vecs, {q.data + begin * q.stride, q.stride},
          {k_panels_ + n * p_.head_dim, kPanel}, p_.head_dim, {p_at, tile});
      product_panel<Order::kRows, Start::kZero>(
          end - begin, vecs, {dout.data + begin * dout.stride, dout.stride},
          {v_panels_ + n * p_.value_dim, kPanel}, p_.value_dim, {ds_at, tile});
      if (masked) {
        weights<true>(batch, at, n, vecs, begin, end);
      } else {
        weights<false>(batch, at, n, vecs, begin, end);
      }
      // Fewer queries for a panel that is partly hidden.
      if (masked) add_to_keys(batch, kv_head, n, count, q, dout, begin, end);
    }
    if (!masked) add_to_keys(batch, kv_head, 0, keys_, q, dout, 0, queries_);
    product_add<Order::kRows>(
        queries_, p_.head_dim, {ds_tile_, tile}, {k_rows_.data, k_rows_.stride},
        keys_, {row_at(in_.dq, batch, head, q_begin_), in_.dq.row});
  }

  // dV and dK of keys [n, n + count) from queries [begin, end) of the block.
  void add_to_keys(std::int64_t batch, std::int64_t kv_head, std::int64_t n,
                   std::int64_t count, A q, A dout, std::int64_t begin,
                   std::int64_t end) {
    const std::int64_t tile = plan_.kv_block;
    const std::int64_t key = kv_begin_ + n;
    product_add<Order::kColumns>(
        count, p_.value_dim, {p_tile_ + begin * tile + n, tile},
        {dout.data + begin * dout.stride, dout.stride}, end - begin,
        {row_at(in_.dv, batch, kv_head, key), in_.dv.row});
    product_add<Order::kColumns>(
        count, p_.head_dim, {ds_tile_ + begin * tile + n, tile},
        {q.data + begin * q.stride, q.stride}, end - begin,
        {row_at(in_.dk, batch, kv_head, key), in_.dk.row});
  }

  // The least range of queries of the block outside of which none sees a key of
  // [n, n + count).
  void seen_queries(std::int64_t n, std::int64_t count, std::int64_t& begin,
                    std::int64_t& end) const {
    const Extent keys =
        visibility_.key_extent(kv_begin_ + n, kv_begin_ + n + count);
    const auto sees = [&](std::int64_t i) {
      for (std::int64_t t = 0; t < visibility_.terms(); ++t) {
        if (visibility_.first(t)[q_begin_ + i] <= keys.max &&
            keys.min <= visibility_.last(t)[q_begin_ + i]) {
          return true;
        }
      }
      return false;
    };
    begin = 0;
    end = queries_;
    while (begin < end && !sees(begin)) ++begin;
    while (end > begin && !sees(end - 1)) --end;
  }

  // Logits to probabilities, dP to dS. `at` indexes lse and delta.
  template <bool kMasked>
  HWY_NOINLINE void weights(std::int64_t batch, std::int64_t at, std::int64_t n,
                            std::int64_t vecs, std::int64_t begin,
                            std::int64_t end) {
    const FloatTag d;
    const IntTag di;
    const bool cap = p_.soft_cap > 0;
    const Vec cap_v = hn::Set(d, static_cast<float>(p_.soft_cap * kLog2E));
    const Vec scale = hn::Set(d, static_cast<float>(p_.scale));
    const Vec hidden = hn::Set(d, -std::numeric_limits<float>::infinity());
    const std::int64_t tile = plan_.kv_block;
    const std::int32_t* keys = visibility_.kv_positions() + kv_begin_ + n;
    const std::int32_t* q_segments = visibility_.q_segments(batch);
    const std::int32_t* kv_segments = visibility_.kv_segments(batch);
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t query = q_begin_ + i;
      // A row of which the caller says that it sees nothing has no weights.
      const float lse = in_.lse[at + i];
      const Vec base = hn::Set(d, lse > -std::numeric_limits<float>::infinity()
                                      ? static_cast<float>(lse * kLog2E)
                                      : std::numeric_limits<float>::infinity());
      const Vec delta = hn::Set(d, in_.delta[at + i]);
      for (std::int64_t j = 0; j < vecs; ++j) {
        float* p_at = p_tile_ + i * tile + n + j * kLanes;
        float* ds_at = ds_tile_ + i * tile + n + j * kLanes;
        Vec s = hn::LoadU(d, p_at);
        Vec slope = scale;
        if (cap) {
          const Vec th = tanh(s);
          slope = hn::NegMulAdd(hn::Mul(scale, th), th, scale);
          s = hn::Mul(cap_v, th);
        }
        if constexpr (kMasked) {
          const IntVec key = hn::LoadU(di, keys + j * kLanes);
          auto seen = hn::FirstN(di, 0);
          for (std::int64_t t = 0; t < visibility_.terms(); ++t) {
            const auto before =
                hn::Gt(hn::Set(di, visibility_.first(t)[query]), key);
            const auto after =
                hn::Gt(key, hn::Set(di, visibility_.last(t)[query]));
            seen = hn::Or(seen, hn::Not(hn::Or(before, after)));
          }
          if (q_segments != nullptr) {
            seen = hn::And(seen, hn::Eq(hn::Set(di, q_segments[query]),
                                        hn::LoadU(di, kv_segments + kv_begin_ +
                                                          n + j * kLanes)));
          }
          if (p_.tile != nullptr) {
            seen = hn::And(seen, tile_seen(query, n + j * kLanes));
          }
          s = hn::IfThenElse(hn::RebindMask(d, seen), s, hidden);
        }
        const Vec p = exp2(hn::Sub(s, base));
        const Vec dp = hn::LoadU(d, ds_at);
        hn::StoreU(p, d, p_at);
        hn::StoreU(hn::Mul(hn::Mul(p, slope), hn::Sub(dp, delta)), d, ds_at);
      }
    }
  }

  // Lanes from key slot kv_begin_ + n of a row of the dense tile.
  hn::Mask<IntTag> tile_seen(std::int64_t query, std::int64_t n) const {
    const IntTag di;
    const std::int64_t first = kv_begin_ + n;
    const std::uint8_t* row = p_.tile + query * p_.keys;
    alignas(64) std::int32_t bits[kLanes] = {};
    const std::int64_t count = std::min<std::int64_t>(kLanes, p_.keys - first);
    for (std::int64_t l = 0; l < count; ++l) bits[l] = row[first + l];
    return hn::Ne(hn::LoadU(di, bits), hn::Zero(di));
  }

  const Problem& p_;
  const BackwardInputs& in_;
  const Visibility& visibility_;
  const BackwardPlan& plan_;
  Scratch scratch_;
  float* k_panels_;  // [kv_block / kPanel][D][kPanel], scaled
  float* v_panels_;  // [kv_block / kPanel][V][kPanel]
  float* k_room_;
  float* p_tile_;   // [q_block][kv_block]: logits, then probabilities
  float* ds_tile_;  // the same: dP, then dS
  float* q_room_;
  float* dout_room_;
  Hull* hulls_;
  A k_rows_{};
  // The pair of blocks at hand.
  std::int64_t kv_begin_ = 0, keys_ = 0, q_begin_ = 0, queries_ = 0;
};

inline void backward(const Problem& p, const BackwardInputs& inputs,
                     const Workers& workers) {
  const std::int64_t terms =
      std::ssize(visible_terms(p.mask, std::span<const std::int32_t>()));
  const BackwardPlan plan = backward_plan(p, terms);
  const Visibility visibility(p, plan.kv_block);
  for (std::int64_t round = 0; round < plan.runs; ++round) {
    workers.run(plan.tasks(p), [&](std::int64_t task) {
      BackwardTask worker(p, inputs, visibility, plan);
      if (p.dtype == DType::kBF16) {
        worker.run<std::uint16_t>(round, task);
      } else {
        worker.run<float>(round, task);
      }
    });
  }
}

}  // namespace ringmax::attention::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
