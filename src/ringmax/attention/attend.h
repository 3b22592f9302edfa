// attend(): the attention op, with its own gradient, under every strategy.
//
// Forward and backward stand inside a manual computation over all mesh axes and
// speak to other devices themselves:
//   ring        queries stay, keys and values go round an axis (RingSchedule)
//   all_gather  every device gathers all keys and values
//   ulysses     devices of an axis trade sequence for heads, and back
//   usp         ring over one axis times ulysses over another
// The gate (gate.h) plans it, or refuses. The gradient is a custom vjp that
// keeps q, k, v, out and each row's maximum and sum over the keys; sinks are
// applied once, after all keys, and so is their gradient.
#ifndef RINGMAX_ATTENTION_ATTEND_H_
#define RINGMAX_ATTENTION_ATTEND_H_

#include "ringmax/attention/gate.h"
#include "ringmax/graph/graph.h"

namespace ringmax::attention {

struct AttendInputs {
  graph::Value q_BSHD;
  graph::Value k_BTKD;
  graph::Value v_BTKV;
  // int32, both or neither: pairs of different segments do not see each other,
  // segment 0 is padding.
  graph::Value q_segments_BS;
  graph::Value kv_segments_BT;
  // Any float dtype: one more logit a head in every softmax, without a value.
  graph::Value sinks_H;
};

struct AttendResult {
  graph::Value out_BSHV;  // dtype of q
  graph::Value lse_BSH;   // float32, natural log, sink included; no gradient
  graph::Value max_BSH;   // float32, largest logit of a key; no gradient
};

// What attend() of these inputs will do; throws as plan_attend does.
AttendPlan plan_of(const AttendInputs& inputs, const AttendSettings& settings);

// q [B, S, Hq, D], k [B, T, Hkv, D], v [B, T, Hkv, V] of one dtype, f32 or
// bf16, in the order of the layout. Throws what the gate throws.
AttendResult attend(const AttendInputs& inputs, const AttendSettings& settings);
// The same of a plan made before for inputs of these shapes.
AttendResult attend(const AttendInputs& inputs, const AttendPlan& plan);

}  // namespace ringmax::attention

#endif  // RINGMAX_ATTENTION_ATTEND_H_
