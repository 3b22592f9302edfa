#include "ringmax/mesh/options.h"

#include <fmt/format.h>

#include "ringmax/base/error.h"

namespace ringmax::mesh {

std::size_t axis_index(std::string_view axis) {
  for (std::size_t i = 0; i < kAxes.size(); ++i) {
    if (kAxes[i].axis == axis) return i;
  }
  fail_invalid("there is no mesh axis {}", axis);
}

std::string ici_setting(const AxisInfo& axis) {
  return fmt::format("ici_{}_parallelism", axis.setting);
}

std::string dcn_setting(const AxisInfo& axis) {
  return fmt::format("dcn_{}_parallelism", axis.setting);
}

MeshOptions::MeshOptions() {
  ici.fill(1);
  dcn.fill(1);
  ici[axis_index("fsdp")] = -1;
  dcn[axis_index("data")] = -1;
}

void declare_options(OptionSet& set, MeshOptions& options) {
  set.section("Mesh");
  for (std::size_t i = 0; i < kAxes.size(); ++i) {
    std::string help = fmt::format("devices along the {} axis", kAxes[i].axis);
    if (kAxes[i].in_use) {
      help += "; -1: what is left over";
    } else {
      help += "; must be 1 so far";
    }
    set.integer(ici_setting(kAxes[i]), &options.ici[i], help,
                {.min = -1, .max = 1 << 20});
  }
  for (std::size_t i = 0; i < kAxes.size(); ++i) {
    set.integer(dcn_setting(kAxes[i]), &options.dcn[i],
                fmt::format("slices along the {} axis; must be 1 so far",
                            kAxes[i].axis),
                {.min = -1, .max = 1 << 20});
  }
}

}  // namespace ringmax::mesh
