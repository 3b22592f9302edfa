// A kernel's static schedule, from libtpu's per-bundle utilization files: how
// many cycles its code has, and how many of them feed the matrix units.
//
// Rows are issue cycles of one pass over all of the kernel's code. A kernel has
// one stretch of matrix work for each kind of block, of which a grid step runs
// one; what lies between them is the overhead of every step. So the figures
// are those of a step on a full block.
#ifndef RINGMAX_ANALYSIS_KERNEL_CYCLES_H_
#define RINGMAX_ANALYSIS_KERNEL_CYCLES_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ringmax::analysis {

struct MatrixStretch {
  std::int64_t cycles = 0;
  double busy = 0;  // part of the matrix units' slots that are filled
};

struct KernelCycles {
  std::int64_t cycles = 0;    // of all code
  std::int64_t overhead = 0;  // outside of matrix stretches
  std::vector<MatrixStretch> stretches;
  std::int64_t spills = 0;  // registers stored
  std::int64_t fills = 0;   // and loaded again

  // Filled slots of the stretch with the most work, over its cycles and the
  // overhead of a step. 0 without matrix work.
  double utilisation() const;
};

// The text of a "*-static-per-bundle-utilization.txt". Throws kInvalidArgument
// when it is something else.
KernelCycles parse_kernel_cycles(std::string_view text);

// Of an instruction, from the folder that libtpu dumped into; nothing when
// there is no such file.
std::optional<KernelCycles> find_kernel_cycles(const std::string& directory,
                                               const std::string& instruction);

}  // namespace ringmax::analysis

#endif  // RINGMAX_ANALYSIS_KERNEL_CYCLES_H_
