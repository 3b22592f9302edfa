#include "ringmax/hw/target.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <optional>

#include "ringmax/base/error.h"

namespace ringmax::hw {
namespace {

constexpr std::int64_t kMiB = std::int64_t{1} << 20;

// HBM as the TPU compiler grants it, in GiB.
constexpr std::int64_t gib(double value) {
  return static_cast<std::int64_t>(value * 1073741824.0);
}

// Clocks are the published peaks divided by the products a cycle: four matrix
// units a core, of 128 x 128 up to v5p and of 256 x 256 later.
constexpr Chip kChips[] = {
    {"v4", 2, 2, 3, gib(15.25), 16 * kMiB, 137.5e12, 137.5e12, 614e9, 45e9,
     1.05e9},
    {"v5e", 1, 1, 2, gib(15.75), 128 * kMiB, 197e12, 394e12, 819e9, 45e9,
     1.5e9},
    {"v5p", 1, 2, 3, gib(95.73), 64 * kMiB, 459e12, 918e12, 2765e9, 90e9,
     1.75e9},
    {"v6e", 1, 1, 2, gib(31.24), 128 * kMiB, 918e12, 1836e12, 1640e9, 90e9,
     1.75e9},
    {"tpu7x", 2, 2, 3, gib(94.74), 64 * kMiB, 1153.5e12, 1153.5e12, 3690e9,
     90e9, 2.2e9},
};

// Chips in a row, a plane or a cube, as the clouds cut them: chip count and
// dims. Larger and other cuts can be named by their dims.
struct Slice {
  std::int64_t chips;
  std::array<std::int64_t, 3> dims;
};
constexpr Slice kPlanes[] = {
    {1, {1, 1, 1}},  {4, {2, 2, 1}},  {8, {2, 4, 1}},    {16, {4, 4, 1}},
    {32, {4, 8, 1}}, {64, {8, 8, 1}}, {128, {8, 16, 1}}, {256, {16, 16, 1}},
};
constexpr Slice kCubes[] = {
    {4, {2, 2, 1}},      {8, {2, 2, 2}},       {16, {2, 2, 4}},
    {32, {2, 4, 4}},     {64, {4, 4, 4}},      {128, {4, 4, 8}},
    {256, {4, 8, 8}},    {512, {8, 8, 8}},     {1024, {8, 8, 16}},
    {2048, {8, 16, 16}}, {4096, {16, 16, 16}},
};

std::span<const Slice> slices(const Chip& chip) {
  if (chip.dimensions == 2) return kPlanes;
  return kCubes;
}

// Digits only; nothing for anything else.
std::optional<std::int64_t> parse_count(std::string_view text) {
  std::int64_t value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stop != end || value < 1 || value > (1 << 20)) {
    return std::nullopt;
  }
  return value;
}

std::optional<std::array<std::int64_t, 3>> parse_dims(std::string_view text,
                                                      int dimensions) {
  std::array<std::int64_t, 3> dims = {1, 1, 1};
  for (int d = 0; d < dimensions; ++d) {
    const std::size_t cross = text.find('x');
    const bool last = d + 1 == dimensions;
    if (last != (cross == std::string_view::npos)) return std::nullopt;
    const std::optional<std::int64_t> size = parse_count(text.substr(0, cross));
    if (!size) return std::nullopt;
    dims[static_cast<std::size_t>(d)] = *size;
    if (!last) text.remove_prefix(cross + 1);
  }
  return dims;
}

// Where a dimension closes to a ring. In three dimensions optical links close
// slices made of whole 4x4x4 cubes; in two, only a side of all 16 chips.
std::array<bool, 3> wraps(const Chip& chip,
                          const std::array<std::int64_t, 3>& dims) {
  if (chip.dimensions == 2) return {dims[0] == 16, dims[1] == 16, false};
  const bool cubes = std::all_of(dims.begin(), dims.end(),
                                 [](std::int64_t n) { return n % 4 == 0; });
  return {cubes, cubes, cubes};
}

Target make_target(const Chip& chip, const std::array<std::int64_t, 3>& dims) {
  Target target;
  target.platform = "tpu";
  target.chip = chip.name;
  target.topology_name =
      chip.dimensions == 2
          ? fmt::format("{}:{}x{}", chip.name, dims[0], dims[1])
          : fmt::format("{}:{}x{}x{}", chip.name, dims[0], dims[1], dims[2]);
  target.topology = {dims, wraps(chip, dims), chip.devices_per_chip};
  target.hbm_bytes = chip.hbm_bytes;
  target.vmem_bytes = chip.vmem_bytes;
  target.peak_bf16_flops = chip.peak_bf16_flops;
  // A float32 product at highest precision takes six bfloat16 passes.
  target.peak_f32_flops = chip.peak_bf16_flops / 6;
  target.hbm_bytes_per_s = chip.hbm_bytes_per_s;
  target.link_bytes_per_s = chip.link_bytes_per_s;
  target.clock_hz = chip.clock_hz;
  target.mosaic_version = 15;
  return target;
}

std::vector<std::string> maxtext_names(const Chip& chip) {
  std::vector<std::string> names;
  for (const Slice& slice : slices(chip)) {
    names.push_back(fmt::format("{}-{}", chip.name,
                                slice.chips * chip.name_units_per_chip));
  }
  return names;
}

}  // namespace

