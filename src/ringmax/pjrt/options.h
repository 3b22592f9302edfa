// Settings of the machine side: which plugin, how many devices, how programs
// are compiled and where compiled ones are kept.
#ifndef RINGMAX_PJRT_OPTIONS_H_
#define RINGMAX_PJRT_OPTIONS_H_

#include <cstdint>
#include <string>

#include "ringmax/base/option.h"
#include "ringmax/base/problems.h"

namespace ringmax::pjrt {

enum class Hardware { kAuto, kCpu, kTpu, kGpu };
inline constexpr Named<Hardware> kHardwareNames[] = {
    {Hardware::kAuto, "auto"},
    {Hardware::kCpu, "cpu"},
    {Hardware::kTpu, "tpu"},
    {Hardware::kGpu, "gpu"},
};

struct RuntimeOptions {
  Hardware hardware = Hardware::kAuto;
  std::string pjrt_plugin;  // "": the one that set-up installed
  // Virtual devices of the CPU plugin; 0: as many as the mesh asks for.
  std::int64_t cpu_device_count = 0;
  // What `ringmax compile` compiles for: "v5p-16" as MaxText names slices, or
  // a plugin's own name ("v5p:2x2x2"). Other commands do not look at it.
  std::string compile_topology;
  std::int64_t compile_topology_num_slices = -1;  // -1: 1
  std::string compile_xla_flags;                  // "--flag=value --flag=value"
  std::string executable_cache_dir;  // "": the user's cache directory
};

void declare_options(OptionSet& set, RuntimeOptions& options);
void validate(const RuntimeOptions& options, Problems& problems);

}  // namespace ringmax::pjrt

#endif  // RINGMAX_PJRT_OPTIONS_H_
