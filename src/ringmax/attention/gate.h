// The gate of attention: everything that is asked of attend(), checked in one
// place against shapes, mesh and shardings, before anything is built. What
// comes out is a plan; what cannot be computed is refused with its reason, and
// nothing that is asked for is left out. Knows no graph and no devices.
#ifndef RINGMAX_ATTENTION_GATE_H_
#define RINGMAX_ATTENTION_GATE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ringmax/attention/backend.h"
#include "ringmax/attention/layout.h"
#include "ringmax/attention/mask.h"
#include "ringmax/attention/options.h"
#include "ringmax/attention/ring_schedule.h"
#include "ringmax/attention/strategy.h"
#include "ringmax/base/shape.h"
#include "ringmax/hw/target.h"
#include "ringmax/mesh/mesh.h"

namespace ringmax::attention {

// What MaxText's setting asks for.
Strategy strategy_of(ContextStrategy strategy);

// Block lengths in tokens; MaxText's names with sa_ before them.
struct BlockSettings {
  // 0: chosen, by the kernel where it has its own, by the cost model elsewhere.
  std::int64_t block_q = 512;
  std::int64_t block_kv = 512;
  std::int64_t block_kv_compute = 0;  // 0: block_kv
  // Backward; 0: as forward. Kernels here make dq together with dk and dv.
  std::int64_t block_q_dkv = 0;
  std::int64_t block_kv_dkv = 0;
  std::int64_t block_kv_dkv_compute = 0;
};

// What the caller's user calls a setting; problems are said with these.
struct SettingNames {
  std::string_view strategy = "strategy";
  std::string_view kernel = "kernel";
  std::string_view soft_cap = "logit_soft_cap";
  std::string_view block = "block_";  // begins the names of block lengths
};

struct AttendSettings {
  Mask mask = Mask::causal();
  // Where the tokens of the sequence live, over all devices that share it; the
  // same for queries and keys.
  LayoutKind layout = LayoutKind::kContiguous;
  // Real tokens; what the arrays have more is the layout's padding. 0: none.
  std::int64_t queries = 0;
  std::int64_t keys = 0;
  std::optional<double> scale;  // none: 1/sqrt(head_dim)
  double soft_cap = 0;          // 0: none
  Strategy strategy = Strategy::kAuto;
  // Ring: the halves of every shard's keys travel both ways at once.
  bool bidirectional = false;
  // Ring: steps that one pass of a loop over them holds; 0: no loop, one piece
  // of program a step; -1: one step, where the ring allows a loop.
  std::int64_t ring_scan_unroll = 0;
  // Ring: whether keys are sent, or read where they lie.
  RingTransport ring_transport = RingTransport::kCollective;
  std::string kernel = "auto";
  BlockSettings blocks;
  // [batch, sequence, heads, head_dim] of q, and of k and v.
  mesh::PartitionSpec q_spec;
  mesh::PartitionSpec kv_spec;
  hw::Target target;
  SettingNames names;
};

// [B, S, Hq, D], [B, T, Hkv, D], [B, T, Hkv, V]; segments [B, S] and [B, T]
// int32, sinks [Hq].
struct AttendShapes {
  Shape q, k, v;
  std::optional<Shape> q_segments, kv_segments, sinks;
};

struct AttendPlan {
  Strategy strategy = Strategy::kSingle;
  // What the cost model says of it, when it was chosen among several.
  std::string estimate;
  // Mesh axes of size above 1, major to minor.
  std::vector<std::string> batch_axes, sequence_axes, head_axes;
  // The axis whose devices pass keys on, and the one whose devices share out
  // heads; "" for none.
  std::string ring_axis, ulysses_axis;
  std::int64_t ring_size = 1;
  std::int64_t ulysses_size = 1;
  // Copies of every kv head that are made so that the ulysses axis divides
  // them; 1 for none.
  std::int64_t kv_copies = 1;
  Layout q_layout{LayoutKind::kContiguous, 1, 1};
  Layout kv_layout{LayoutKind::kContiguous, 1, 1};
  // Of ring and usp.
  RingSchedule schedule;
  // Steps a pass of the ring's loop; 0 when the ring is unrolled.
  std::int64_t ring_scan_unroll = 0;
  // Whether the ring's devices make one call of the kernel, in the memory that
  // they share; nothing is sent then.
  bool in_memory = false;
  // What the kernel is asked on a device; keys are all of a ring device's.
  KernelRequest request;
  const Backend* backend = nullptr;
  // Whether mask is an array: request.mask is full, and this is it.
  std::optional<Mask> tile_mask;

  // Why each other strategy was not taken, where it was chosen and not asked
  // for, and better kernels were not; what a reader of the log should know of
  // this plan.
  std::vector<std::string> refused;
  std::vector<std::string> notes;

  // Query-key pairs that every device along the sequence computes for each of
  // its heads, in the order of the sequence axes.
  std::vector<std::int64_t> pairs_per_device;
  // Mean over the devices of the work that request.visible_share counts.
  double balance = 1;
  // Bytes that the busiest device sends in the forward pass.
  std::int64_t bytes_sent_per_device = 0;
  std::int64_t ring_steps_sent = 0;
  // "ring over context (8), kernel stablehlo, ..."; one line.
  std::string summary() const;
};

// Throws kInvalidArgument with everything that is wrong.
AttendPlan plan_attend(const AttendShapes& shapes,
                       const AttendSettings& settings, const mesh::Mesh& mesh);

}  // namespace ringmax::attention

#endif  // RINGMAX_ATTENTION_GATE_H_
