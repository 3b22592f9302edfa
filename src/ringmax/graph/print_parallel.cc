// Sharding constraints and collectives.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "ringmax/base/error.h"
#include "ringmax/graph/print_text.h"
#include "ringmax/graph/printer.h"

namespace ringmax::graph {

void Printer::sharding_constraint(NodeId id) {
  const Node& n = graph_.node(id);
  if (one_device_) return alias(id, 0, n.operands[0]);
  define(id, fmt::format("sdy.sharding_constraint {} <{}> : {}",
                         name(n.operands[0]),
                         sharding_text(n.attr<ShardingAttr>().spec,
                                       n.results[0].rank(), graph_.mesh()),
                         type_text(n.results[0])));
}

void Printer::collective(NodeId id) {
  const Node& n = graph_.node(id);
  const auto& attr = n.attr<CollectiveAttr>();
  const bool permute = n.op == Op::kCollectivePermute;
  std::int64_t members = 1;
  for (const std::string& axis : attr.axes) members *= graph_.mesh().size(axis);
  if (permute && attr.pairs.empty()) {
    // Nobody receives anything.
    return define(id, fmt::format("stablehlo.constant {} : {}",
                                  constant_text(ConstantAttr{}, n.results[0]),
                                  type_text(n.results[0])));
  }
  if (members == 1) return alias(id, 0, n.operands[0]);
  const DeviceGroups groups = device_groups(graph_.mesh(), attr.axes);
  const std::string channel = fmt::format(
      "channel_handle = #stablehlo.channel_handle<handle = {}, "
      "type = 1>",
      next_channel_++);
  const std::string start =
      fmt::format("\"stablehlo.{}\"({})", op_name(n.op), operand_names(n));
  if (permute) {
    return define(
        id,
        fmt::format("{} {{{}, source_target_pairs = {}}} : {}", start, channel,
                    device_table_text(device_pairs(groups, attr.pairs)),
                    signature(n)));
  }
  const std::string table =
      fmt::format("replica_groups = {}", device_table_text(groups));
  if (n.op == Op::kAllGather) {
    return define(id,
                  fmt::format("{} {{all_gather_dim = {} : i64, {}, {}, "
                              "use_global_device_ids}} : {}",
                              start, attr.dim, channel, table, signature(n)));
  }
  if (n.op == Op::kAllToAll) {
    return define(
        id, fmt::format("{} {{{}, concat_dimension = {} : i64, {}, "
                        "split_count = {} : i64, split_dimension = {} : i64}} "
                        ": {}",
                        start, channel, attr.concat_dim, table, members,
                        attr.dim, signature(n)));
  }
  std::string scatter;
  if (n.op == Op::kReduceScatter) {
    scatter = fmt::format("scatter_dimension = {} : i64, ", attr.dim);
  } else {
    RINGMAX_CHECK(n.op == Op::kAllReduce);
  }
  std::string prefix;
  const std::vector<std::string> names = fresh_results(1, &prefix);
  open(fmt::format("{}{} ({{", prefix, start));
  reducer(attr.reduce, n.results[0].dtype);
  close(fmt::format("}}) {{{}, {}, {}use_global_device_ids}} : {}", channel,
                    table, scatter, signature(n)));
  set_name(id, 0, names[0]);
}

}  // namespace ringmax::graph
