// The training step compiled for a machine that is not here.
#ifndef RINGMAX_TRAIN_AHEAD_OF_TIME_H_
#define RINGMAX_TRAIN_AHEAD_OF_TIME_H_

#include <cstdint>
#include <string>
#include <vector>

#include "ringmax/config/config.h"
#include "ringmax/hw/target.h"
#include "ringmax/pjrt/topology.h"
#include "ringmax/train/device_assignment.h"

namespace ringmax::train {

// A target with the plugin's description of it. Throws kInvalidArgument when
// the plugin sees another number of devices than the target has.
struct Machine {
  hw::Target target;
  pjrt::Topology topology;
};
// compile_topology and pjrt_plugin of `runtime`; for `llo_directory` see
// pjrt::load_tpu_compiler().
Machine tpu_machine(const pjrt::RuntimeOptions& runtime,
                    const std::string& llo_directory = "");

// Places in the machine's topology of partitions that run on these devices, as
// a program of someone else's says; empty when it names others.
std::vector<std::int64_t> places_of(const Machine& machine,
                                    const std::vector<std::int64_t>& devices);

struct StepText {
  std::string stablehlo;
  pjrt::CompileOptions options;
  DeviceAssignment assignment;
  double build_s = 0;  // from settings to text
};
StepText step_text(const config::Config& config, const Machine& machine);

}  // namespace ringmax::train

#endif  // RINGMAX_TRAIN_AHEAD_OF_TIME_H_
