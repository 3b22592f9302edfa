// What the calls of attention kernels read of their operands and attributes.
#ifndef RINGMAX_ATTENTION_CPU_FFI_OPERANDS_H_
#define RINGMAX_ATTENTION_CPU_FFI_OPERANDS_H_

#include <cstdint>
#include <vector>

#include "ringmax/attention/cpu/ffi.h"
#include "ringmax/attention/cpu/ffi_call.h"
#include "ringmax/attention/cpu/kernel.h"
#include "xla/ffi/api/ffi.h"

namespace ringmax::attention::cpu {

// The arrays of queries, or of keys, of a call: how they lie in memory.
struct Arrays {
  std::int64_t batch, heads, groups, rows;  // no groups: those of keys
  bool tokens_first;

  ConstRows at(const void* data, std::int64_t columns) const;
  FloatRows floats(void* data, std::int64_t columns) const;
  std::vector<std::int64_t> dims(std::int64_t columns) const;
};
Arrays query_arrays(const Problem& problem, bool tokens_first);
Arrays key_arrays(const Problem& problem, bool tokens_first);
// [B, K, G, S]
std::vector<std::int64_t> row_dims(const Problem& problem);

// Throws kInvalidArgument naming an attribute that is missing or wrong.
CallAttributes read_attributes(const xla::ffi::Dictionary& attributes);
// The operands that all calls begin with.
Problem read_problem(Buffers& buffers, const CallAttributes& attributes);
// dout, lse and delta, which follow them.
BackwardInputs read_gradient(Buffers& buffers, const Problem& problem,
                             const CallAttributes& attributes);

}  // namespace ringmax::attention::cpu

#endif  // RINGMAX_ATTENTION_CPU_FFI_OPERANDS_H_
