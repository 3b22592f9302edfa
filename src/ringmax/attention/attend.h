// attend(): the attention op, with its own gradient, under every context
// strategy.
//
// Queries stay where they are along the `context` axis of the mesh; keys and
// values travel round it (ring), or are gathered (all_gather). Forward and
// backward stand inside a manual computation and speak to their neighbours
// themselves. The gradient is a custom vjp that keeps q, k, v, out and
// log-sum-exp.
//
// Ring: the steps of the RingSchedule of mask and lengths. One payload (key and
// value side by side) is sent at most R - 1 times forward, each send issued
// before the compute that hides it, and only to devices that need it. Backward
// the payload goes round again, and the float32 gradient that other devices add
// to a key/value shard travels with it and comes home after the last of them.
// (Liu, Zaharia, Abbeel 2023.)
#ifndef RINGMAX_ATTENTION_ATTEND_H_
#define RINGMAX_ATTENTION_ATTEND_H_

#include <cstdint>
#include <string>
#include <vector>

#include "ringmax/attention/options.h"
#include "ringmax/attention/ring_schedule.h"
#include "ringmax/graph/graph.h"
#include "ringmax/mesh/mesh.h"

namespace ringmax::attention {

struct AttendSettings {
  ContextStrategy strategy = ContextStrategy::kRing;
  bool causal = true;
  std::int64_t causal_offset = 0;
  // Real tokens; what the arrays have more, at their end, is padding: keys that
  // nobody sees, queries whose results mean nothing. 0: no padding.
  std::int64_t queries = 0;
  std::int64_t keys = 0;
  double scale = 0;  // 0: 1/sqrt(head_dim)
  std::int64_t block_q = 512;
  std::int64_t block_kv = 512;
  // Mesh axes of the batch dimension, the sequence and the heads.
  std::vector<std::string> batch_axes;
  std::string context_axis = "context";
  std::vector<std::string> head_axes;
};

struct AttendResult {
  graph::Value out_BSHV;  // dtype of q
  graph::Value lse_BSH;   // float32, natural log; no gradient flows into it
  graph::Value max_BSH;   // float32, the largest logit
};

// The schedule that the ring of `attend` follows for [.., queries, ..] and
// [.., keys, ..] arrays over `ring_size` devices.
RingSchedule ring_schedule(const AttendSettings& settings, std::int64_t queries,
                           std::int64_t keys, std::int64_t ring_size);

// q [B, S, Hq, D], k [B, T, Hkv, D], v [B, T, Hkv, V] of one float dtype.
// Throws kInvalidArgument when shapes do not fit, when Hkv does not divide Hq,
// or when the mesh does not divide batch, sequence or heads.
AttendResult attend(graph::Value q_BSHD, graph::Value k_BTKD,
                    graph::Value v_BTKV, const AttendSettings& settings);

}  // namespace ringmax::attention

#endif  // RINGMAX_ATTENTION_ATTEND_H_
