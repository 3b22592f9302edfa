// A splash kernel's static schedule, from what libtpu dumps of it: the cycles
// of its pieces, and with how often each runs (attention/splash/walk_counts.h)
// its useful utilisation.
//
// Two files tell a schedule: "...-pre-delay_hlo-static-per-bundle-utilization"
// has a row for each issue cycle, before delays are folded, and "...-post-
// bundle-packing-post-ra" says which of them are in which loop and branch.
// Cycles are static: windows are taken to arrive in time.
#ifndef RINGMAX_ANALYSIS_KERNEL_CYCLES_H_
#define RINGMAX_ANALYSIS_KERNEL_CYCLES_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "ringmax/attention/splash/walk_counts.h"
#include "ringmax/hw/target.h"

namespace ringmax::analysis {

// Cycles of one run of each piece of code, without the pieces in it.
struct KernelPieces {
  std::int64_t call = 0;     // around the grid
  std::int64_t program = 0;  // where a step of the parallel grid begins
  std::int64_t row = 0;      // where a row of query blocks begins and ends
  std::int64_t step = 0;     // windows, scalars, and the loop over key blocks
  // Blocks, all passes of the loops in them.
  std::int64_t full = 0;
  std::int64_t partial = 0;
  std::int64_t triangular = 0;
};

struct KernelCycles {
  std::int64_t code = 0;    // issue cycles of one pass over all of it
  std::int64_t spills = 0;  // registers stored
  std::int64_t fills = 0;   // and loaded again
  // Nothing when the code has not the form that this kernel should have.
  std::optional<KernelPieces> pieces;
};

struct MeasuredKernel {
  attention::splash::KernelWork work;
  KernelCycles cycles;
};

// `utilization` and `regions` are the texts of the two files. Throws
// kInvalidArgument when the former is something else.
KernelCycles parse_kernel_cycles(std::string_view utilization,
                                 std::string_view regions,
                                 const attention::splash::KernelSpec& spec);

// Of an instruction, from the folder that libtpu dumped into; nothing when
// there are no such files.
std::optional<KernelCycles> find_kernel_cycles(
    const std::string& directory, const std::string& instruction,
    const attention::splash::KernelSpec& spec);

// Of all calls, one core doing all of the work.
double cycles_of(const KernelPieces& pieces,
                 const attention::splash::KernelWork& work);

// FLOPs of the visible pairs over those that the device could do in these
// cycles, its cores sharing the programs.
double useful_utilisation(const KernelPieces& pieces,
                          const attention::splash::KernelWork& work,
                          const hw::Target& target);

}  // namespace ringmax::analysis

#endif  // RINGMAX_ANALYSIS_KERNEL_CYCLES_H_
