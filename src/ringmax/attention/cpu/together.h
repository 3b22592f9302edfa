// Attention of all devices of a ring in one call of the kernel: for virtual
// devices, which are threads of one process. Each brings its shards, the rows
// are put in the order of their positions, the kernel runs once over the whole
// sequence, and each takes what is its own.
//
// The result does not depend on the layout, on the number of devices or on who
// computes, bit for bit: it is that of one device. Memory: the whole sequence's
// arrays twice, once as brought and once in order, for all devices together.
#ifndef RINGMAX_ATTENTION_CPU_TOGETHER_H_
#define RINGMAX_ATTENTION_CPU_TOGETHER_H_

#include <hwy/aligned_allocator.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "ringmax/attention/cpu/kernel.h"

namespace ringmax::attention::cpu {

// What a device brings: copies of its operands. `problem` and `gradient` point
// into them, rows of a head side by side; a tile has the keys of all parts, in
// the order of the parts.
class Part {
 public:
  // `parts` devices come; `gradient` is null in the forward pass, of which only
  // dout, lse and delta are read.
  Part(const Problem& problem, std::int64_t parts,
       const BackwardInputs* gradient);
  Part(const Part&) = delete;
  Part& operator=(const Part&) = delete;

  const Problem& problem() const { return problem_; }
  bool has_gradient() const { return has_gradient_; }
  const BackwardInputs& gradient() const { return gradient_; }

 private:
  Problem problem_;
  BackwardInputs gradient_;
  bool has_gradient_;
  std::vector<hwy::AlignedFreeUniquePtr<std::byte[]>> memory_;
};

using Parts = std::vector<std::shared_ptr<const Part>>;

// Slots of the whole in the order of their positions, padding last: runs of
// slots that are neighbours in a part as well.
struct Run {
  std::int64_t part, slot, whole, count;
};
std::vector<Run> in_order(const std::vector<const std::int32_t*>& positions,
                          std::int64_t slots);

class Together {
 public:
  // Throws kInvalidArgument unless all parts are of one problem.
  explicit Together(Parts parts);

  // Once, on one thread that all of `workers` serve.
  void forward(const Workers& workers);
  void backward(const Workers& workers);
  // Then the part's own rows, any number of threads at once. dq, dk and dv are
  // written, not added to.
  void take(std::int64_t part, const ForwardResult& result) const;
  void take(std::int64_t part, const FloatRows& dq, const FloatRows& dk,
            const FloatRows& dv) const;

  const Part& part(std::int64_t i) const;
  std::int64_t parts() const { return std::ssize(parts_); }

 private:
  struct Whole;
  Parts parts_;
  std::shared_ptr<Whole> whole_;
};

}  // namespace ringmax::attention::cpu

#endif  // RINGMAX_ATTENTION_CPU_TOGETHER_H_
