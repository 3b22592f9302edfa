#include "ringmax/cli/measured_kernels.h"

#include <filesystem>

#include "ringmax/attention/backend.h"
#include "ringmax/attention/splash/kernel_alone.h"
#include "ringmax/base/file.h"
#include "ringmax/base/log.h"
#include "ringmax/pjrt/plugin.h"

namespace ringmax::cli {

std::vector<analysis::MeasuredKernel> measured_kernels(
    const attention::AttendPlan& plan, const pjrt::Topology& topology,
    const std::string& llo_directory) {
  std::vector<analysis::MeasuredKernel> measured;
  if (plan.backend == nullptr || plan.backend->name() != "mosaic") {
    return measured;
  }
  for (const attention::splash::KernelWork& work :
       attention::splash::kernel_work(plan)) {
    topology.compile(attention::splash::kernel_alone(work.spec, work.backward),
                     pjrt::CompileOptions());
    const auto cycles = analysis::find_kernel_cycles(
        llo_directory, std::string(pjrt::kDumpedInstruction), work.spec);
    for (const std::string& path : list_files(llo_directory)) {
      std::filesystem::remove(path);
    }
    if (cycles) {
      measured.push_back({work, *cycles});
    } else {
      log_warning("kernel_cycles=true: the compiler showed no schedule of {}",
                  work.kernel);
    }
  }
  return measured;
}

}  // namespace ringmax::cli
