#include "ringmax/train/program.h"

#include <algorithm>
#include <cstring>
#include <functional>
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

DeviceArray upload(const pjrt::Client& client, const HostArray& array,
                   const mesh::PartitionSpec& spec, const mesh::Mesh& mesh) {
  DeviceArray result{array.shape(), spec, {}};
  for (std::int64_t d = 0; d < mesh.device_count(); ++d) {
    const mesh::ShardIndex index =
        mesh::shard_index(array.shape().dims, spec, mesh, d);
    const bool whole = index.size == array.shape().dims;
    result.shards.push_back(client.to_device(whole ? array : cut(array, index),
                                             static_cast<std::size_t>(d)));
  }
  return result;
}

HostArray download(const DeviceArray& array, const mesh::Mesh& mesh) {
  HostArray result(array.shape);
  for (std::int64_t d = 0; d < mesh.device_count(); ++d) {
    // One replica is enough: skip a device whose box an earlier one has.
    const mesh::ShardIndex index =
        mesh::shard_index(array.shape.dims, array.spec, mesh, d);
    bool seen = false;
    for (std::int64_t e = 0; e < d && !seen; ++e) {
      seen = mesh::shard_index(array.shape.dims, array.spec, mesh, e) == index;
    }
    if (seen) continue;
    paste(result, array.shards[static_cast<std::size_t>(d)].to_host(), index);
  }
  return result;
}

Program::Program(const graph::Graph& graph, pjrt::Executable executable)
    : executable_(std::move(executable)) {
  for (const graph::Parameter& p : graph.parameters()) {
    parameters_.push_back(
        {p.name, p.value.shape(), p.spec.value_or(mesh::PartitionSpec())});
  }
  for (const graph::Result& r : graph.results()) {
    results_.push_back(
        {r.name, r.value.shape(), r.spec.value_or(mesh::PartitionSpec())});
  }
}

std::vector<DeviceArray> Program::run(
    const std::vector<const DeviceArray*>& arguments) const {
  if (arguments.size() != parameters_.size()) {
    fail(ErrorCode::kInternal, "{} arguments for {} parameters",
         arguments.size(), parameters_.size());
  }
  const std::size_t devices = executable_.device_ids().size();
  std::vector<std::vector<const pjrt::Buffer*>> lists(devices);
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const DeviceArray& a = *arguments[i];
    if (a.shape != parameters_[i].shape || a.spec != parameters_[i].spec) {
      fail(ErrorCode::kInternal, "argument {} {} {} does not fit parameter {}",
           parameters_[i].name, a.shape.to_string(), a.spec.to_string(),
           parameters_[i].shape.to_string());
    }
    for (std::size_t d = 0; d < devices; ++d) lists[d].push_back(&a.shards[d]);
  }
  std::vector<std::vector<pjrt::Buffer>> out = executable_.execute(lists);
  std::vector<DeviceArray> results;
  for (std::size_t i = 0; i < results_.size(); ++i) {
    DeviceArray a{results_[i].shape, results_[i].spec, {}};
    for (std::size_t d = 0; d < devices; ++d) {
      a.shards.push_back(std::move(out[d][i]));
    }
    results.push_back(std::move(a));
  }
  return results;
}

}  // namespace ringmax::train
