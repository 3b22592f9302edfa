// Named mesh axes and how tensors are partitioned over them.
//
// A Mesh is a list of (axis name, size) in MaxText's order; no axis is
// hard-coded. A PartitionSpec says, per tensor dimension, over which mesh axes
// it is sharded. Both are plain values; nothing here knows a device.
#ifndef RINGMAX_MESH_MESH_H_
#define RINGMAX_MESH_MESH_H_

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "ringmax/base/shape.h"

namespace ringmax::mesh {

struct MeshAxis {
  std::string name;
  std::int64_t size = 1;
  friend bool operator==(const MeshAxis&, const MeshAxis&) = default;
};

class Mesh {
 public:
  Mesh() = default;
  explicit Mesh(std::vector<MeshAxis> axes);

  const std::vector<MeshAxis>& axes() const { return axes_; }
  // Size of an axis; 1 for an axis that the mesh does not have.
  std::int64_t size(std::string_view axis) const;
  bool has_axis(std::string_view axis) const;
  // Product of all axis sizes.
  std::int64_t device_count() const;
  // Row-major coordinates (last axis fastest) of a logical device.
  std::vector<std::int64_t> coordinates(std::int64_t device) const;
  // Coordinate of a logical device along one axis.
  std::int64_t coordinate(std::int64_t device, std::string_view axis) const;
  // "data=2, context=4" (axes of size 1 left out); "1 device" when trivial.
  std::string to_string() const;

  friend bool operator==(const Mesh&, const Mesh&) = default;

 private:
  std::vector<MeshAxis> axes_;
};

// Per tensor dimension the mesh axes it is sharded over, major to minor. An
// empty list means the dimension is whole on every device. A spec shorter than
// the tensor's rank leaves the rest whole.
struct PartitionSpec {
  std::vector<std::vector<std::string>> dims;

  PartitionSpec() = default;
  explicit PartitionSpec(std::vector<std::vector<std::string>> dims_in)
      : dims(std::move(dims_in)) {}
  // PartitionSpec{{"data", "fsdp"}, {}, {"tensor"}}; with braces, as inside
  // parentheses the outer list could as well mean a copy.
  PartitionSpec(std::initializer_list<std::vector<std::string>> dims_in)
      : dims(dims_in) {}

  // "[data, context, -]".
  std::string to_string() const;
  friend bool operator==(const PartitionSpec&, const PartitionSpec&) = default;
};

// Shape of one shard. Throws kInvalidArgument naming the dimension, its size
// and the axes when a dimension is not divisible, when an axis is unknown, or
// when one axis is used twice.
Dims shard_dims(const Dims& global, const PartitionSpec& spec,
                const Mesh& mesh);

// The spec without the axes that would cut a dimension unevenly: of a
// dimension's axes, in order, those are kept whose product with the ones kept
// before divides it.
PartitionSpec even_spec(const Dims& global, const PartitionSpec& spec,
                        const Mesh& mesh);

// A box inside a tensor: [start, start + size) per dimension.
struct ShardIndex {
  Dims start;
  Dims size;
  friend bool operator==(const ShardIndex&, const ShardIndex&) = default;
};

// The part of a global tensor that a logical device holds.
ShardIndex shard_index(const Dims& global, const PartitionSpec& spec,
                       const Mesh& mesh, std::int64_t device);

}  // namespace ringmax::mesh

#endif  // RINGMAX_MESH_MESH_H_
