// What a program is compiled for: chip, devices, their place in the machine,
// and the figures that estimates and memory checks need. A plain value; it
// knows no plugin, and nobody asks a global what the hardware is.
#ifndef RINGMAX_HW_TARGET_H_
#define RINGMAX_HW_TARGET_H_

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ringmax/base/dtype.h"

namespace ringmax::hw {

// A grid or torus of chips.
struct Topology {
  std::array<std::int64_t, 3> dims = {1, 1, 1};
  // Whether the last chip of a dimension is linked to its first.
  std::array<bool, 3> wrap = {false, false, false};
  std::int64_t devices_per_chip = 1;

  std::int64_t chips() const { return dims[0] * dims[1] * dims[2]; }
  std::int64_t devices() const { return chips() * devices_per_chip; }
  // Chip coordinates of a device in id order: the first dimension is the
  // fastest, and the devices of a chip follow each other.
  std::array<std::int64_t, 3> coordinates(std::int64_t device) const;
  // Links on the shortest way between two devices; 0 within a chip.
  std::int64_t distance(std::int64_t a, std::int64_t b) const;
  friend bool operator==(const Topology&, const Topology&) = default;
};

// What is known of a TPU chip. Figures are those of one device unless they
// say chip; peaks are the vendor's published ones.
struct Chip {
  std::string_view name;  // "v5p", also libtpu's prefix
  std::int64_t devices_per_chip;
  // The N of MaxText's names NAME-N counts these per chip: TensorCores up to
  // v5p and for tpu7x, chips for v5e and v6e.
  std::int64_t name_units_per_chip;
  int dimensions;
  std::int64_t hbm_bytes;
  std::int64_t vmem_bytes;
  double peak_bf16_flops;
  double peak_int8_ops;
  double hbm_bytes_per_s;
  double link_bytes_per_s;  // one direction of one link of a chip
  double clock_hz;
};

std::span<const Chip> known_chips();
// Throws kInvalidArgument naming the known ones.
const Chip& find_chip(std::string_view name);

struct Target {
  std::string platform = "cpu";  // "cpu", "tpu", "cuda"
  std::string chip = "cpu";
  // The plugin's name of the topology ("v5p:2x2x2"); empty on a CPU.
  std::string topology_name;
  Topology topology;
  // Per device; 0 where there is none or it is not known.
  std::int64_t hbm_bytes = 0;
  std::int64_t vmem_bytes = 0;
  double peak_bf16_flops = 0;
  double peak_f32_flops = 0;
  double hbm_bytes_per_s = 0;
  double link_bytes_per_s = 0;
  double clock_hz = 0;
  bool has_ffi = false;
  // stable_mosaic.version that the plugin reads; 0 for no Mosaic.
  int mosaic_version = 0;

  std::int64_t devices() const { return topology.devices(); }
  // Whether a device stands still in a collective until the others have come to
  // the same one, as XLA's CPU runtime has it: all devices must then meet a
  // program's collectives in one order, which nothing enforces around a loop
  // that holds some. A TPU's compiler puts them in order.
  bool collectives_block() const { return platform == "cpu"; }
  // Whether all-gathers work along the first dimension only, so that the whole
  // result is turned around for any other (XLA's CPU compiler).
  bool gathers_first_dimension_only() const { return platform == "cpu"; }
  // Whether all devices are threads of one process, which can read each other's
  // arrays.
  bool devices_share_memory() const { return platform == "cpu"; }
  // Peak of matmuls with operands of that dtype; 0 when not known.
  double peak_flops(DType dtype) const;
};

// `devices` virtual devices in this process.
Target cpu_target(std::int64_t devices);

// A MaxText `compile_topology` name ("v5p-16", "v5e-256", "v6e-8") or a
// plugin's ("v5p:2x2x2"). Throws kInvalidArgument naming the setting, the
// value and what is known.
Target tpu_target(std::string_view compile_topology);

}  // namespace ringmax::hw

#endif  // RINGMAX_HW_TARGET_H_
