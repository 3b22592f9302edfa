// Arrays of a call with the rows of a head side by side. A kernel reads rows of
// keys, and adds to rows of gradients, again and again: where they lie a power
// of two apart they share few sets of the caches, so the pass is 5 to 10%
// slower than one that copies them first.
//
// Not for arrays that are read or written once: those stay where they are.
#ifndef RINGMAX_ATTENTION_CPU_CONTIGUOUS_H_
#define RINGMAX_ATTENTION_CPU_CONTIGUOUS_H_

#include <hwy/aligned_allocator.h>

#include <cstddef>
#include <cstdint>

#include "ringmax/attention/cpu/kernel.h"
#include "ringmax/attention/cpu/workers.h"

namespace ringmax::attention::cpu {

// Sizes of a [batch, head, row, column] array.
struct RowSizes {
  std::int64_t batches, heads, rows, columns;
};

// The array itself where rows are side by side, otherwise a copy.
class ContiguousRows {
 public:
  ContiguousRows(const ConstRows& from, const RowSizes& sizes,
                 std::size_t element_bytes, const Workers& workers);
  const ConstRows& rows() const { return rows_; }

 private:
  ConstRows rows_;
  hwy::AlignedFreeUniquePtr<std::byte[]> copy_;
};

// Where to add up what belongs into an array of the caller's: there where rows
// are side by side, otherwise in one that begins with zeros and that finish()
// brings home.
class ContiguousSums {
 public:
  // With `fresh` what the caller's array holds does not count.
  ContiguousSums(const FloatRows& to, const RowSizes& sizes, bool fresh,
                 const Workers& workers);
  const FloatRows& rows() const { return sums_; }
  void finish(const Workers& workers) const;

 private:
  const FloatRows to_;
  const RowSizes sizes_;
  const bool fresh_;
  FloatRows sums_;
  hwy::AlignedFreeUniquePtr<float[]> memory_;
};

}  // namespace ringmax::attention::cpu

#endif  // RINGMAX_ATTENTION_CPU_CONTIGUOUS_H_
