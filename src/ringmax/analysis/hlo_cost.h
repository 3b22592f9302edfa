// Counting over a decoded program: how often each computation runs in one
// execution, and what its matrix products cost.
#ifndef RINGMAX_ANALYSIS_HLO_COST_H_
#define RINGMAX_ANALYSIS_HLO_COST_H_

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "ringmax/analysis/hlo.h"

namespace ringmax::analysis {

class HloCounts {
 public:
  // `module` must outlive this.
  explicit HloCounts(const HloModule& module);

  // How often a computation runs on one device; 0 when nothing calls it. The
  // bodies of fusions and reductions count with their callers.
  double executions(std::int64_t computation) const;
  // Passes of a while loop: from its start, step and bound, where those are
  // constants, also ones that outer loops carry along. Nothing otherwise.
  std::optional<std::int64_t> trip_count(const HloComputation& where,
                                         const HloInstruction& loop) const;
  // Loops whose passes are known at run time only; they count once.
  const std::vector<std::string>& unknown_loops() const { return unknown_; }

  // Two for each multiply-add of the products in one run of an instruction,
  // those of a fusion included; kernels and loops are not.
  double matmul_flops(const HloComputation& where,
                      const HloInstruction& instruction) const;
  // All products of one execution of the program on one device; without
  // kernels.
  double matmul_flops() const;

 private:
  struct Caller {
    std::int64_t computation;
    std::int64_t instruction;
  };
  std::optional<std::int64_t> constant(const HloComputation& where,
                                       const HloInstruction& value,
                                       int depth) const;
  std::optional<std::int64_t> element(const HloComputation& where,
                                      const HloInstruction& tuple,
                                      std::int64_t index, int depth) const;
  void count(std::int64_t computation, double times);

  const HloModule& module_;
  std::unordered_map<std::int64_t, Caller> callers_;
  std::unordered_map<std::int64_t, double> executions_;
  std::vector<std::string> unknown_;
};

}  // namespace ringmax::analysis

#endif  // RINGMAX_ANALYSIS_HLO_COST_H_
