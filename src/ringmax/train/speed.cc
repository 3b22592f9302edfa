#include "ringmax/train/speed.h"

#include <fmt/format.h>

#include <string_view>

#include "ringmax/model/cost.h"

namespace ringmax::train {
namespace {

// A layer adds about a tenth of a second to the compilation on two cores.
constexpr std::int64_t kMostLayersWrittenOut = 16;

bool asked(const config::Config& config, std::string_view name) {
  return config.setting(name).source.kind >= config::SourceKind::kFile;
}

}  // namespace

std::string choose_for_speed(config::Config& config,
                             std::int64_t memory_bytes) {
  if (config.platform == "tpu") return "";
  std::string said;
  model::ModelOptions& model = config.model;
  if (!asked(config, "remat_policy")) {
    model::ModelOptions all = model;
    all.remat_policy = model::RematPolicy::kNone;
    const model::StepMemory memory =
        model::step_memory(all, config.device_mesh, config.global_batch,
                           config.data.max_target_length);
    // Every device may hold all weights whole at once, and their gradients.
    const std::int64_t gathered =
        config.device_count == 1
            ? 0
            : 2 * config.device_count * model::parameter_count(all) *
                  static_cast<std::int64_t>(dtype_size(all.dtype));
    const std::int64_t need = memory.total() + gathered;
    if (need > memory_bytes / 2) return "";
    model = all;
    said =
        fmt::format("remat_policy=none: memory allows it ({:.1f} GB of {:.1f})",
                    static_cast<double>(need) / 1e9,
                    static_cast<double>(memory_bytes) / 1e9);
  }
  if (!asked(config, "scan_layers") &&
      model.remat_policy == model::RematPolicy::kNone &&
      model.base_num_decoder_layers <= kMostLayersWrittenOut) {
    model.scan_layers = false;
    said += fmt::format("{}scan_layers=false: a loop would copy what is kept",
                        said.empty() ? "" : ", ");
  }
  return said;
}

}  // namespace ringmax::train
