#include "ringmax/mesh/mesh.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <utility>

#include "ringmax/base/error.h"

namespace ringmax::mesh {

Mesh::Mesh(std::vector<MeshAxis> axes) : axes_(std::move(axes)) {
  std::set<std::string> seen;
  for (const MeshAxis& axis : axes_) {
    if (axis.size < 1) {
      fail_invalid("mesh axis {} has size {}; sizes are at least 1", axis.name,
                   axis.size);
    }
    if (!seen.insert(axis.name).second) {
      fail_invalid("mesh axis {} is named twice", axis.name);
    }
  }
}

std::int64_t Mesh::size(std::string_view name) const {
  for (const MeshAxis& axis : axes_) {
    if (axis.name == name) return axis.size;
  }
  return 1;
}

bool Mesh::has_axis(std::string_view name) const {
  return std::any_of(axes_.begin(), axes_.end(),
                     [&](const MeshAxis& axis) { return axis.name == name; });
}

std::int64_t Mesh::device_count() const {
  std::int64_t product = 1;
  for (const MeshAxis& axis : axes_) {
    if (__builtin_mul_overflow(product, axis.size, &product)) {
      fail_invalid("mesh of {} has more than 2^63 devices", to_string());
    }
  }
  return product;
}

std::vector<std::int64_t> Mesh::coordinates(std::int64_t device) const {
  if (device < 0 || device >= device_count()) {
    fail_invalid("device {} is outside the mesh of {} devices", device,
                 device_count());
  }
  std::vector<std::int64_t> result(axes_.size());
  for (std::size_t i = axes_.size(); i-- > 0;) {
    result[i] = device % axes_[i].size;
    device /= axes_[i].size;
  }
  return result;
}

std::int64_t Mesh::coordinate(std::int64_t device,
                              std::string_view name) const {
  const std::vector<std::int64_t> all = coordinates(device);
  for (std::size_t i = 0; i < axes_.size(); ++i) {
    if (axes_[i].name == name) return all[i];
  }
  return 0;
}

std::string Mesh::to_string() const {
  std::vector<std::string> parts;
  for (const MeshAxis& axis : axes_) {
    if (axis.size > 1)
      parts.push_back(fmt::format("{}={}", axis.name, axis.size));
  }
  if (parts.empty()) return "1 device";
  return fmt::format("{}", fmt::join(parts, ", "));
}

std::string PartitionSpec::to_string() const {
  std::vector<std::string> parts;
  for (const auto& axes : dims) {
    parts.push_back(axes.empty() ? "-"
                                 : fmt::format("{}", fmt::join(axes, "+")));
  }
  return fmt::format("[{}]", fmt::join(parts, ", "));
}

namespace {

// Checks the spec and returns, per dimension, the number of shards.
Dims shard_counts(const Dims& global, const PartitionSpec& spec,
                  const Mesh& mesh) {
  if (spec.dims.size() > global.size()) {
    fail_invalid("partition spec {} has more dimensions than the shape {}",
                 spec.to_string(), dims_string(global));
  }
  std::set<std::string> used;
  Dims counts(global.size(), 1);
  for (std::size_t d = 0; d < spec.dims.size(); ++d) {
    for (const std::string& axis : spec.dims[d]) {
      if (!mesh.has_axis(axis)) {
        fail_invalid(
            "partition spec {} names axis {}, which the mesh ({}) "
            "does not have",
            spec.to_string(), axis, mesh.to_string());
      }
      if (!used.insert(axis).second) {
        fail_invalid("partition spec {} uses axis {} twice", spec.to_string(),
                     axis);
      }
      counts[d] *= mesh.size(axis);
    }
    if (global[d] % counts[d] != 0) {
      fail_invalid(
          "dimension {} of shape {} has size {}, which {} shards over "
          "{} do not divide",
          d, dims_string(global), global[d], counts[d],
          fmt::join(spec.dims[d], "+"));
    }
  }
  return counts;
}

}  // namespace

PartitionSpec even_spec(const Dims& global, const PartitionSpec& spec,
                        const Mesh& mesh) {
  PartitionSpec even = spec;
  for (std::size_t d = 0; d < even.dims.size() && d < global.size(); ++d) {
    std::int64_t shards = 1;
    std::erase_if(even.dims[d], [&](const std::string& axis) {
      const std::int64_t size = mesh.size(axis);
      const bool kept = global[d] % (shards * size) == 0;
      if (kept) shards *= size;
      return !kept;
    });
  }
  return even;
}

Dims shard_dims(const Dims& global, const PartitionSpec& spec,
                const Mesh& mesh) {
  const Dims counts = shard_counts(global, spec, mesh);
  Dims local = global;
  for (std::size_t d = 0; d < local.size(); ++d) local[d] /= counts[d];
  return local;
}

ShardIndex shard_index(const Dims& global, const PartitionSpec& spec,
                       const Mesh& mesh, std::int64_t device) {
  ShardIndex result;
  result.size = shard_dims(global, spec, mesh);
  result.start.assign(global.size(), 0);
  for (std::size_t d = 0; d < spec.dims.size(); ++d) {
    std::int64_t position = 0;
    for (const std::string& axis : spec.dims[d]) {
      position = position * mesh.size(axis) + mesh.coordinate(device, axis);
    }
    result.start[d] = position * result.size[d];
  }
  return result;
}

}  // namespace ringmax::mesh
