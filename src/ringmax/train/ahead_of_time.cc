#include "ringmax/train/ahead_of_time.h"

#include <algorithm>
#include <chrono>
#include <utility>
#include <variant>

#include "ringmax/base/error.h"
#include "ringmax/graph/print.h"
#include "ringmax/pjrt/device_grid.h"
#include "ringmax/pjrt/plugin.h"
#include "ringmax/train/compile_options.h"
#include "ringmax/train/setup.h"
#include "ringmax/train/step.h"

namespace ringmax::train {

namespace {

// Dims that no slice has are the plugin's to refuse.
pjrt::Topology slice_of(const pjrt::Plugin& compiler,
                        const std::string& compile_topology,
                        const std::string& name) {
  try {
    return pjrt::Topology::create(compiler, name);
  } catch (const Error& error) {
    if (error.message().find("INVALID_ARGUMENT") == std::string::npos) throw;
    fail_invalid("compile_topology={}: the TPU compiler has no such slice: {}",
                 compile_topology, error.message());
  }
}

}  // namespace

Machine tpu_machine(const pjrt::RuntimeOptions& runtime,
                    const std::string& llo_directory) {
  const std::string& compile_topology = runtime.compile_topology;
  hw::Target target = hw::tpu_target(compile_topology);
  pjrt::Topology topology =
      slice_of(pjrt::load_tpu_compiler(runtime.pjrt_plugin, llo_directory),
               compile_topology, target.topology_name);
  const auto devices = static_cast<std::int64_t>(topology.devices().size());
  if (devices != target.devices()) {
    fail_invalid(
        "compile_topology={}: it should have {} devices, and the plugin's {} "
        "has {}",
        compile_topology, target.devices(), target.topology_name, devices);
  }
  // The compiler's own limit, to the byte.
  const pjrt::NamedValues attributes = topology.attributes();
  const auto limit = attributes.find("device_memory_bytes_limit");
  if (limit != attributes.end()) {
    if (const auto* bytes = std::get_if<std::int64_t>(&limit->second)) {
      target.hbm_bytes = *bytes;
    }
  }
  return {std::move(target), std::move(topology)};
}

std::vector<std::int64_t> places_of(const Machine& machine,
                                    const std::vector<std::int64_t>& devices) {
  const auto grid = pjrt::device_grid(machine.topology.devices(),
                                      machine.topology.attributes());
  std::vector<std::int64_t> places;
  if (!grid) return places;
  for (const std::int64_t device : devices) {
    const auto found = std::find(grid->ids.begin(), grid->ids.end(), device);
    if (found == grid->ids.end()) return {};
    places.push_back(found - grid->ids.begin());
  }
  return places;
}

StepText step_text(const config::Config& config, const Machine& machine) {
  const auto start = std::chrono::steady_clock::now();
  StepText text;
  text.stablehlo = graph::print_stablehlo(
      *step_program(step_settings(config, machine.target)));
  text.assignment =
      device_assignment(machine.topology.devices(), config.device_mesh,
                        machine.topology.attributes());
  text.options = compile_options(config, machine.target.platform);
  text.options.device_assignment = text.assignment.ids;
  text.build_s =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start)
          .count();
  return text;
}

}  // namespace ringmax::train
