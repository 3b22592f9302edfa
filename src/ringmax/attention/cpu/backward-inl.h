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
// queries. A task waits for those of the round before that have its keys or its
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
#include <atomic>
#include <cstddef>
#include <limits>
#include <vector>

#include "ringmax/attention/cpu/bf16_dots.h"
#include "ringmax/attention/cpu/elements-inl.h"
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

// Of `rows` rows cut into panels of kWide columns.
template <typename E>
std::int64_t deep_floats(std::int64_t rows, std::int64_t columns) {
  return elements<E>(rows) * ((columns + kWide - 1) / kWide * kWide);
}

template <typename E>
BackwardPlan backward_plan(const Problem& p, std::int64_t terms) {
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
  const std::int64_t d = elements<E>(p.head_dim);
  const std::int64_t v = elements<E>(p.value_dim);
  const std::int64_t rows = elements<E>(plan.q_block);
  const std::int64_t tile = plan.kv_block * plan.q_block;
  plan.scratch_bytes =
      floats(plan.kv_block * d) + floats(plan.kv_block * v) +
      floats(deep_floats<E>(plan.kv_block, p.head_dim)) +
      floats(deep_floats<E>(plan.q_block, p.head_dim)) +
      floats(deep_floats<E>(plan.q_block, p.value_dim)) +
      floats(plan.q_block * d) + floats(plan.q_block * v) +
      Scratch::rounded(static_cast<std::size_t>(terms) * sizeof(Hull));
  if constexpr (kPairs<E>) {
    plan.scratch_bytes += floats(plan.kv_block * std::max(d, v)) +
                          floats(plan.q_block * kPanel) * 2 +
                          floats(rows * plan.kv_block) * 2 + floats(tile / 2);
  } else {
    plan.scratch_bytes += floats(tile) * 2;
  }
  return plan;
}

