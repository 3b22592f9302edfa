// Sharding constraints, manual computations and collectives.
//
// Outside a manual computation shapes are global and the partitioner makes the
// collectives. Inside one, shapes are those of a shard over the manual axes and
// the program speaks to its neighbours itself. Specs and axes follow Shardy's
// representation; axes of size 1 are legal and cost nothing.
#ifndef RINGMAX_GRAPH_PARALLEL_H_
#define RINGMAX_GRAPH_PARALLEL_H_

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "ringmax/graph/control.h"
#include "ringmax/graph/graph.h"
#include "ringmax/mesh/mesh.h"

namespace ringmax::graph {

// Asks the partitioner to shard x so; the cotangent is asked to be sharded like
// `backward` (the same unless given). Gathering a weight before use is
// constrain(w, gathered, sharded): its gradient is then reduce-scattered.
Value constrain(Value x, const mesh::PartitionSpec& spec);
Value constrain(Value x, const mesh::PartitionSpec& spec,
                const mesh::PartitionSpec& backward);

// Runs body on shards: inputs have global shapes and are cut by in_specs; the
// body's results are put together by out_specs. `axes` are manual (all axes of
// the mesh unless said). Has no gradient: wrap it in custom_vjp.
Values manual_computation(
    Graph& graph, const Values& inputs,
    const std::vector<mesh::PartitionSpec>& in_specs,
    const std::vector<mesh::PartitionSpec>& out_specs,
    const std::function<Values(const Values& shards)>& body);

// The device's coordinate along an axis, int32 scalar. Inside a manual
// computation only (like all that follow).
Value axis_index(Graph& graph, std::string_view axis);

// Sends x along `axis`: pairs are (source, target) coordinates; a device that
// nobody sends to gets zeros.
Value collective_permute(
    Value x, std::string_view axis,
    const std::vector<std::pair<std::int64_t, std::int64_t>>& pairs);
Value all_gather(Value x, std::string_view axis, std::int64_t dim);
Value reduce_scatter(Value x, std::string_view axis, std::int64_t dim);
Value all_reduce(Value x, const std::vector<std::string>& axes,
                 ReduceKind kind = ReduceKind::kSum);
// Splits `split_dim` over the axis and concatenates along `concat_dim`.
Value all_to_all(Value x, std::string_view axis, std::int64_t split_dim,
                 std::int64_t concat_dim);

}  // namespace ringmax::graph

#endif  // RINGMAX_GRAPH_PARALLEL_H_
