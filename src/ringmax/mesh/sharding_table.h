// A table of tensors and how they are sharded, for people to read before a run
// starts, and the byte totals that memory checks use.
#ifndef RINGMAX_MESH_SHARDING_TABLE_H_
#define RINGMAX_MESH_SHARDING_TABLE_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "ringmax/base/shape.h"
#include "ringmax/mesh/mesh.h"

namespace ringmax::mesh {

struct ShardedTensor {
  std::string name;
  Shape shape;  // global
  PartitionSpec spec;
};

struct ShardingRow {
  ShardedTensor tensor;
  Dims device_dims;
  std::int64_t device_bytes = 0;
};

struct ShardingTable {
  std::string mesh;  // Mesh::to_string()
  std::vector<ShardingRow> rows;
  std::int64_t total_bytes = 0;         // global, each tensor counted once
  std::int64_t total_device_bytes = 0;  // what one device holds

  // Aligned columns with a header and a total line; ends in a newline.
  std::string to_string() const;
};

// Throws kInvalidArgument naming the tensor when a spec does not fit.
ShardingTable make_sharding_table(std::span<const ShardedTensor> tensors,
                                  const Mesh& mesh);

}  // namespace ringmax::mesh

#endif  // RINGMAX_MESH_SHARDING_TABLE_H_