std::array<std::int64_t, 3> Topology::coordinates(std::int64_t device) const {
  if (device < 0 || device >= devices()) {
    fail_invalid("device {} is outside the topology of {} devices", device,
                 devices());
  }
  const std::int64_t chip = device / devices_per_chip;
  return {chip % dims[0], chip / dims[0] % dims[1], chip / (dims[0] * dims[1])};
}

std::int64_t Topology::distance(std::int64_t a, std::int64_t b) const {
  const auto from = coordinates(a);
  const auto to = coordinates(b);
  std::int64_t links = 0;
  for (std::size_t d = 0; d < dims.size(); ++d) {
    const std::int64_t apart = std::abs(from[d] - to[d]);
    links += wrap[d] ? std::min(apart, dims[d] - apart) : apart;
  }
  return links;
}

std::span<const Chip> known_chips() { return kChips; }

const Chip& find_chip(std::string_view name) {
  std::vector<std::string_view> names;
  for (const Chip& chip : kChips) {
    if (chip.name == name) return chip;
    names.push_back(chip.name);
  }
  fail_invalid("unknown TPU chip {}; known are {}", name,
               fmt::join(names, ", "));
}

double Target::peak_flops(DType dtype) const {
  switch (dtype) {
    case DType::kBF16:
      return peak_bf16_flops;
    case DType::kF32:
      return peak_f32_flops;
    default:
      return 0;
  }
}

Target cpu_target(std::int64_t devices) {
  if (devices < 1) {
    fail_invalid("a CPU target needs at least one device, got {}", devices);
  }
  Target target;
  // Virtual devices share one memory: all of them on one "chip".
  target.topology.devices_per_chip = devices;
  target.has_ffi = true;
  return target;
}

Target tpu_target(std::string_view name) {
  const std::size_t cut = name.find_first_of(":-");
  const Chip* chip = nullptr;
  for (const Chip& known : kChips) {
    if (known.name == name.substr(0, cut)) chip = &known;
  }
  if (chip == nullptr || cut == std::string_view::npos) {
    std::string names;
    for (const Chip& known : kChips) {
      names += fmt::format("\n  {}", fmt::join(maxtext_names(known), ", "));
    }
    fail_invalid(
        "compile_topology={}: {}; known are CHIP-N as MaxText has it:{}\nand "
        "CHIP:DIMS for any other slice, say v5p:2x2x4",
        name, name.empty() ? "it is missing" : "unknown", names);
  }
  const std::string_view rest = name.substr(cut + 1);
  if (name[cut] == ':') {
    const auto dims = parse_dims(rest, chip->dimensions);
    if (!dims) {
      fail_invalid("compile_topology={}: {} needs {} dims, say {}", name,
                   chip->name, chip->dimensions,
                   chip->dimensions == 2 ? "2x4" : "2x2x2");
    }
    return make_target(*chip, *dims);
  }
  const std::optional<std::int64_t> units = parse_count(rest);
  for (const Slice& slice : slices(*chip)) {
    if (units && *units == slice.chips * chip->name_units_per_chip) {
      return make_target(*chip, slice.dims);
    }
  }
  fail_invalid("compile_topology={}: there is no such slice; known are {}",
               name, fmt::join(maxtext_names(*chip), ", "));
}

}  // namespace ringmax::hw
