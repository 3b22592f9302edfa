// Words of `ringmax compile` that are no settings of the model: what to look
// for, and what to assume of the machine.
#ifndef RINGMAX_CLI_COMPILE_SWITCHES_H_
#define RINGMAX_CLI_COMPILE_SWITCHES_H_

#include <string>
#include <vector>

#include "ringmax/analysis/step_estimate.h"

namespace ringmax::cli {

struct CompileSwitches {
  bool find_max_length = false;
  bool kernel_cycles = false;
  // kernel_utilization=SHARE or NAME:SHARE,..., and hidden_sends=.
  analysis::EstimateSettings estimate;
};

// Takes them out of `settings`, wherever they stand; the last one wins. Throws
// kInvalidArgument for values that are none and for pairs that do not go
// together.
CompileSwitches take_switches(std::vector<std::string>& settings);

// What they are, for the command's help.
std::string describe_switches();

}  // namespace ringmax::cli

#endif  // RINGMAX_CLI_COMPILE_SWITCHES_H_
