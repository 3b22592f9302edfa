// Attention of the queries that a device works for, with keys and values that
// it has, gathers or is sent: the part of attend() between sharing out heads
// and putting them together again.
//
// Backward keeps dq in place while dk and dv travel with the payload, in
// float32, and come home at the end of every trip of the schedule (Liu,
// Zaharia, Abbeel 2023).
#ifndef RINGMAX_ATTENTION_SHARD_H_
#define RINGMAX_ATTENTION_SHARD_H_

#include "ringmax/attention/gate.h"
#include "ringmax/attention/partial.h"
#include "ringmax/attention/payload.h"

namespace ringmax::attention {

// Inside a manual computation; sizes are those of plan.request.
struct ShardInputs {
  graph::Value q_BKGSD;
  graph::Value q_segments_BS;  // or invalid
  // Of this device's own slots: all of them unless the strategy gathers.
  KeyValues kv;
  graph::Value tile_ST;  // this device's queries, all key slots; or invalid
};

// Over all keys of the sequence; sinks are not in it.
KernelPartial shard_forward(const AttendPlan& plan, const ShardInputs& in);

// Rows that see no key come with dout, lse and delta 0. dk and dv are those of
// this device's own slots.
KernelGradients shard_backward(const AttendPlan& plan, const ShardInputs& in,
                               graph::Value dout_BKGSV, graph::Value lse_BKGS,
                               graph::Value delta_BKGS);

}  // namespace ringmax::attention

#endif  // RINGMAX_ATTENTION_SHARD_H_
