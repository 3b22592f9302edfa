#include "ringmax/graph/gradient.h"

#include <algorithm>
#include <utility>

#include "ringmax/base/error.h"
#include "ringmax/graph/backward.h"
#include "ringmax/graph/clone.h"
#include "ringmax/graph/ops.h"

namespace ringmax::graph {

Value RuleContext::cotangent_or_zeros(std::size_t result) {
  if (cotangents_[result].valid()) return cotangents_[result];
  return constant(graph_, graph_.node(id_).results[result], 0);
}

ValueSet active_values(const Graph& graph, BlockId block,
                       const std::vector<Value>& sources) {
  ValueSet active(sources.begin(), sources.end());
  for (const NodeId id : graph.block(block).nodes) {
    const Node& node = graph.node(id);
    if (node.op == Op::kStopGradient) continue;
    const bool depends =
        std::any_of(node.operands.begin(), node.operands.end(),
                    [&](const Value& v) { return active.count(v) != 0; });
    if (!depends) continue;
    for (std::size_t r = 0; r < node.results.size(); ++r) {
      if (!is_float(node.results[r].dtype)) continue;
      active.insert(
          Value{const_cast<Graph*>(&graph), id, static_cast<std::int32_t>(r)});
    }
  }
  return active;
}

Backward::Backward(Graph& graph, BlockId block, ValueSet active,
                   std::function<Value(Value)> forward)
    : graph_(graph),
      block_(block),
      active_(std::move(active)),
      forward_(std::move(forward)) {}

void Backward::seed(Value value, Value cotangent) {
  if (active_.count(value) == 0) return;
  if (cotangent.shape() != value.shape()) {
    fail(ErrorCode::kInternal, "cotangent {} does not fit {}",
         cotangent.describe(), value.describe());
  }
  const auto [it, inserted] = cotangents_.emplace(value, cotangent);
  if (!inserted) it->second = add(it->second, cotangent);
}

void Backward::run() {
  const std::vector<NodeId> nodes = graph_.block(block_).nodes;
  const std::int32_t saved_scope = graph_.scope();
  for (std::size_t i = nodes.size(); i-- > 0;) {
    const NodeId id = nodes[i];
    const std::size_t result_count = graph_.node(id).results.size();
    std::vector<Value> cotangents(result_count);
    bool any = false;
    for (std::size_t r = 0; r < result_count; ++r) {
      cotangents[r] = cotangent(graph_.value(id, static_cast<std::int32_t>(r)));
      any = any || cotangents[r].valid();
    }
    if (!any) continue;
    const Node node = graph_.node(id);
    const Rule rule = rule_for(node.op);
    if (rule == nullptr) {
      fail_invalid(
          "{} has no gradient ({}); wrap it in custom_vjp or "
          "stop_gradient",
          op_name(node.op), graph_.value(id).describe());
    }
    std::vector<bool> wanted(node.operands.size());
    for (std::size_t k = 0; k < wanted.size(); ++k) {
      wanted[k] = active_.count(node.operands[k]) != 0;
    }
    graph_.set_scope(prefixed_scope(graph_, "backward", node.scope));
    RuleContext context(graph_, id, std::move(cotangents), std::move(wanted),
                        forward_);
    rule(context);
    for (std::size_t k = 0; k < node.operands.size(); ++k) {
      if (context.given()[k].valid()) {
        seed(node.operands[k], context.given()[k]);
      }
    }
  }
  graph_.set_scope(saved_scope);
}

Value Backward::cotangent(Value value) const {
  const auto it = cotangents_.find(value);
  return it == cotangents_.end() ? Value{} : it->second;
}

Value Backward::cotangent_or_zeros(Value value) {
  const Value ct = cotangent(value);
  return ct.valid() ? ct : constant(graph_, value.shape(), 0);
}

Values vjp(const Values& outputs, const Values& cotangents, const Values& wrt) {
  RINGMAX_CHECK(outputs.size() == cotangents.size() && !outputs.empty());
  Graph& graph = *outputs[0].graph;
  const BlockId block = graph.current_block();
  for (const Value& v : wrt) {
    if (!is_float(v.dtype())) {
      fail_invalid("gradient with respect to {}: not a float", v.describe());
    }
    RINGMAX_CHECK(graph.node(v).block == block);
  }
  Backward backward(graph, block, active_values(graph, block, wrt),
                    [](Value v) { return v; });
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    RINGMAX_CHECK(graph.node(outputs[i]).block == block);
    backward.seed(outputs[i], cotangents[i]);
  }
  backward.run();
  Values result;
  for (const Value& v : wrt) result.push_back(backward.cotangent_or_zeros(v));
  return result;
}

Values gradient(Value loss, const Values& wrt) {
  if (loss.rank() != 0 || !is_float(loss.dtype())) {
    fail_invalid("gradient of {}: not a float scalar", loss.describe());
  }
  return vjp({loss}, {full_like(loss, 1)}, wrt);
}

}  // namespace ringmax::graph
