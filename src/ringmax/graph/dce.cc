#include "ringmax/graph/dce.h"

#include "ringmax/base/error.h"

namespace ringmax::graph {
namespace {

std::size_t index_of(std::int64_t i) { return static_cast<std::size_t>(i); }

// A scan's parameters begin with the index, so its carry is shifted by one.
struct Carries {
  std::size_t count = 0;
  std::size_t first_parameter = 0;
};

Carries carries_of(const Node& node) {
  if (node.op == Op::kScan) return {index_of(node.attr<ScanAttr>().carry), 1};
  if (node.op == Op::kWhile) {
    return {index_of(node.attr<RegionAttr>().count), 0};
  }
  return {};
}

bool has_side_effect(const Node& node) {
  return node.op == Op::kCustomCall &&
         node.attr<CustomCallAttr>().has_side_effect;
}

}  // namespace

Liveness::Liveness(const Graph& graph)
    : graph_(graph),
      nodes_(graph.node_count()),
      values_(graph.node_count()),
      parameters_(graph.node_count()) {
  for (std::size_t i = 0; i < graph.node_count(); ++i) {
    const auto id = static_cast<NodeId>(i);
    const Node& node = graph.node(id);
    values_[i].resize(node.results.size());
    for (const BlockId region : node.regions) {
      if (owners_.size() <= index_of(region)) {
        owners_.resize(index_of(region) + 1, -1);
      }
      owners_[index_of(region)] = id;
      const Block& block = graph.block(region);
      for (std::size_t p = 0; p < block.parameters.size(); ++p) {
        parameters_[index_of(block.parameters[p])] = p;
      }
    }
  }
  // Blocks that are reachable: a side effect counts only there.
  std::vector<BlockId> blocks = {graph.main_block()};
  while (!blocks.empty()) {
    const BlockId block = blocks.back();
    blocks.pop_back();
    for (const NodeId id : graph.block(block).nodes) {
      const Node& node = graph.node(id);
      if (has_side_effect(node)) mark_node(id);
      const std::size_t regions =
          node.op == Op::kCustomVjp ? 1 : node.regions.size();
      blocks.insert(
          blocks.end(), node.regions.begin(),
          node.regions.begin() + static_cast<std::ptrdiff_t>(regions));
    }
  }
  for (const Result& result : graph.results()) mark(result.value);
  while (!pending_.empty()) {
    const Value v = pending_.back();
    pending_.pop_back();
    if (graph.node(v).op == Op::kParameter) {
      mark_parameter(v.node);
    } else {
      mark_result(v.node, index_of(v.result));
    }
  }
}

void Liveness::mark(const Value& v) {
  std::vector<bool>& results = values_[index_of(v.node)];
  if (results[index_of(v.result)]) return;
  results[index_of(v.result)] = true;
  pending_.push_back(v);
}

// What an op needs to stand in the program, whichever result is read.
void Liveness::mark_node(NodeId id) {
  if (nodes_[index_of(id)]) return;
  nodes_[index_of(id)] = true;
  const Node& node = graph_.node(id);
  switch (node.op) {
    case Op::kCond:
      mark(node.operands[0]);
      break;
    case Op::kWhile:
      mark(graph_.block(node.regions[0]).results[0]);
      break;
    case Op::kScan:
    case Op::kCustomVjp:
    case Op::kManualComputation:
    case Op::kOptimizationBarrier:
      break;
    default:
      for (const Value& v : node.operands) mark(v);
  }
  // An op inside a region keeps the op that owns the region.
  if (node.block != graph_.main_block()) {
    mark_node(owners_[index_of(node.block)]);
  }
}

void Liveness::mark_carry(const Node& node, std::size_t index) {
  mark(node.operands[index]);
  const std::size_t at = carries_of(node).first_parameter + index;
  for (const BlockId region : node.regions) {
    mark(Value{node.operands[index].graph, graph_.block(region).parameters[at],
               0});
  }
  mark(graph_.block(node.regions.back()).results[index]);
}

void Liveness::mark_parameter(NodeId id) {
  const BlockId block = graph_.node(id).block;
  if (block == graph_.main_block()) return;
  const NodeId owner = owners_[index_of(block)];
  mark_node(owner);
  const Node& node = graph_.node(owner);
  const std::size_t at = parameters_[index_of(id)];
  const Carries carries = carries_of(node);
  if (node.op == Op::kScan && at == 0) return;  // the index
  const std::size_t operand = at - carries.first_parameter;
  if (operand < carries.count) {
    mark_carry(node, operand);
  } else if (node.op == Op::kCond) {
    mark(node.operands[operand + 1]);
  } else {
    mark(node.operands[operand]);
  }
}

void Liveness::mark_result(NodeId id, std::size_t result) {
  mark_node(id);
  const Node& node = graph_.node(id);
  switch (node.op) {
    case Op::kScan:
    case Op::kWhile:
      if (result < carries_of(node).count) {
        mark_carry(node, result);
        break;
      }
      [[fallthrough]];
    case Op::kCustomVjp:
    case Op::kManualComputation:
      mark(graph_.block(node.regions[0]).results[result]);
      break;
    case Op::kCond:
      for (const BlockId region : node.regions) {
        mark(graph_.block(region).results[result]);
      }
      break;
    case Op::kOptimizationBarrier:
      mark(node.operands[result]);
      break;
    default:
      break;
  }
}

}  // namespace ringmax::graph
