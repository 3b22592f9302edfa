#include "ringmax/pjrt/options.h"

#include <filesystem>
#include <sstream>

namespace ringmax::pjrt {

void declare_options(OptionSet& set, RuntimeOptions& options) {
  set.section("Machine");
  set.choice(
      "hardware", &options.hardware, kHardwareNames,
      "platform to run on; auto is what pjrt_plugin is named for, else a "
      "TPU where the machine has one, else the CPU",
      {"gpu_multiprocess"});
  set.path("pjrt_plugin", &options.pjrt_plugin,
           "PJRT plugin to load; empty: the one that set-up installed");
  set.integer("cpu_device_count", &options.cpu_device_count,
              "virtual devices of the CPU plugin; 0: as many as the mesh asks",
              {.min = 0, .max = 4096});
  set.text(
      "compile_topology", &options.compile_topology,
      "slice that `ringmax compile` compiles for, by a name such as v5p-16");
  set.integer("compile_topology_num_slices",
              &options.compile_topology_num_slices, "how many of them; -1 is 1",
              {.min = -1, .max = 4096});
  set.text("compile_xla_flags", &options.compile_xla_flags,
           "compiler options of this run: \"--flag=value --flag=value\"");
  set.path("executable_cache_dir", &options.executable_cache_dir,
           "where compiled programs are kept; empty: the user's cache, off: "
           "nowhere");
}

void validate(const RuntimeOptions& options, Problems& problems) {
  if (!options.pjrt_plugin.empty()) {
    std::error_code error;
    if (!std::filesystem::is_regular_file(options.pjrt_plugin, error)) {
      problems.add(
          "pjrt_plugin={}: there is no such file; valid is the path of a PJRT "
          "plugin (.so), or nothing for the one that set-up installed",
          options.pjrt_plugin);
    }
  }
  if (options.compile_topology_num_slices != -1 &&
      options.compile_topology_num_slices != 1) {
    problems.add(
        "compile_topology_num_slices={}: several slices are not there yet; "
        "valid is 1",
        options.compile_topology_num_slices);
  }
  std::istringstream words(options.compile_xla_flags);
  for (std::string word; words >> word;) {
    const std::size_t equals = word.find('=');
    if (!word.starts_with("--") || equals == std::string::npos || equals == 2) {
      problems.add(
          "compile_xla_flags=\"{}\": cannot read '{}'; valid is "
          "\"--flag=value --flag=value\"",
          options.compile_xla_flags, word);
    }
  }
}

}  // namespace ringmax::pjrt
