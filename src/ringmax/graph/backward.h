// The machinery behind gradient.h: one reverse walk over a block.
#ifndef RINGMAX_GRAPH_BACKWARD_H_
#define RINGMAX_GRAPH_BACKWARD_H_

#include <functional>
#include <unordered_set>
#include <vector>

#include "ringmax/graph/graph.h"

namespace ringmax::graph {

// What a gradient rule sees of its node. Values it builds go to the current
// block, which may be another one than the node's (a backward loop's body);
// x() and y() answer forward values as seen there, computing them again where
// the remat policy says so.
class RuleContext {
 public:
  RuleContext(Graph& graph, NodeId id, std::vector<Value> cotangents,
              std::vector<bool> wanted, std::function<Value(Value)> forward)
      : graph_(graph),
        id_(id),
        cotangents_(std::move(cotangents)),
        wanted_(std::move(wanted)),
        forward_(std::move(forward)),
        given_(wanted_.size()) {}

  Graph& graph() { return graph_; }
  // By value: building ops may move the graph's storage.
  Node node() const { return graph_.node(id_); }
  NodeId id() const { return id_; }
  Shape operand_shape(std::size_t i) const {
    return graph_.node(id_).operands[i].shape();
  }
  Value x(std::size_t operand) {
    return forward_(graph_.node(id_).operands[operand]);
  }
  Value y(std::size_t result = 0) {
    return forward_(graph_.value(id_, static_cast<std::int32_t>(result)));
  }
  Value forward(Value v) { return forward_(v); }
  bool wants(std::size_t operand) const { return wanted_[operand]; }
  // Cotangent of a result; invalid when nothing depends on it.
  Value cotangent(std::size_t result = 0) const { return cotangents_[result]; }
  // The same, zeros instead of invalid.
  Value cotangent_or_zeros(std::size_t result);
  void give(std::size_t operand, Value cotangent) {
    given_[operand] = cotangent;
  }
  const std::vector<Value>& given() const { return given_; }

 private:
  Graph& graph_;
  NodeId id_;
  std::vector<Value> cotangents_;
  std::vector<bool> wanted_;
  std::function<Value(Value)> forward_;
  std::vector<Value> given_;
};

using Rule = void (*)(RuleContext&);
// Null for an op that is declared non-differentiable.
Rule rule_for(Op op);

// Rules of ops with regions (control_vjp.cc).
void scan_rule(RuleContext& context);
void cond_rule(RuleContext& context);
void custom_vjp_rule(RuleContext& context);

using ValueSet = std::unordered_set<Value, ValueHash, ValueEqual>;

// Values of `block` through which a derivative flows from `sources`.
ValueSet active_values(const Graph& graph, BlockId block,
                       const std::vector<Value>& sources);

class Backward {
 public:
  Backward(Graph& graph, BlockId block, ValueSet active,
           std::function<Value(Value)> forward);

  // Adds to the cotangent of a value of the block; ignored when not active.
  void seed(Value value, Value cotangent);
  // Walks the block's nodes (those present now) from the last to the first.
  void run();
  Value cotangent(Value value) const;  // invalid when there is none
  Value cotangent_or_zeros(Value value);

 private:
  Graph& graph_;
  BlockId block_;
  ValueSet active_;
  std::function<Value(Value)> forward_;
  ValueMap<Value> cotangents_;
};

}  // namespace ringmax::graph

#endif  // RINGMAX_GRAPH_BACKWARD_H_
