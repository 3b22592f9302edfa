// The graph IR: nodes in nested blocks, built for global tensor shapes.
//
// A Graph is one program: a main block with named parameters and results, and
// blocks nested inside it for loops, branches, custom gradients and manual
// computations. A Value is a small handle (graph, node, result); it owns
// nothing and is trivially destructible. Building an op appends a node to the
// graph's current block; a pure node equal to an earlier one of the same block
// is returned instead (common-subexpression elimination at birth).
//
// A block sees only its own values: an op that names a value of an enclosing
// block captures it, which adds a parameter to every block on the way and an
// operand to the op that owns the block. So regions are closed, and gradients
// and cloning treat captured values like any other operand.
//
// No strings until the printer; no devices anywhere.
#ifndef RINGMAX_GRAPH_GRAPH_H_
#define RINGMAX_GRAPH_GRAPH_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "ringmax/base/shape.h"
#include "ringmax/graph/op.h"
#include "ringmax/mesh/mesh.h"

namespace ringmax::graph {

class Graph;

using BlockId = std::int32_t;
using NodeId = std::int32_t;

struct Value {
  Graph* graph = nullptr;
  NodeId node = -1;
  std::int32_t result = 0;

  bool valid() const { return graph != nullptr; }
  const Shape& shape() const;
  const Dims& dims() const { return shape().dims; }
  // Size of one dimension; negative counts from the back.
  std::int64_t dim(std::int64_t i) const;
  std::int64_t rank() const { return shape().rank(); }
  DType dtype() const { return shape().dtype; }
  // "f32[2,3] (dot_general in decoder/mlp)": what error messages print.
  std::string describe() const;
};
// Whether two handles name the same value (not an elementwise comparison; that
// is equal() in ops.h).
inline bool same_value(const Value& a, const Value& b) {
  return a.graph == b.graph && a.node == b.node && a.result == b.result;
}

struct ValueHash {
  std::size_t operator()(const Value& v) const {
    return static_cast<std::size_t>(v.node) * 1000003u +
           static_cast<std::size_t>(v.result);
  }
};
struct ValueEqual {
  bool operator()(const Value& a, const Value& b) const {
    return same_value(a, b);
  }
};
template <typename T>
using ValueMap = std::unordered_map<Value, T, ValueHash, ValueEqual>;

struct Node {
  Op op = Op::kParameter;
  BlockId block = 0;
  std::int32_t scope = 0;
  std::vector<Value> operands;
  std::vector<Shape> results;
  Attributes attributes;
  std::vector<BlockId> regions;

  template <typename T>
  const T& attr() const {
    return std::get<T>(attributes);
  }
};

struct Block {
  BlockId parent = -1;
  std::vector<NodeId> parameters;
  std::vector<NodeId> nodes;  // in order; parameters are not among them
  std::vector<Value> results;
};

struct Parameter {
  std::string name;
  Value value;
  std::optional<mesh::PartitionSpec> spec;
  // Index of the result that takes over this parameter's buffer.
  std::optional<std::int64_t> donated_to;
};

struct Result {
  std::string name;
  Value value;
  std::optional<mesh::PartitionSpec> spec;
};

class Graph {
 public:
  explicit Graph(mesh::Mesh mesh = mesh::Mesh(), std::string name = "main");
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  const std::string& name() const { return name_; }
  const mesh::Mesh& mesh() const { return mesh_; }

  // A parameter of the whole program; only while the main block is current.
  Value parameter(std::string name, Shape shape,
                  std::optional<mesh::PartitionSpec> spec = std::nullopt);
  // Appends a result of the whole program; returns its index.
  std::int64_t result(std::string name, Value value,
                      std::optional<mesh::PartitionSpec> spec = std::nullopt);
  // Lets result `result_index` take over the buffer of `parameter`; shapes and
  // specs must agree.
  void donate(Value parameter, std::int64_t result_index);
  const std::vector<Parameter>& parameters() const { return parameters_; }
  const std::vector<Result>& results() const { return results_; }

