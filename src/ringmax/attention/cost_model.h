// What attention over a context axis costs under each strategy, before any
// program exists: the choice behind strategy=auto and automatic block sizes.
//
// The model counts blocks, bytes and links, and divides by the target's
// figures:
//   compute    active blocks of the busiest device, each of block_q x block_kv
//              pairs at a fixed share of the peak, plus a start-up time a block
//   transfers  bytes times hops over the links a device has along its axis;
//              what a ring sends hides behind the step it is issued before, and
//              a device waits when its keys have not come; all-gathers and
//              all-to-alls hide behind nothing
//   memory     keys, values, their copies on the way and what gathers leave,
//              on one device; not the model around it
// The figures say which way is better and by how much, not how many
// milliseconds a run takes.
#ifndef RINGMAX_ATTENTION_COST_MODEL_H_
#define RINGMAX_ATTENTION_COST_MODEL_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ringmax/attention/layout.h"
#include "ringmax/attention/mask.h"
#include "ringmax/attention/mask_info.h"
#include "ringmax/attention/strategy.h"
#include "ringmax/base/dtype.h"
#include "ringmax/hw/target.h"
#include "ringmax/mesh/mesh.h"

namespace ringmax::attention {

// One attention op of one context group: batch and heads are what is left of
// them for the group after data and tensor axes.
struct CostCase {
  Mask mask = Mask::causal();
  LayoutKind layout = LayoutKind::kContiguous;
  std::int64_t batch = 1;
  std::int64_t queries = 1;  // tokens of the whole sequence
  std::int64_t keys = 1;
  std::int64_t query_heads = 1;
  std::int64_t kv_heads = 1;
  std::int64_t head_dim = 128;
  std::int64_t value_dim = 128;
  DType dtype = DType::kBF16;
  // Devices that share the sequence, and how many of them form a Ulysses group
  // (a factor of it; 1: there is no such axis).
  std::int64_t devices = 1;
  std::int64_t ulysses = 1;
  bool bidirectional = false;
  bool backward = true;  // a training step, not the forward pass alone
  BlockSizes blocks;
  // Links between neighbours of the ring (mesh::ring_hops); at least 1.
  double neighbour_links = 1;
};

struct StrategyEstimate {
  Strategy strategy = Strategy::kSingle;
  // Why it cannot be had; empty when it can, and the rest is filled.
  std::string refusal;
  double compute_s = 0;
  double transfer_s = 0;  // hidden or not
  double total_s = 0;     // with waiting, and transfers that nothing hides
  std::int64_t sent_bytes = 0;    // by the device that sends most
  std::int64_t memory_bytes = 0;  // on one device
  bool fits = true;  // memory_bytes within the target's, where that is known

  // "24.05 ms: compute 21.05 ms, ..."; the reason when there is one.
  std::string to_string() const;
};

struct StrategyChoice {
  Strategy strategy = Strategy::kSingle;
  std::vector<StrategyEstimate> estimates;  // of all but auto

  const StrategyEstimate& chosen() const;
  // One line a strategy: estimate or reason, the choice marked.
  std::string to_string() const;
};

// For CostCase: links from a device to the next along a mesh axis in the order
// that the mesh takes on the target's topology, where both have as many
// devices; 1 otherwise.
double neighbour_links(const hw::Target& target, const mesh::Mesh& mesh,
                       std::string_view axis);

// Why halves of every device's keys cannot travel both ways round (setting
// bidirectional): nothing goes round, or they cannot be halved; "" when they
// can. `key_slots` are all devices'.
std::string bidirectional_refusal(Strategy strategy, std::int64_t key_slots,
                                  std::int64_t ring_size);

// `strategy` is not kAuto.
StrategyEstimate estimate_strategy(Strategy strategy, const CostCase& c,
                                   const hw::Target& target);

// The fastest that fits; the smallest when none fits. None of them is refused,
// and there is at least one.
const StrategyEstimate& cheapest(
    const std::vector<StrategyEstimate>& estimates);

// Estimates all and takes the cheapest. Throws kInvalidArgument when all are
// refused.
StrategyChoice choose_strategy(const CostCase& c, const hw::Target& target);

// Block lengths with the least estimated time whose operands fit the target's
// VMEM (a CPU's second-level cache): powers of two from 128 to 2,048, not
// longer than a shard needs. `c.blocks` is not read.
BlockSizes choose_blocks(const CostCase& c, const hw::Target& target);

}  // namespace ringmax::attention

#endif  // RINGMAX_ATTENTION_COST_MODEL_H_