// T: how q, k, v and dout are stored; E: what they become.
template <typename T, typename E>
class BackwardTask {
 public:
  BackwardTask(const Problem& p, const BackwardInputs& inputs,
               const Visibility& visibility, const BackwardPlan& plan)
      : p_(p),
        in_(inputs),
        visibility_(visibility),
        plan_(plan),
        qk_depth_(elements<E>(p.head_dim)),
        v_depth_(elements<E>(p.value_dim)),
        scratch_(plan.scratch_bytes),
        k_panels_(scratch_.take<E>(plan.kv_block * qk_depth_)),
        v_panels_(scratch_.take<E>(plan.kv_block * v_depth_)),
        k_deep_(scratch_.take<E>(deep_floats<E>(plan.kv_block, p.head_dim))),
        q_(scratch_.take<E>(plan.q_block * qk_depth_)),
        dout_(scratch_.take<E>(plan.q_block * v_depth_)),
        q_deep_(scratch_.take<E>(deep_floats<E>(plan.q_block, p.head_dim))),
        dout_deep_(scratch_.take<E>(deep_floats<E>(plan.q_block, p.value_dim))),
        hulls_(scratch_.take<Hull>(visibility.terms())) {
    const std::int64_t tile = plan.kv_block * plan.q_block;
    if constexpr (kPairs<E>) {
      const std::int64_t rows = elements<E>(plan.q_block);
      room_ = scratch_.take<E>(plan.kv_block * std::max(qk_depth_, v_depth_));
      s_ = scratch_.take<float>(plan.q_block * kPanel);
      dp_ = scratch_.take<float>(plan.q_block * kPanel);
      p_deep_ = scratch_.take<E>(rows * plan.kv_block);
      ds_deep_ = scratch_.take<E>(rows * plan.kv_block);
      ds_ = scratch_.take<E>(tile / 2);
    } else {
      p_deep_ = s_ = scratch_.take<float>(tile);
      ds_ = ds_deep_ = dp_ = scratch_.take<float>(tile);
    }
  }

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
          if (!ready) take_keys(batch, kv_head);
          ready = true;
          const bool masked = kind == BlockKind::kPartial || p_.tile != nullptr;
          pair(batch, kv_head, kv_head * p_.groups + g, masked);
        }
      }
    }
  }

 private:
  // What logits are multiplied with, in Q or afterwards, as in the forward
  // pass: where the same numbers are rounded the same way, weights sum to 1.
  float logit_factor() const {
    return static_cast<float>(p_.soft_cap > 0 ? p_.scale / p_.soft_cap
                                              : p_.scale * kLog2E);
  }

  void take_keys(std::int64_t batch, std::int64_t kv_head) {
    const T* k = row_at<T>(p_.k, batch, kv_head, kv_begin_);
    const T* v = row_at<T>(p_.v, batch, kv_head, kv_begin_);
    key_panels(k, p_.k.row, p_.head_dim, k_panels_);
    key_panels(v, p_.v.row, p_.value_dim, v_panels_);
    take_panels(k, p_.k.row, keys_, p_.head_dim, kWide,
                deep_size(plan_.kv_block), k_deep_);
  }

  // Keys along lanes, kPanel at a time: [elements(columns)][kPanel] each.
  void key_panels(const T* rows, std::int64_t stride, std::int64_t columns,
                  E* panels) {
    const std::int64_t depth = elements<E>(columns);
    if constexpr (kPairs<E>)
      take_rows(rows, stride, keys_, columns, 1.0f, room_);
    for (std::int64_t n = 0; n < keys_; n += kPanel) {
      const std::int64_t count = std::min<std::int64_t>(kPanel, keys_ - n);
      E* panel = panels + n * depth;
      if (count < kPanel) std::fill_n(panel, kPanel * depth, E{});
      if constexpr (kPairs<E>) {
        transpose(room_ + n * depth, depth, count, depth, 1.0f, panel, kPanel);
      } else {
        transpose(rows + n * stride, stride, count, columns, 1.0f, panel,
                  kPanel);
      }
    }
  }

  void pair(std::int64_t batch, std::int64_t kv_head, std::int64_t head,
            bool masked) {
    const T* q = row_at<T>(p_.q, batch, head, q_begin_);
    const T* dout = row_at<T>(in_.dout, batch, head, q_begin_);
    take_rows(q, p_.q.row, queries_, p_.head_dim, logit_factor(), q_);
    take_rows(dout, in_.dout.row, queries_, p_.value_dim, 1.0f, dout_);
    take_panels(q, p_.q.row, queries_, p_.head_dim, kWide,
                deep_size(plan_.q_block), q_deep_);
    take_panels(dout, in_.dout.row, queries_, p_.value_dim, kWide,
                deep_size(plan_.q_block), dout_deep_);
    const std::int64_t heads = p_.kv_heads * p_.groups;
    const std::int64_t at = (batch * heads + head) * p_.queries + q_begin_;
    const std::int64_t row = elements<E>(plan_.kv_block);
    // Queries [begin, end) see some key of a panel.
    std::int64_t begin = 0;
    std::int64_t end = queries_;
    for (std::int64_t n = 0; n < keys_; n += kPanel) {
      const std::int64_t count = std::min<std::int64_t>(kPanel, keys_ - n);
      if (masked) {
        seen_queries(n, count, begin, end);
        // dQ reads whole rows.
        for (std::int64_t i = 0; i < queries_; ++i) {
          if (i < begin || i >= end) {
            std::fill_n(ds_ + i * row + elements<E>(n), elements<E>(kPanel),
                        E{});
          }
        }
        if (begin == end) continue;
      }
      const std::int64_t vecs = (count + kLanes - 1) / kLanes;
      const C s = logits(n);
      const C dp = slopes(n);
      product_in_parts<E>(end - begin, vecs,
                          {q_ + begin * qk_depth_, qk_depth_},
                          {k_panels_ + n * qk_depth_, kPanel}, qk_depth_,
                          kLongestSum, {s.data + begin * s.stride, s.stride});
      product_in_parts<E>(
          end - begin, vecs, {dout_ + begin * v_depth_, v_depth_},
          {v_panels_ + n * v_depth_, kPanel}, v_depth_, kLongestSum,
          {dp.data + begin * dp.stride, dp.stride});
      if (masked) {
        weights<true>(batch, at, n, vecs, begin, end);
      } else {
        weights<false>(batch, at, n, vecs, begin, end);
      }
      // Fewer queries for a panel that is partly hidden.
      if (masked) add_to_keys(batch, kv_head, n, count, begin, end);
    }
    if (!masked) add_to_keys(batch, kv_head, 0, keys_, 0, queries_);
    if constexpr (kPairs<E>) {
      // The lane next to an odd last key would meet the zero beside it in K.
      if (keys_ % 2 != 0) {
        for (std::int64_t i = 0; i < queries_; ++i) {
          E& last = ds_[i * row + keys_ / 2];
          last = static_cast<E>(static_cast<std::uint32_t>(last) & 0xFFFF);
        }
      }
    }
    product_add<Order::kRows, E>(
        queries_, p_.head_dim, {ds_, row}, {k_deep_, deep_size(plan_.kv_block)},
        elements<E>(keys_),
        {row_at(in_.dq, batch, head, q_begin_), in_.dq.row});
  }

  // dV and dK of keys [n, n + count) from queries [begin, end) of the block;
  // begin is even where elements are pairs.
  void add_to_keys(std::int64_t batch, std::int64_t kv_head, std::int64_t n,
                   std::int64_t count, std::int64_t begin, std::int64_t end) {
    const std::int64_t row = plan_.kv_block;
    const std::int64_t key = kv_begin_ + n;
    const std::int64_t first = elements<E>(begin);
    const std::int64_t depth = elements<E>(end - begin);
    product_add<Order::kColumns, E>(
        count, p_.value_dim, {p_deep_ + first * row + n, row},
        {dout_deep_ + first * kWide, deep_size(plan_.q_block)}, depth,
        {row_at(in_.dv, batch, kv_head, key), in_.dv.row});
    product_add<Order::kColumns, E>(
        count, p_.head_dim, {ds_deep_ + first * row + n, row},
        {q_deep_ + first * kWide, deep_size(plan_.q_block)}, depth,
        {row_at(in_.dk, batch, kv_head, key), in_.dk.row});
  }

  static std::int64_t deep_size(std::int64_t rows) {
    return elements<E>(rows) * kWide;
  }

  // Where the logits and dP of keys from n on stand, query by query.
  C logits(std::int64_t n) const {
    return kPairs<E> ? C{s_, kPanel} : C{s_ + n, plan_.kv_block};
  }
  C slopes(std::int64_t n) const {
    return kPairs<E> ? C{dp_, kPanel} : C{dp_ + n, plan_.kv_block};
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
    if constexpr (kPairs<E>) begin &= ~std::int64_t{1};
  }

  // Logits to probabilities, dP to dS. `at` indexes lse and delta.
  template <bool kMasked>
  HWY_NOINLINE void weights(std::int64_t batch, std::int64_t at, std::int64_t n,
                            std::int64_t vecs, std::int64_t begin,
                            std::int64_t end) {
    const FloatTag d;
    const C s = logits(n);
    const C dp = slopes(n);
    if constexpr (kPairs<E>) {
      const std::int64_t tile = plan_.kv_block;
      for (std::int64_t i = begin; i < end; i += 2) {
        // A last query without a neighbour stands beside zeros.
        const bool two = i + 1 < end;
        const Row one(*this, batch, at, i);
        const Row other(*this, batch, at, two ? i + 1 : i);
        for (std::int64_t j = 0; j < vecs; ++j) {
          const auto weight = [&](const Row& row, std::int64_t of) HWY_ATTR {
            return this->template weight<kMasked>(
                row, n + j * kLanes,
                hn::LoadU(d, s.data + of * s.stride + j * kLanes),
                hn::LoadU(d, dp.data + of * dp.stride + j * kLanes));
          };
          const Weight a = weight(one, i);
          Weight b{hn::Zero(d), hn::Zero(d)};
          if (two) b = weight(other, i + 1);
          const std::int64_t deep = i / 2 * tile + n + j * kLanes;
          store_pairs(a.p, b.p, p_deep_ + deep);
          E* first = ds_ + (i * tile + n + j * kLanes) / 2;
          store_pairs_and_rows(a.ds, b.ds, two, ds_deep_ + deep, first,
                               first + tile / 2);
        }
      }
    } else {
      for (std::int64_t i = begin; i < end; ++i) {
        const Row row(*this, batch, at, i);
        for (std::int64_t j = 0; j < vecs; ++j) {
          float* p_at = s.data + i * s.stride + j * kLanes;
          float* ds_at = dp.data + i * dp.stride + j * kLanes;
          const Weight w = weight<kMasked>(
              row, n + j * kLanes, hn::LoadU(d, p_at), hn::LoadU(d, ds_at));
          hn::StoreU(w.p, d, p_at);
          hn::StoreU(w.ds, d, ds_at);
        }
      }
    }
  }

  // What all pairs of a query share.
  struct Row {
    Row(const BackwardTask& task, std::int64_t batch, std::int64_t at,
        std::int64_t i)
        : query(task.q_begin_ + i),
          q_segments(task.visibility_.q_segments(batch)),
          kv_segments(task.visibility_.kv_segments(batch)) {
      const FloatTag d;
      // A row of which the caller says that it sees nothing has no weights.
      const float lse = task.in_.lse[at + i];
      base = hn::Set(d, lse > -std::numeric_limits<float>::infinity()
                            ? static_cast<float>(lse * kLog2E)
                            : std::numeric_limits<float>::infinity());
      delta = hn::Set(d, task.in_.delta[at + i]);
    }
    std::int64_t query;
    const std::int32_t* q_segments;
    const std::int32_t* kv_segments;
    Vec base, delta;
  };
  struct Weight {
    Vec p, ds;
  };

  // From logits and dP of keys from kv_begin_ + n on.
  template <bool kMasked>
  HWY_INLINE Weight weight(const Row& row, std::int64_t n, Vec s, Vec dp) {
    const FloatTag d;
    const IntTag di;
    Vec slope = hn::Set(d, static_cast<float>(p_.scale));
    if constexpr (kPairs<E>) s = hn::Mul(s, hn::Set(d, logit_factor()));
    if (p_.soft_cap > 0) {
      const Vec th = tanh(s);
      slope = hn::NegMulAdd(hn::Mul(slope, th), th, slope);
      s = hn::Mul(hn::Set(d, static_cast<float>(p_.soft_cap * kLog2E)), th);
    }
    if constexpr (kMasked) {
      const Vec hidden = hn::Set(d, -std::numeric_limits<float>::infinity());
      const IntVec key =
          hn::LoadU(di, visibility_.kv_positions() + kv_begin_ + n);
      auto seen = hn::FirstN(di, 0);
      for (std::int64_t t = 0; t < visibility_.terms(); ++t) {
        const auto before =
            hn::Gt(hn::Set(di, visibility_.first(t)[row.query]), key);
        const auto after =
            hn::Gt(key, hn::Set(di, visibility_.last(t)[row.query]));
        seen = hn::Or(seen, hn::Not(hn::Or(before, after)));
      }
      if (row.q_segments != nullptr) {
        seen = hn::And(seen,
                       hn::Eq(hn::Set(di, row.q_segments[row.query]),
                              hn::LoadU(di, row.kv_segments + kv_begin_ + n)));
      }
      if (p_.tile != nullptr) seen = hn::And(seen, tile_seen(row.query, n));
      s = hn::IfThenElse(hn::RebindMask(d, seen), s, hidden);
    }
    const Vec p = exp2(hn::Sub(s, row.base));
    return {p, hn::Mul(hn::Mul(p, slope), hn::Sub(dp, row.delta))};
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
  const std::int64_t qk_depth_, v_depth_;  // elements(D), elements(V)
  Scratch scratch_;
  E* k_panels_;  // [kv_block / kPanel][elements(D)][kPanel]; scaled if float32
  E* v_panels_;  // [kv_block / kPanel][elements(V)][kPanel]
  E* k_deep_;    // [elements(kv_block)][D]
  E* q_;         // [q_block][elements(D)]; scaled if float32
  E* dout_;      // [q_block][elements(V)]
  E* q_deep_;    // [elements(q_block)][D]
  E* dout_deep_;
  // float32: [q_block][kv_block], of which the probabilities take the logits'
  // place and dS that of dP. Pairs: [q_block][kPanel].
  float* s_;
  float* dp_;
  E* p_deep_;   // [elements(q_block)][kv_block]
  E* ds_deep_;  // the same
  E* ds_;       // [q_block][elements(kv_block)]
  E* room_ = nullptr;
  Hull* hulls_;
  // The pair of blocks at hand.
  std::int64_t kv_begin_ = 0, keys_ = 0, q_begin_ = 0, queries_ = 0;
};