  // --- For op builders -----------------------------------------------------
  // Appends a one-result node to the current block, or returns an equal one.
  // Operands are captured into the current block where needed.
  Value add(Op op, std::vector<Value> operands, Shape shape,
            Attributes attributes = {});
  // Appends a node, never shared. `regions` are closed blocks.
  NodeId add_node(Op op, std::vector<Value> operands,
                  std::vector<Shape> results, Attributes attributes,
                  std::vector<BlockId> regions = {});
  // Opens a block inside the current one, with parameters of the given shapes.
  BlockId open_block(const std::vector<Shape>& parameters);
  // Closes the current block with its results; returns the values of the
  // enclosing block that it captured, in the order of the parameters that were
  // added for them at the end of its parameter list.
  std::vector<Value> close_block(const std::vector<Value>& results);
  // Leaves the current block without finishing it: for builders whose body
  // function threw. The block stays unused.
  void abandon_block();
  // Builds in the parent of the current block until resume_block(), which goes
  // back; see OutsideBlock.
  void suspend_block();
  void resume_block();
  Value add_block_parameter(BlockId block, Shape shape);
  // The value as seen in the current block: itself, or a captured parameter.
  Value localize(Value value);

  const Node& node(NodeId id) const {
    return nodes_[static_cast<std::size_t>(id)];
  }
  Node& node(NodeId id) { return nodes_[static_cast<std::size_t>(id)]; }
  const Node& node(Value value) const { return node(value.node); }
  const Block& block(BlockId id) const {
    return blocks_[static_cast<std::size_t>(id)];
  }
  Block& block(BlockId id) { return blocks_[static_cast<std::size_t>(id)]; }
  Value block_parameter(BlockId block, std::size_t index);
  BlockId current_block() const { return current_; }
  BlockId main_block() const { return 0; }
  std::size_t node_count() const { return nodes_.size(); }
  Value value(NodeId node, std::int32_t result = 0) {
    return Value{this, node, result};
  }

  // Scope paths ("decoder/layers/mlp"); printed as MLIR locations.
  std::int32_t scope() const { return scope_; }
  const std::string& scope_path(std::int32_t scope) const {
    return scope_paths_[static_cast<std::size_t>(scope)];
  }
  std::int32_t intern_scope(std::string_view path);
  void set_scope(std::int32_t scope) { scope_ = scope; }

 private:
  struct OpenBlock {
    BlockId block;
    std::vector<Value> captured;  // as seen in the parent block
    ValueMap<Value> inside;       // outer value -> value in the block
  };

  Value capture_into(std::size_t open_index, Value value);
  Value copy_source(const Node& source, BlockId target);
  std::optional<NodeId> find_equal(const Node& candidate) const;

  std::string name_;
  mesh::Mesh mesh_;
  std::vector<Node> nodes_;
  std::vector<Block> blocks_;
  std::vector<OpenBlock> open_;
  std::vector<OpenBlock> suspended_;
  BlockId current_ = 0;
  std::vector<Parameter> parameters_;
  std::vector<Result> results_;
  std::unordered_multimap<std::size_t, NodeId> by_hash_;
  std::vector<std::string> scope_paths_;
  std::unordered_map<std::string, std::int32_t> scope_ids_;
  std::int32_t scope_ = 0;
};

// Appends a path component for the ops built during its lifetime.
class Scope {
 public:
  Scope(Graph& graph, std::string_view component);
  ~Scope();
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;

 private:
  Graph& graph_;
  std::int32_t saved_;
};

// Builds around the current block, not in it, during its lifetime: for values
// that a block under construction turns out to need from outside.
class OutsideBlock {
 public:
  explicit OutsideBlock(Graph& graph) : graph_(graph) {
    graph_.suspend_block();
  }
  ~OutsideBlock() { graph_.resume_block(); }
  OutsideBlock(const OutsideBlock&) = delete;
  OutsideBlock& operator=(const OutsideBlock&) = delete;

 private:
  Graph& graph_;
};

}  // namespace ringmax::graph

#endif  // RINGMAX_GRAPH_GRAPH_H_
