// For tests: executes the Mosaic text of a kernel, as a TPU would.
//
// It reads the text alone (mosaic_parser.h) and shares no code with what
// emitted it: a wrong index map, dimension number or constant in the printer
// gives wrong numbers here. Grid, windows and scratch behave as on a TPU:
// windows are copied in when their block changes and out when the walk leaves
// them; scratch, fresh output windows and unvisited outputs are NaN; parallel
// programs run in reverse order. What would be silently wrong on a TPU throws:
// a block revisited after the walk left it, an access outside of a ref, a
// broken promise of alignment.
#ifndef RINGMAX_KERNEL_TESTING_MOSAIC_INTERPRETER_H_
#define RINGMAX_KERNEL_TESTING_MOSAIC_INTERPRETER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "ringmax/base/array.h"
#include "ringmax/kernel/kernel.h"

namespace ringmax::kernel::testing {

// Row-major numbers: floats rounded to their type, integers and bools exact.
struct Numbers {
  std::vector<std::int64_t> dims;
  std::vector<double> data;
};

struct MosaicCall {
  std::string text;
  std::int64_t walk_length = -1;  // of a dynamic walk
  std::vector<Numbers> prefetch;
  std::vector<Numbers> inputs;
  // Dims of each output, and the input whose buffer it takes over, or -1.
  std::vector<std::vector<std::int64_t>> output_dims;
  std::vector<int> aliases;
};

std::vector<Numbers> run_mosaic(const MosaicCall& call);

// A kernel's text with what a call needs to know of its operands; independent
// of the kernel object once made.
class MosaicProgram {
 public:
  explicit MosaicProgram(const Kernel& kernel);
  // Operands as for kernel::call().
  std::vector<HostArray> run(const std::vector<HostArray>& operands) const;

 private:
  MosaicCall call_;
  bool dynamic_ = false;
  std::size_t prefetched_ = 0;
  std::vector<DType> output_dtypes_;
};

}  // namespace ringmax::kernel::testing

#endif  // RINGMAX_KERNEL_TESTING_MOSAIC_INTERPRETER_H_
