#include "ringmax/train/compile_options.h"

#include <sstream>
#include <string>

namespace ringmax::train {

pjrt::CompileOptions compile_options(const config::Config& config,
                                     std::string_view platform) {
  pjrt::CompileOptions options;
  options.num_partitions = config.device_count;
  if (platform == "cpu") {
    // Eigen's contractions are the faster ones on the CPU.
    options.overrides["xla_cpu_experimental_ynn_fusion_type"] = std::string();
  } else if (platform == "tpu") {
    // Without it the scheduler puts no ring send across a kernel.
    options.overrides["xla_tpu_use_aggressive_scheduling"] = true;
    // Gradients of weights, which are permutations too, may not keep the ring's
    // sends waiting: the compiler's own limit is 5 at a time.
    options.overrides["xla_max_concurrent_async_collective_permutes"] =
        std::int64_t{16};
  }
  std::istringstream flags(config.runtime.compile_xla_flags);
  for (std::string word; flags >> word;) {
    // "--flag=value": the settings were validated.
    const std::size_t equals = word.find('=');
    const std::string value = word.substr(equals + 1);
    auto& option = options.overrides[word.substr(2, equals - 2)];
    // XLA reads booleans as text only when they are spelled True and False.
    if (value == "true" || value == "false") {
      option = value == "true";
    } else {
      option = value;
    }
  }
  return options;
}

void blame_flags(const config::Config& config, const Error& error) {
  if (error.message().find("No such compile option") == std::string::npos) {
    return;
  }
  fail_invalid("compile_xla_flags=\"{}\": {}", config.runtime.compile_xla_flags,
               error.message());
}

}  // namespace ringmax::train
