// For tests: a case through the native kernel, forward and backward, as a ring
// would do it: shards of positions, partial results merged by log-sum-exp.
#ifndef RINGMAX_ATTENTION_CPU_TESTING_RUN_KERNEL_H_
#define RINGMAX_ATTENTION_CPU_TESTING_RUN_KERNEL_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "ringmax/attention/cpu/workers.h"
#include "ringmax/attention/layout.h"
#include "ringmax/attention/mask.h"
#include "ringmax/attention/reference.h"
#include "ringmax/base/dtype.h"

namespace ringmax::attention::cpu::testing {

struct KernelSettings {
  DType dtype = DType::kF32;
  std::int64_t ring_size = 1;
  LayoutKind layout = LayoutKind::kContiguous;
  std::int64_t block_q = 0, block_kv = 0;
  std::vector<std::uint8_t> tile;  // [S, T] or empty; ring_size 1 only
  Workers workers;
};

// Tensors in the original token order. Inputs are rounded to the dtype.
ReferenceOutputs run_kernel(const Mask& mask, const ReferenceInputs& inputs,
                            const KernelSettings& settings);

// The instruction sets of this machine, best first, and a scope in which the
// kernel uses one of them.
struct InstructionSet {
  std::int64_t target;  // Highway's
  bool bf16_dots;
  std::string name() const;  // as instruction_set() says it
};
std::vector<InstructionSet> instruction_sets();
class UseInstructionSet {
 public:
  explicit UseInstructionSet(const InstructionSet& set);
  ~UseInstructionSet();
  UseInstructionSet(const UseInstructionSet&) = delete;
  UseInstructionSet& operator=(const UseInstructionSet&) = delete;
};

}  // namespace ringmax::attention::cpu::testing

#endif  // RINGMAX_ATTENTION_CPU_TESTING_RUN_KERNEL_H_
