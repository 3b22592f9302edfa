// Sharded arrays on devices: made from (index -> shard) callbacks, read shard
// by shard. A process holds the shards of its own devices only; a mesh may
// have devices of others.
//
// Not for deciding which device stands where: device_assignment.h does.
#ifndef RINGMAX_TRAIN_DEVICE_ARRAY_H_
#define RINGMAX_TRAIN_DEVICE_ARRAY_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "ringmax/base/array.h"
#include "ringmax/mesh/mesh.h"
#include "ringmax/pjrt/client.h"

namespace ringmax::train {

// Which device each logical device of a mesh is, and which of them are ours.
class Placement {
 public:
  // device_ids[l] is the device of logical device l; empty: the client's
  // devices by ascending id. Throws kInvalidArgument when the mesh has more
  // devices than are named, or a device is named twice or is not there.
  Placement(const pjrt::Client& client, const mesh::Mesh& mesh,
            std::vector<std::int64_t> device_ids = {});

  const pjrt::Client& client() const { return client_; }
  const mesh::Mesh& mesh() const { return mesh_; }
  const std::vector<std::int64_t>& device_ids() const { return device_ids_; }
  // Logical devices of this process, ascending.
  const std::vector<std::int64_t>& local() const { return local_; }

 private:
  pjrt::Client client_;
  mesh::Mesh mesh_;
  std::vector<std::int64_t> device_ids_;
  std::vector<std::int64_t> local_;
};
using PlacementPtr = std::shared_ptr<const Placement>;

struct DeviceArray {
  Shape shape;  // global
  mesh::PartitionSpec spec;
  PlacementPtr placement;
  // One for each of placement->local(), in that order.
  std::vector<pjrt::Buffer> shards;
};

// Asks `shard` once for every distinct box that a device of this process
// holds, and starts its way to all of them. The arrays given back must have
// the box's size and must not be written any more.
DeviceArray make_array(
    const PlacementPtr& placement, const Shape& shape,
    const mesh::PartitionSpec& spec,
    const std::function<HostArray(const mesh::ShardIndex&)>& shard);

// Which processes visit a box that several devices hold.
enum class Replica {
  kFirst,       // the one with the first of all its devices: each box once
  kFirstLocal,  // every process that holds it
};
// Calls `visit` for each distinct box of this process, in the order of its
// devices, with at most one transfer ahead. Blocks.
void read_shards(const DeviceArray& array, Replica replica,
                 const std::function<void(const mesh::ShardIndex&,
                                          const HostArray&)>& visit);

// Whole host arrays. `array` must not be written until a program that read it
// is done. download() throws kFailedPrecondition when this process does not
// hold all of the array.
DeviceArray upload(const PlacementPtr& placement, const HostArray& array,
                   const mesh::PartitionSpec& spec);
// With the client's devices by ascending id.
DeviceArray upload(const pjrt::Client& client, const HostArray& array,
                   const mesh::PartitionSpec& spec, const mesh::Mesh& mesh);
HostArray download(const DeviceArray& array);

// One shard of a host array, and its way back.
HostArray cut(const HostArray& array, const mesh::ShardIndex& index);
void paste(HostArray& array, const HostArray& shard,
           const mesh::ShardIndex& index);

}  // namespace ringmax::train

#endif  // RINGMAX_TRAIN_DEVICE_ARRAY_H_
