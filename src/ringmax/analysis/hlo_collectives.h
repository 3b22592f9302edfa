// The communication in a decoded program: collectives with their bytes and
// links, the ring's sends and what they hide behind, and kernels.
#ifndef RINGMAX_ANALYSIS_HLO_COLLECTIVES_H_
#define RINGMAX_ANALYSIS_HLO_COLLECTIVES_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ringmax/analysis/hlo.h"
#include "ringmax/analysis/hlo_cost.h"
#include "ringmax/hw/target.h"

namespace ringmax::analysis {

// Where the program's partitions stand: place (in the topology's own order of
// devices) of each. Empty: not known.
using Places = std::vector<std::int64_t>;

// "all_gather" for all-gather and all-gather-start, and so on; nothing for
// what is no collective or only the end of one. An async-start is what it
// wraps.
std::optional<std::string> collective_kind(const HloModule& module,
                                           const HloInstruction& instruction);
// What one device takes part with in one run: the result's bytes of an
// all-gather, the operands' bytes of the others.
std::int64_t collective_bytes(const HloModule& module,
                              const HloComputation& where,
                              const HloInstruction& instruction);
// Most links that a pair of a permutation crosses; 0 when places are unknown.
struct Hops {
  std::int64_t max = 0;
  double mean = 0;
};
Hops permute_hops(const HloInstruction& instruction,
                  const hw::Topology& topology, const Places& places);

struct CollectiveRow {
  std::string kind;
  std::int64_t instructions = 0;
  double count = 0;  // runs a step on one device
  double bytes = 0;  // a step on one device
  Hops hops;         // of permutations
};
std::vector<CollectiveRow> collectives(const HloModule& module,
                                       const HloCounts& counts,
                                       const hw::Topology& topology,
                                       const Places& places);

// A send of the ring: a permutation, or the start of one, with `ring_send` in
// its op_name.
bool is_ring_send(const HloInstruction& instruction);

struct Rotation {
  std::string where;  // op_name, without what ends in ring_send
  std::string computation;
  double times = 0;  // runs a step
  std::int64_t bytes = 0;
  Hops hops;
  // A kernel that runs while it is on its way; nothing when none does.
  std::optional<std::string> hidden_behind;
};
std::vector<Rotation> rotations(const HloModule& module,
                                const HloCounts& counts,
                                const hw::Topology& topology,
                                const Places& places);

// Name of a Mosaic kernel (tpu_custom_call), or, where attention is made of
// plain operations, of a loop of it; nothing for anything else.
std::optional<std::string> kernel_name(const HloInstruction& instruction);

struct KernelRow {
  std::string name;
  double calls = 0;  // a step
  // Of one call, as its cost estimate says; 0 without one.
  double flops = 0;
  double bytes = 0;
  std::vector<std::string> instructions;
};
// Mosaic kernels only, by name.
std::vector<KernelRow> kernels(const HloModule& module,
                               const HloCounts& counts);
KernelRow kernel_cost(const HloInstruction& call);

}  // namespace ringmax::analysis

#endif  // RINGMAX_ANALYSIS_HLO_COLLECTIVES_H_
