// What `ringmax compile` says about a program: one value, as JSON for scripts
// and as text for a terminal.
#ifndef RINGMAX_ANALYSIS_COMPILE_REPORT_H_
#define RINGMAX_ANALYSIS_COMPILE_REPORT_H_

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "ringmax/analysis/hlo_collectives.h"
#include "ringmax/analysis/kernel_cycles.h"
#include "ringmax/analysis/step_estimate.h"
#include "ringmax/hw/target.h"

namespace ringmax::analysis {

// Bytes of one device.
struct HbmUse {
  std::int64_t arguments = 0;
  std::int64_t outputs = 0;
  std::int64_t aliased = 0;
  std::int64_t temporaries = 0;
  std::int64_t code = 0;
  std::int64_t peak = 0;
  std::int64_t available = 0;
};

// What the caller knows; FLOPs are those of all devices together.
struct CompileFacts {
  std::string topology;  // as the user named it
  hw::Target target;
  Places places;
  std::string mesh;
  std::string strategy;
  std::string layout;
  std::string attention;  // what is done, in a line; may be empty
  double build_s = 0;
  double compile_s = 0;
  std::int64_t program_bytes = 0;
  HbmUse hbm;
  double model_flops = 0;
  double attention_flops = 0;
  std::int64_t tokens = 0;  // a step
  // Kernels count the pairs of the busiest device; the mean one has this part.
  double kernel_balance = 1;
  // Of the estimate; utilisation by `measured` is added to it.
  EstimateSettings estimate;
  // Of one layer's attention, where static cycles were asked for.
  std::vector<MeasuredKernel> measured;
};

struct CompileReport {
  CompileFacts facts;
  std::vector<CollectiveRow> collectives;
  std::vector<Rotation> rotations;
  std::vector<KernelRow> kernels;
  double executed_flops = 0;  // products and kernels, all devices
  StepEstimate estimate;
  double estimated_mfu = 0;

  std::size_t hidden_rotations() const;
};

// `optimized` is the plugin's bytes of the program.
CompileReport make_compile_report(const CompileFacts& facts,
                                  std::string_view optimized);

nlohmann::json to_json(const CompileReport& report);
nlohmann::json to_json(const HbmUse& hbm);
std::string to_text(const CompileReport& report);

}  // namespace ringmax::analysis

#endif  // RINGMAX_ANALYSIS_COMPILE_REPORT_H_
