#include "ringmax/train/device_array.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <set>
#include <utility>

#include "ringmax/base/error.h"

namespace ringmax::train {
namespace {

// Calls visit(offset in the whole, offset in the shard, bytes) for every run of
// contiguous bytes of a box.
void for_each_row(
    const Shape& whole, const mesh::ShardIndex& index,
    const std::function<void(std::size_t, std::size_t, std::size_t)>& visit) {
  const std::size_t rank = whole.dims.size();
  const std::size_t element = dtype_size(whole.dtype);
  const std::int64_t row = rank == 0 ? 1 : index.size[rank - 1];
  const std::int64_t rows =
      rank == 0 ? 1
                : element_count(index.size) / std::max<std::int64_t>(row, 1);
  for (std::int64_t r = 0; r < rows; ++r) {
    std::int64_t rest = r;
    std::int64_t stride = rank == 0 ? 1 : whole.dims[rank - 1];
    std::int64_t offset = rank == 0 ? 0 : index.start[rank - 1];
    for (std::size_t d = rank; d-- > 1;) {
      const std::int64_t at = rest % index.size[d - 1];
      rest /= index.size[d - 1];
      offset += (index.start[d - 1] + at) * stride;
      stride *= whole.dims[d - 1];
    }
    visit(static_cast<std::size_t>(offset) * element,
          static_cast<std::size_t>(r * row) * element,
          static_cast<std::size_t>(row) * element);
  }
}

// Boxes of the local devices, by position in placement.local().
std::vector<mesh::ShardIndex> local_boxes(const Placement& placement,
                                          const Dims& dims,
                                          const mesh::PartitionSpec& spec) {
  std::vector<mesh::ShardIndex> boxes;
  for (const std::int64_t logical : placement.local()) {
    boxes.push_back(mesh::shard_index(dims, spec, placement.mesh(), logical));
  }
  return boxes;
}

}  // namespace

HostArray cut(const HostArray& array, const mesh::ShardIndex& index) {
  HostArray shard(Shape(array.shape().dtype, index.size));
  for_each_row(array.shape(), index,
               [&](std::size_t from, std::size_t to, std::size_t size) {
                 std::memcpy(shard.bytes().data() + to,
                             array.bytes().data() + from, size);
               });
  return shard;
}

void paste(HostArray& array, const HostArray& shard,
           const mesh::ShardIndex& index) {
  for_each_row(array.shape(), index,
               [&](std::size_t to, std::size_t from, std::size_t size) {
                 std::memcpy(array.bytes().data() + to,
                             shard.bytes().data() + from, size);
               });
}

Placement::Placement(const pjrt::Client& client, const mesh::Mesh& mesh,
                     std::vector<std::int64_t> device_ids)
    : client_(client), mesh_(mesh), device_ids_(std::move(device_ids)) {
  const auto needed = static_cast<std::size_t>(mesh.device_count());
  if (device_ids_.empty()) {
    for (const pjrt::Device& device : client.devices()) {
      if (device_ids_.size() < needed) device_ids_.push_back(device.id);
    }
  }
  const std::set<std::int64_t> distinct(device_ids_.begin(), device_ids_.end());
  if (device_ids_.size() != needed || distinct.size() != needed) {
    fail_invalid(
        "a mesh of {} devices is placed on {} devices, {} of them distinct",
        needed, device_ids_.size(), distinct.size());
  }
  for (std::size_t logical = 0; logical < needed; ++logical) {
    if (client.device(static_cast<int>(device_ids_[logical])).addressable) {
      local_.push_back(static_cast<std::int64_t>(logical));
    }
  }
}

DeviceArray make_array(
    const PlacementPtr& placement, const Shape& shape,
    const mesh::PartitionSpec& spec,
    const std::function<HostArray(const mesh::ShardIndex&)>& shard) {
  const std::vector<mesh::ShardIndex> boxes =
      local_boxes(*placement, shape.dims, spec);
  DeviceArray result{shape, spec, placement, {}};
  std::vector<HostArray> made(boxes.size());
  for (std::size_t i = 0; i < boxes.size(); ++i) {
    const auto same = static_cast<std::size_t>(
        std::find(boxes.begin(), boxes.end(), boxes[i]) - boxes.begin());
    if (same == i) {
      made[i] = shard(boxes[i]);
      if (made[i].shape() != Shape(shape.dtype, boxes[i].size)) {
        fail(ErrorCode::kInternal, "a shard of {} is {} where {} was asked",
             shape.to_string(), made[i].shape().to_string(),
             Shape(shape.dtype, boxes[i].size).to_string());
      }
    }
    const std::int64_t logical = placement->local()[i];
    result.shards.push_back(placement->client().to_device(
        made[same],
        static_cast<int>(
            placement->device_ids()[static_cast<std::size_t>(logical)]),
        pjrt::HostUse::kUntilTransferred));
  }
  return result;
}

void read_shards(const DeviceArray& array, Replica replica,
                 const std::function<void(const mesh::ShardIndex&,
                                          const HostArray&)>& visit) {
  const Placement& placement = *array.placement;
  const mesh::Mesh& mesh = placement.mesh();
  std::vector<mesh::ShardIndex> seen;
  std::optional<std::pair<mesh::ShardIndex, pjrt::HostFuture>> pending;
  std::int64_t logical = 0;
  for (std::size_t i = 0; i < array.shards.size(); ++i) {
    const std::int64_t own = placement.local()[i];
    // The first holder of a box is ours, or it has passed by as another's.
    for (; logical < own; ++logical) {
      if (replica == Replica::kFirst) {
        seen.push_back(
            mesh::shard_index(array.shape.dims, array.spec, mesh, logical));
      }
    }
    mesh::ShardIndex box =
        mesh::shard_index(array.shape.dims, array.spec, mesh, own);
    logical = own + 1;
    if (std::find(seen.begin(), seen.end(), box) != seen.end()) continue;
    seen.push_back(box);
    std::pair<mesh::ShardIndex, pjrt::HostFuture> next(
        std::move(box), array.shards[i].to_host_async());
    if (pending) visit(pending->first, pending->second.get());
    pending = std::move(next);
  }
  if (pending) visit(pending->first, pending->second.get());
}

DeviceArray upload(const PlacementPtr& placement, const HostArray& array,
                   const mesh::PartitionSpec& spec) {
  return make_array(
      placement, array.shape(), spec, [&](const mesh::ShardIndex& box) {
        return box.size == array.shape().dims ? array : cut(array, box);
      });
}

DeviceArray upload(const pjrt::Client& client, const HostArray& array,
                   const mesh::PartitionSpec& spec, const mesh::Mesh& mesh) {
  return upload(std::make_shared<const Placement>(client, mesh), array, spec);
}

HostArray download(const DeviceArray& array) {
  HostArray result(array.shape);
  std::int64_t elements = 0;
  read_shards(array, Replica::kFirstLocal,
              [&](const mesh::ShardIndex& box, const HostArray& shard) {
                paste(result, shard, box);
                elements += element_count(box.size);
              });
  if (elements != element_count(array.shape.dims)) {
    fail(ErrorCode::kFailedPrecondition,
         "this process holds {} of the {} elements of an array {} sharded as "
         "{}; only its shards can be read here",
         elements, element_count(array.shape.dims), array.shape.to_string(),
         array.spec.to_string());
  }
  return result;
}

}  // namespace ringmax::train
