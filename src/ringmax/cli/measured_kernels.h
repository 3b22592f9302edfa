// Static cycles of a plan's splash kernels: each compiled by itself, with the
// sizes and blocks that it has in the program.
#ifndef RINGMAX_CLI_MEASURED_KERNELS_H_
#define RINGMAX_CLI_MEASURED_KERNELS_H_

#include <string>
#include <vector>

#include "ringmax/analysis/kernel_cycles.h"
#include "ringmax/attention/gate.h"
#include "ringmax/pjrt/topology.h"

namespace ringmax::cli {

// `llo_directory` is what pjrt::load_tpu_compiler() was given: empty before,
// and after. Nothing for a plan whose kernel is another.
std::vector<analysis::MeasuredKernel> measured_kernels(
    const attention::AttendPlan& plan, const pjrt::Topology& topology,
    const std::string& llo_directory);

}  // namespace ringmax::cli

#endif  // RINGMAX_CLI_MEASURED_KERNELS_H_
