#include "ringmax/graph/clone.h"

#include <fmt/format.h>

#include <utility>

#include "ringmax/base/error.h"

namespace ringmax::graph {

std::int32_t prefixed_scope(Graph& graph, const std::string& prefix,
                            std::int32_t scope) {
  const std::string path = graph.scope_path(scope);
  if (prefix.empty() || path.rfind(prefix, 0) == 0) return scope;
  return graph.intern_scope(path.empty() ? prefix
                                         : fmt::format("{}/{}", prefix, path));
}

Value forwarded(Graph& graph, Value value) {
  const Node& node = graph.node(value);
  if (node.op != Op::kCustomVjp) return value;
  const Block& forward = graph.block(node.regions[0]);
  const Value inside = forward.results[static_cast<std::size_t>(value.result)];
  for (std::size_t i = 0; i < forward.parameters.size(); ++i) {
    if (forward.parameters[i] == inside.node) return node.operands[i];
  }
  return value;
}

BlockId clone_block(Graph& graph, BlockId block, ValueMap<Value>* values) {
  std::vector<Shape> shapes;
  for (const NodeId p : graph.block(block).parameters) {
    shapes.push_back(graph.node(p).results[0]);
  }
  const BlockId copy = graph.open_block(shapes);
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    values->emplace(graph.block_parameter(block, i),
                    graph.block_parameter(copy, i));
  }
  const std::int32_t saved_scope = graph.scope();
  // By index: cloning appends to the graph's storage.
  for (std::size_t i = 0; i < graph.block(block).nodes.size(); ++i) {
    const NodeId from = graph.block(block).nodes[i];
    const Node original = graph.node(from);
    graph.set_scope(original.scope);
    std::vector<Value> operands;
    for (const Value& v : original.operands) operands.push_back(values->at(v));
    std::vector<BlockId> regions;
    for (const BlockId region : original.regions) {
      ValueMap<Value> inner;
      regions.push_back(clone_block(graph, region, &inner));
    }
    const NodeId to =
        graph.add_node(original.op, std::move(operands), original.results,
                       original.attributes, std::move(regions));
    for (std::size_t r = 0; r < original.results.size(); ++r) {
      const auto index = static_cast<std::int32_t>(r);
      values->emplace(graph.value(from, index), graph.value(to, index));
    }
  }
  graph.set_scope(saved_scope);
  std::vector<Value> results;
  for (const Value& v : graph.block(block).results) {
    results.push_back(values->at(v));
  }
  RINGMAX_CHECK(graph.close_block(results).empty());
  return copy;
}

Cloner::Cloner(Graph& graph, Provide provide, std::string scope_prefix)
    : graph_(graph),
      provide_(std::move(provide)),
      scope_prefix_(std::move(scope_prefix)) {}

Value Cloner::fetch(Value value) {
  const auto it = map_.find(value);
  if (it != map_.end()) return it->second;
  const Value passed_on = forwarded(graph_, value);
  if (!same_value(passed_on, value)) return fetch(passed_on);
  Value made = provide_(value);
  if (!made.valid()) made = copy(value);
  map_[value] = made;
  return made;
}

Value Cloner::copy(Value value) {
  const Node original = graph_.node(value);
  if (original.op == Op::kParameter) {
    fail(ErrorCode::kInternal, "{} has no counterpart here", value.describe());
  }
  const auto known = scans_.find(value.node);
  if (known != scans_.end()) {
    // The original got another stacked result since it was copied.
    ScanCopy& scan = known->second;
    const auto r = static_cast<std::size_t>(value.result);
    for (std::size_t i = graph_.node(scan.node).results.size(); i <= r; ++i) {
      const Value body_result = graph_.block(original.regions[0]).results.at(i);
      graph_.block(graph_.node(scan.node).regions[0])
          .results.push_back(scan.body.at(body_result));
      graph_.node(scan.node).results.push_back(original.results.at(i));
    }
    return graph_.value(scan.node, value.result);
  }
  std::vector<Value> operands;
  for (const Value& v : original.operands) operands.push_back(fetch(v));
  const std::int32_t saved_scope = graph_.scope();
  graph_.set_scope(prefixed_scope(graph_, scope_prefix_, original.scope));
  Value result;
  if (original.regions.empty() && original.results.size() == 1 &&
      original.op != Op::kOptimizationBarrier) {
    result = graph_.add(original.op, std::move(operands), original.results[0],
                        original.attributes);
  } else {
    std::vector<BlockId> regions;
    ValueMap<Value> body;
    for (const BlockId region : original.regions) {
      body.clear();
      regions.push_back(clone_block(graph_, region, &body));
    }
    const NodeId id =
        graph_.add_node(original.op, std::move(operands), original.results,
                        original.attributes, std::move(regions));
    if (original.op == Op::kScan) {
      scans_.emplace(value.node, ScanCopy{id, std::move(body)});
    }
    for (std::size_t r = 0; r < original.results.size(); ++r) {
      const auto index = static_cast<std::int32_t>(r);
      map_[graph_.value(value.node, index)] = graph_.value(id, index);
    }
    result = graph_.value(id, value.result);
  }
  graph_.set_scope(saved_scope);
  return result;
}

}  // namespace ringmax::graph
