// An estimate of a program's time on a machine that is not here: the schedule
// is walked instruction by instruction; collectives are on their way while the
// instructions between their start and their end run.
//
// Every figure it rests on is named in `assumptions`. It knows neither skew
// between devices nor the contention of unlike collectives for one link.
#ifndef RINGMAX_ANALYSIS_STEP_ESTIMATE_H_
#define RINGMAX_ANALYSIS_STEP_ESTIMATE_H_

#include <map>
#include <string>
#include <vector>

#include "ringmax/analysis/hlo.h"
#include "ringmax/analysis/hlo_collectives.h"
#include "ringmax/analysis/hlo_cost.h"
#include "ringmax/hw/target.h"

namespace ringmax::analysis {

struct EstimateSettings {
  // Share of the peak that a kernel's counted FLOPs reach where its cycles were
  // not measured.
  double kernel_utilisation = 0.75;
  bool kernel_utilisation_given = false;  // by the user; else assumed
  // By kernel name, where they were.
  std::map<std::string, double> measured_utilisation;
  // By kernel name, before what was measured: what somebody wants assumed,
  // such as the figures of other kernels.
  std::map<std::string, double> given_utilisation;
  // Whether the ring's sends travel behind what the schedule puts there; false:
  // each is waited for, as where a compiler hides none.
  bool hidden_sends = true;
};

struct StepEstimate {
  double seconds = 0;
  // The parts it is the sum of.
  double compute_s = 0;  // fusions, copies and the like
  double kernels_s = 0;
  double exposed_s = 0;  // waiting for collectives
  // What collectives would take one after the other, hidden or not.
  double collectives_s = 0;
  std::vector<std::string> assumptions;
};

StepEstimate estimate_step(const HloModule& module, const HloCounts& counts,
                           const hw::Target& target, const Places& places,
                           const EstimateSettings& settings = {});

}  // namespace ringmax::analysis

#endif  // RINGMAX_ANALYSIS_STEP_ESTIMATE_H_
