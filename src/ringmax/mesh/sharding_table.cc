#include "ringmax/mesh/sharding_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "ringmax/base/error.h"

namespace ringmax::mesh {
namespace {

// Decimal units, as device memory is quoted; exact below 1000.
std::string bytes_string(std::int64_t bytes) {
  constexpr std::array<const char*, 5> kUnits = {"kB", "MB", "GB", "TB", "PB"};
  if (bytes < 1000) return fmt::format("{} B", bytes);
  double value = static_cast<double>(bytes) / 1000;
  std::size_t unit = 0;
  while (value >= 999.995 && unit + 1 < kUnits.size()) {
    value /= 1000;
    ++unit;
  }
  return fmt::format("{:.2f} {}", value, kUnits[unit]);
}

}  // namespace

ShardingTable make_sharding_table(std::span<const ShardedTensor> tensors,
                                  const Mesh& mesh) {
  ShardingTable table;
  table.mesh = mesh.to_string();
  for (const ShardedTensor& tensor : tensors) {
    ShardingRow row;
    row.tensor = tensor;
    try {
      row.device_dims = shard_dims(tensor.shape.dims, tensor.spec, mesh);
    } catch (const Error& error) {
      throw Error(error.code(),
                  fmt::format("tensor {}: {}", tensor.name, error.message()));
    }
    row.device_bytes = Shape(tensor.shape.dtype, row.device_dims).bytes();
    table.total_bytes += tensor.shape.bytes();
    table.total_device_bytes += row.device_bytes;
    table.rows.push_back(std::move(row));
  }
  return table;
}

std::string ShardingTable::to_string() const {
  using Cells = std::array<std::string, 5>;
  std::vector<Cells> lines = {{"tensor", "global shape", "sharding",
                               "shape a device", "bytes a device"}};
  for (const ShardingRow& row : rows) {
    PartitionSpec full = row.tensor.spec;
    full.dims.resize(row.tensor.shape.dims.size());
    lines.push_back({row.tensor.name, row.tensor.shape.to_string(),
                     full.to_string(), dims_string(row.device_dims),
                     bytes_string(row.device_bytes)});
  }
  lines.push_back({"total", bytes_string(total_bytes), mesh, "",
                   bytes_string(total_device_bytes)});
  std::array<std::size_t, 5> width{};
  for (const Cells& cells : lines) {
    for (std::size_t c = 0; c < cells.size(); ++c) {
      width[c] = std::max(width[c], cells[c].size());
    }
  }
  std::string text;
  for (const Cells& cells : lines) {
    for (std::size_t c = 0; c + 1 < cells.size(); ++c) {
      text += fmt::format("{:<{}}  ", cells[c], width[c]);
    }
    text += fmt::format("{:>{}}\n", cells.back(), width.back());
  }
  return text;
}

}  // namespace ringmax::mesh
