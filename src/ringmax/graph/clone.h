// Copies nodes of one block into the current block, on demand.
#ifndef RINGMAX_GRAPH_CLONE_H_
#define RINGMAX_GRAPH_CLONE_H_

#include <functional>
#include <string>

#include "ringmax/graph/graph.h"

namespace ringmax::graph {

// fetch(v) answers v's counterpart in the graph's current block: what was
// mapped, else what `provide` gives, else a copy of v's node built from the
// fetched operands. Used to compute forward values again in a backward block,
// and to inline a block.
class Cloner {
 public:
  // Returns an invalid Value to let the node be copied. Block parameters must
  // be provided or mapped.
  using Provide = std::function<Value(Value)>;

  // Copied nodes get `scope_prefix` in front of their scope path.
  Cloner(Graph& graph, Provide provide, std::string scope_prefix);

  void map(Value from, Value to) { map_[from] = to; }
  Value fetch(Value value);

 private:
  Value copy(Value value);

  Graph& graph_;
  Provide provide_;
  std::string scope_prefix_;
  ValueMap<Value> map_;
  // Copies of scans, so that results added to the original later can be added
  // to its copy as well.
  struct ScanCopy {
    NodeId node;
    ValueMap<Value> body;
  };
  std::unordered_map<NodeId, ScanCopy> scans_;
};

// A deep copy of a closed block; `values` receives old value -> new value.
BlockId clone_block(Graph& graph, BlockId block, ValueMap<Value>* values);

// What a custom_vjp result that is one of its inputs passes on; `value` itself
// when it is anything else. Such a residual is never worth a copy of the call.
Value forwarded(Graph& graph, Value value);

// "prefix/path", without doubling a prefix that is there already.
std::int32_t prefixed_scope(Graph& graph, const std::string& prefix,
                            std::int32_t scope);

}  // namespace ringmax::graph

#endif  // RINGMAX_GRAPH_CLONE_H_
