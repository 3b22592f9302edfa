#include "ringmax/graph/parallel.h"

#include <set>
#include <utility>

#include "ringmax/base/error.h"
#include "ringmax/graph/ops.h"

namespace ringmax::graph {
namespace {

std::int64_t group_size(const Graph& graph, const CollectiveAttr& attr) {
  std::int64_t size = 1;
  for (const std::string& axis : attr.axes) {
    if (!graph.mesh().has_axis(axis)) {
      fail_invalid("collective over axis {}, which the mesh ({}) does not have",
                   axis, graph.mesh().to_string());
    }
    size *= graph.mesh().size(axis);
  }
  return size;
}

void require_divides(std::string_view what, Value x, std::int64_t dim,
                     std::int64_t parts) {
  if (dim < 0 || dim >= x.rank() || x.dim(dim) % parts != 0) {
    fail_invalid("{}: dimension {} of {} is not split evenly by {} devices",
                 what, dim, x.describe(), parts);
  }
}

}  // namespace

Value constrain(Value x, const mesh::PartitionSpec& spec) {
  return constrain(x, spec, spec);
}

Value constrain(Value x, const mesh::PartitionSpec& spec,
                const mesh::PartitionSpec& backward) {
  mesh::shard_dims(x.dims(), spec, x.graph->mesh());
  mesh::shard_dims(x.dims(), backward, x.graph->mesh());
  return x.graph->add(Op::kShardingConstraint, {x}, x.shape(),
                      ShardingAttr{spec, backward});
}

Values manual_computation(Graph& graph, const Values& inputs,
                          const std::vector<mesh::PartitionSpec>& in_specs,
                          const std::vector<mesh::PartitionSpec>& out_specs,
                          const std::function<Values(const Values&)>& body) {
  if (in_specs.size() != inputs.size()) {
    fail_invalid("manual_computation: {} inputs but {} specs", inputs.size(),
                 in_specs.size());
  }
  ManualAttr attr;
  attr.in_specs = in_specs;
  attr.out_specs = out_specs;
  for (const mesh::MeshAxis& axis : graph.mesh().axes()) {
    attr.axes.push_back(axis.name);
  }
  std::vector<Shape> local;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    local.emplace_back(
        inputs[i].dtype(),
        mesh::shard_dims(inputs[i].dims(), in_specs[i], graph.mesh()));
  }
  const BlockId block = graph.open_block(local);
  Values shards;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    shards.push_back(graph.block_parameter(block, i));
  }
  Values results;
  std::vector<Value> captured;
  try {
    results = body(shards);
    captured = graph.close_block(results);
  } catch (...) {
    if (graph.current_block() == block) graph.abandon_block();
    throw;
  }
  if (results.size() != out_specs.size()) {
    fail_invalid("manual_computation: {} results but {} specs", results.size(),
                 out_specs.size());
  }
  // A captured value is whole on every device.
  Values operands = inputs;
  for (const Value& v : captured) {
    operands.push_back(v);
    attr.in_specs.emplace_back();
  }
  std::vector<Shape> global;
  for (std::size_t i = 0; i < results.size(); ++i) {
    Dims dims = results[i].dims();
    for (std::size_t d = 0; d < out_specs[i].dims.size(); ++d) {
      for (const std::string& axis : out_specs[i].dims[d]) {
        dims.at(d) *= graph.mesh().size(axis);
      }
    }
    global.emplace_back(results[i].dtype(), std::move(dims));
  }
  const std::size_t count = global.size();
  const NodeId id = graph.add_node(Op::kManualComputation, operands,
                                   std::move(global), std::move(attr), {block});
  Values out;
  for (std::size_t i = 0; i < count; ++i) {
    out.push_back(graph.value(id, static_cast<std::int32_t>(i)));
  }
  return out;
}

Value axis_index(Graph& graph, std::string_view axis) {
  const mesh::Mesh& mesh = graph.mesh();
  std::int64_t inner = 1;  // devices between two neighbours along the axis
  bool seen = false;
  for (const mesh::MeshAxis& a : mesh.axes()) {
    if (seen) inner *= a.size;
    if (a.name == axis) seen = true;
  }
  const Shape scalar(DType::kI32, {});
  if (mesh.size(axis) == 1) return constant(graph, scalar, 0);
  const Value device = convert(
      graph.add(Op::kPartitionId, {}, Shape(DType::kU32, {})), DType::kI32);
  return remainder(
      divide(device, constant(graph, scalar, static_cast<double>(inner))),
      constant(graph, scalar, static_cast<double>(mesh.size(axis))));
}

Value collective_permute(
    Value x, std::string_view axis,
    const std::vector<std::pair<std::int64_t, std::int64_t>>& pairs) {
  CollectiveAttr attr;
  attr.axes = {std::string(axis)};
  attr.pairs = pairs;
  const std::int64_t size = group_size(*x.graph, attr);
  std::set<std::int64_t> sources, targets;
  for (const auto& [source, target] : pairs) {
    if (source < 0 || source >= size || target < 0 || target >= size ||
        !sources.insert(source).second || !targets.insert(target).second) {
      fail_invalid(
          "collective_permute along {} of size {}: pair {} -> {} is outside "
          "the axis or uses a device twice",
          axis, size, source, target);
    }
  }
  return x.graph->add(Op::kCollectivePermute, {x}, x.shape(), std::move(attr));
}

Value all_gather(Value x, std::string_view axis, std::int64_t dim) {
  CollectiveAttr attr;
  attr.axes = {std::string(axis)};
  attr.dim = dim;
  require_divides("all_gather", x, dim, 1);
  Shape shape = x.shape();
  shape.dims[static_cast<std::size_t>(dim)] *= group_size(*x.graph, attr);
  return x.graph->add(Op::kAllGather, {x}, std::move(shape), std::move(attr));
}

Value reduce_scatter(Value x, std::string_view axis, std::int64_t dim) {
  CollectiveAttr attr;
  attr.axes = {std::string(axis)};
  attr.dim = dim;
  const std::int64_t size = group_size(*x.graph, attr);
  require_divides("reduce_scatter", x, dim, size);
  Shape shape = x.shape();
  shape.dims[static_cast<std::size_t>(dim)] /= size;
  return x.graph->add(Op::kReduceScatter, {x}, std::move(shape),
                      std::move(attr));
}

Value all_reduce(Value x, const std::vector<std::string>& axes,
                 ReduceKind kind) {
  CollectiveAttr attr;
  attr.axes = axes;
  attr.reduce = kind;
  group_size(*x.graph, attr);
  return x.graph->add(Op::kAllReduce, {x}, x.shape(), std::move(attr));
}

Value all_to_all(Value x, std::string_view axis, std::int64_t split_dim,
                 std::int64_t concat_dim) {
  CollectiveAttr attr;
  attr.axes = {std::string(axis)};
  attr.dim = split_dim;
  attr.concat_dim = concat_dim;
  const std::int64_t size = group_size(*x.graph, attr);
  require_divides("all_to_all", x, split_dim, size);
  require_divides("all_to_all", x, concat_dim, 1);
  Shape shape = x.shape();
  shape.dims[static_cast<std::size_t>(split_dim)] /= size;
  shape.dims[static_cast<std::size_t>(concat_dim)] *= size;
  return x.graph->add(Op::kAllToAll, {x}, std::move(shape), std::move(attr));
}

}  // namespace ringmax::graph