template <typename T, typename E>
void backward_with(const Problem& p, const BackwardInputs& inputs,
                   const Workers& workers) {
  const std::int64_t terms =
      std::ssize(visible_terms(p.mask, std::span<const std::int32_t>()));
  const BackwardPlan plan = backward_plan<E>(p, terms);
  const Visibility visibility(p, plan.kv_block);
  const std::int64_t tasks = plan.tasks(p);
  std::vector<std::atomic<bool>> done(
      static_cast<std::size_t>(plan.runs * tasks));
  workers.run(plan.runs * tasks, [&](std::int64_t i) {
    const std::int64_t round = i / tasks;
    const std::int64_t task = i % tasks;
    if (round > 0) {
      // Both were begun before this one.
      const std::int64_t before = (round - 1) * tasks;
      const std::int64_t next_part = p.batch * p.kv_heads;
      done[before + task].wait(false);
      done[before + (task + next_part) % tasks].wait(false);
    }
    BackwardTask<T, E>(p, inputs, visibility, plan).run(round, task);
    done[i] = true;
    done[i].notify_all();
  });
}

inline void backward(const Problem& p, const BackwardInputs& inputs,
                     const Workers& workers) {
  if (p.dtype == DType::kF32) {
    return backward_with<float, float>(p, inputs, workers);
  }
#if RINGMAX_ATTENTION_CPU_PAIRS
  if (has_bf16_dots()) {
    return backward_with<std::uint16_t, Bf16Pair>(p, inputs, workers);
  }
#endif
  backward_with<std::uint16_t, float>(p, inputs, workers);
}

}  // namespace ringmax::attention::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
