// Which values of a graph its results need.
//
// Walks back from the results of the main block through nested blocks, value by
// value: an unread stacked result of a scan, an unread carried value or an
// unread capture is dead even when the loop itself is not. A custom call with a
// side effect is live, and so is every op around it. The backward block of a
// custom_vjp is never part of the program.
#ifndef RINGMAX_GRAPH_DCE_H_
#define RINGMAX_GRAPH_DCE_H_

#include <cstdint>
#include <vector>

#include "ringmax/graph/graph.h"

namespace ringmax::graph {

class Liveness {
 public:
  explicit Liveness(const Graph& graph);

  // Whether the op must be in the program at all.
  bool node(NodeId id) const { return nodes_[static_cast<std::size_t>(id)]; }
  // Whether a result or block parameter is read. A carried value of a loop is
  // live as a whole: its operand, parameters, next value and result.
  bool value(NodeId id, std::int64_t result = 0) const {
    return values_[static_cast<std::size_t>(id)]
                  [static_cast<std::size_t>(result)];
  }
  bool value(const Value& v) const { return value(v.node, v.result); }

 private:
  void mark(const Value& v);
  void mark_node(NodeId id);
  void mark_parameter(NodeId id);
  void mark_result(NodeId id, std::size_t result);
  void mark_carry(const Node& node, std::size_t index);

  const Graph& graph_;
  std::vector<bool> nodes_;
  std::vector<std::vector<bool>> values_;
  std::vector<NodeId> owners_;           // of a block; -1 when none
  std::vector<std::size_t> parameters_;  // position of a block parameter
  std::vector<Value> pending_;
};

}  // namespace ringmax::graph

#endif  // RINGMAX_GRAPH_DCE_H_
