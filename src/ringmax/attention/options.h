// Settings of attention that say how it is computed: which algorithm, how the
// sequence is spread over the context axes, which blocks a kernel works in.
// What is computed (masks, sinks, soft cap) belongs to the model's options.
// Names and meaning are MaxText's.
#ifndef RINGMAX_ATTENTION_OPTIONS_H_
#define RINGMAX_ATTENTION_OPTIONS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "ringmax/attention/layout.h"
#include "ringmax/base/option.h"
#include "ringmax/mesh/mesh.h"

namespace ringmax::attention {

enum class AttentionKind { kAutoselected, kFlash };
inline constexpr Named<AttentionKind> kAttentionKinds[] = {
    {AttentionKind::kAutoselected, "autoselected"},
    {AttentionKind::kFlash, "flash"},
};

enum class ContextStrategy { kAuto, kRing, kAllGather, kUlysses, kUsp };
inline constexpr Named<ContextStrategy> kContextStrategies[] = {
    {ContextStrategy::kAuto, "auto"},
    {ContextStrategy::kRing, "ring"},
    {ContextStrategy::kAllGather, "all_gather"},
    {ContextStrategy::kUlysses, "ulysses"},
    {ContextStrategy::kUsp, "usp"},
};

// How the keys of a ring come to other devices' queries.
enum class RingTransport { kAuto, kCollective, kMemory };
inline constexpr Named<RingTransport> kRingTransports[] = {
    {RingTransport::kAuto, "auto"},  // memory where devices share one
    {RingTransport::kCollective, "collective"},
    {RingTransport::kMemory, "memory"},
};

// Which layout context_parallel_load_balance asks for.
enum class ReorderStrategy { kAuto, kDualChunkSwap, kStriped };
inline constexpr Named<ReorderStrategy> kReorderStrategies[] = {
    {ReorderStrategy::kAuto, "auto"},  // dual_chunk_swap
    {ReorderStrategy::kDualChunkSwap, "dual_chunk_swap"},
    {ReorderStrategy::kStriped, "striped"},
};

// Which dimension of an operand is the minor one inside a TPU kernel.
enum class OperandLayout { kHeadDimMinor, kSeqMinor };
inline constexpr Named<OperandLayout> kOperandLayouts[] = {
    {OperandLayout::kHeadDimMinor, "HEAD_DIM_MINOR"},
    {OperandLayout::kSeqMinor, "SEQ_MINOR"},
};

struct AttentionOptions {
  AttentionKind attention = AttentionKind::kAutoselected;
  bool use_tokamax_splash = false;
  // The largest logit of every layer goes into the metrics.
  bool record_max_logits = false;
  ContextStrategy context_parallel_strategy = ContextStrategy::kAuto;
  bool context_parallel_load_balance = true;
  ReorderStrategy context_parallel_reorder_strategy = ReorderStrategy::kAuto;
  std::string context_sharding = "context";
  // Ring steps a pass of the ring's loop holds; 0: all of them, no loop; -1:
  // one, where a loop is possible.
  std::int64_t ring_scan_unroll = -1;
  RingTransport ring_transport = RingTransport::kAuto;

  // Block sizes of splash attention, in tokens: forward, the kernel of dK and
  // dV, the kernel of dQ.
  std::int64_t sa_block_q = 512;
  std::int64_t sa_block_kv = 512;
  std::int64_t sa_block_kv_compute = 512;
  std::int64_t sa_block_q_dkv = 512;
  std::int64_t sa_block_kv_dkv = 512;
  std::int64_t sa_block_kv_dkv_compute = 512;
  std::int64_t sa_block_q_dq = 512;
  std::int64_t sa_block_kv_dq = 512;
  OperandLayout sa_q_layout = OperandLayout::kHeadDimMinor;
  OperandLayout sa_k_layout = OperandLayout::kHeadDimMinor;
  OperandLayout sa_v_layout = OperandLayout::kHeadDimMinor;
  // A bound of the logits that stands in for each row's maximum; -1: none.
  std::int64_t use_max_logit_estimate = -1;
  std::int64_t dq_reduction_steps = 0;
};

void declare_options(OptionSet& set, AttentionOptions& options);

// How the sequence is spread over a mesh, with every choice made: what data,
// model and reports agree on.
struct ContextPlan {
  ContextStrategy strategy = ContextStrategy::kRing;
  LayoutKind layout = LayoutKind::kContiguous;
  std::string kernel;  // "" while attention is not planned
  // For the log: one line of what is done, why each other strategy was not
  // taken, and what a user should know.
  std::string summary;
  std::vector<std::string> refused;
  std::vector<std::string> notes;
};

// Devices that share a sequence: the shards of its layout.
std::int64_t sequence_shards(const mesh::Mesh& mesh);

}  // namespace ringmax::attention

#endif  // RINGMAX_ATTENTION_OPTIONS_H_
