// How often a kernel's walk does what, counted on the host: for reports, cost
// estimates and tests. The program itself never needs it (block_list.h).
#ifndef RINGMAX_ATTENTION_SPLASH_WALK_COUNTS_H_
#define RINGMAX_ATTENTION_SPLASH_WALK_COUNTS_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "ringmax/attention/gate.h"
#include "ringmax/attention/mask.h"
#include "ringmax/attention/splash/kernel_spec.h"

namespace ringmax::attention::splash {

// Of the block list of one query head, or sums of such.
struct WalkCounts {
  double rows = 0;   // query blocks
  double steps = 0;  // entries of the list
  double full = 0;   // key blocks by kind
  double partial = 0;
  double triangular = 0;
  double pairs = 0;  // visible

  void add(const WalkCounts& other, double times);
};

// The list that block_list() makes of these slots: positions in a shard's order
// without padding to blocks, -1 for padding. The mask holds no dense part;
// segments are not known here.
WalkCounts count_walk(const KernelSpec& spec, const Mask& mask,
                      std::span<const std::int64_t> q_positions,
                      std::span<const std::int64_t> kv_positions);

// What a kernel does in one pass over the attention of a layer, all devices
// along the sequence together.
struct KernelWork {
  std::string kernel;  // its name in the program
  bool backward = false;
  KernelSpec spec;
  double calls = 0;
  double programs = 0;  // steps of the parallel grid, all calls
  WalkCounts counts;    // of all programs
  double flops = 0;     // of the visible pairs: 4 D each, 10 D backward
};

// Forward and backward; empty where a dense mask decides.
std::vector<KernelWork> kernel_work(const AttendPlan& plan);

}  // namespace ringmax::attention::splash

#endif  // RINGMAX_ATTENTION_SPLASH_WALK_COUNTS_H_
