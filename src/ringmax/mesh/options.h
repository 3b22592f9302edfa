// Settings of the mesh: how many devices each named axis has.
// Names, order and meaning are MaxText's.
#ifndef RINGMAX_MESH_OPTIONS_H_
#define RINGMAX_MESH_OPTIONS_H_

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "ringmax/base/option.h"

namespace ringmax::mesh {

struct AxisInfo {
  std::string_view axis;     // name in the mesh: "stage"
  std::string_view setting;  // name in its settings: ici_<pipeline>_parallelism
  bool in_use;               // false: the size must be 1 for now
};

// Every axis, major to minor. Nothing else in RingMax lists them.
inline constexpr std::array<AxisInfo, 12> kAxes = {{
    {"diloco", "diloco", false},
    {"data", "data", true},
    {"stage", "pipeline", false},
    {"fsdp", "fsdp", true},
    {"fsdp_transpose", "fsdp_transpose", false},
    {"context", "context", true},
    {"context_usp_ulysses", "context_usp_ulysses", true},
    {"context_autoregressive", "context_autoregressive", false},
    {"tensor", "tensor", true},
    {"tensor_sequence", "tensor_sequence", false},
    {"expert", "expert", false},
    {"autoregressive", "autoregressive", false},
}};

// Position of an axis in kAxes; throws kInvalidArgument for an unknown one.
std::size_t axis_index(std::string_view axis);
// "ici_context_parallelism".
std::string ici_setting(const AxisInfo& axis);
std::string dcn_setting(const AxisInfo& axis);

struct MeshOptions {
  MeshOptions();

  // Devices along each axis of kAxes within a slice; -1 takes what is left.
  std::array<std::int64_t, kAxes.size()> ici;
  // The same between slices. There is one slice so far: 1, or -1 for data.
  std::array<std::int64_t, kAxes.size()> dcn;

  std::int64_t& ici_size(std::string_view axis) {
    return ici[axis_index(axis)];
  }
  std::int64_t ici_size(std::string_view axis) const {
    return ici[axis_index(axis)];
  }
};

void declare_options(OptionSet& set, MeshOptions& options);

}  // namespace ringmax::mesh

#endif  // RINGMAX_MESH_OPTIONS_H_
