#include "ringmax/graph/graph.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "ringmax/base/error.h"

namespace ringmax::graph {
namespace {

std::size_t mix(std::size_t seed, std::size_t value) {
  return seed ^ (value + 0x9e3779b97f4a7c15ull + (seed << 6) + (seed >> 2));
}

std::size_t node_hash(const Node& node) {
  std::size_t h = mix(static_cast<std::size_t>(node.op),
                      static_cast<std::size_t>(node.block));
  for (const Value& v : node.operands) h = mix(h, ValueHash()(v));
  for (const std::int64_t d : node.results[0].dims) {
    h = mix(h, static_cast<std::size_t>(d));
  }
  return mix(h, static_cast<std::size_t>(node.results[0].dtype));
}

// Nodes that must stay apart although they look alike: barriers exist to keep
// copies of a computation from being merged.
bool may_share(Op op) {
  return op != Op::kParameter && op != Op::kOptimizationBarrier;
}

}  // namespace

const Shape& Value::shape() const {
  RINGMAX_CHECK(valid());
  return graph->node(node).results[static_cast<std::size_t>(result)];
}

std::int64_t Value::dim(std::int64_t i) const {
  const Dims& all = dims();
  if (i < 0) i += static_cast<std::int64_t>(all.size());
  RINGMAX_CHECK(i >= 0 && i < static_cast<std::int64_t>(all.size()));
  return all[static_cast<std::size_t>(i)];
}

std::string Value::describe() const {
  if (!valid()) return "(no value)";
  const Node& n = graph->node(node);
  std::string what(op_name(n.op));
  if (const auto* p = std::get_if<ParameterAttr>(&n.attributes)) {
    if (!p->name.empty()) what = p->name;
  } else if (const auto* c = std::get_if<NameAttr>(&n.attributes)) {
    what = c->name;
  }
  const std::string& path = graph->scope_path(n.scope);
  return fmt::format("{} ({}{}{})", shape().to_string(), what,
                     path.empty() ? "" : " in ", path);
}

Graph::Graph(mesh::Mesh mesh, std::string name)
    : name_(std::move(name)), mesh_(std::move(mesh)) {
  blocks_.emplace_back();
  scope_paths_.emplace_back();
  scope_ids_.emplace("", 0);
}

Value Graph::parameter(std::string name, Shape shape,
                       std::optional<mesh::PartitionSpec> spec) {
  if (current_ != main_block()) {
    fail(ErrorCode::kInternal,
         "parameter {} added while a nested block is open", name);
  }
  if (spec) mesh::shard_dims(shape.dims, *spec, mesh_);
  const Value v = add_block_parameter(main_block(), std::move(shape));
  node(v.node).attributes = ParameterAttr{name};
  parameters_.push_back({std::move(name), v, std::move(spec), {}});
  return v;
}

std::int64_t Graph::result(std::string name, Value v,
                           std::optional<mesh::PartitionSpec> spec) {
  RINGMAX_CHECK(current_ == main_block());
  RINGMAX_CHECK(v.valid() && node(v).block == main_block());
  if (spec) mesh::shard_dims(v.dims(), *spec, mesh_);
  results_.push_back({std::move(name), v, std::move(spec)});
  blocks_[0].results.push_back(v);
  return static_cast<std::int64_t>(results_.size()) - 1;
}

void Graph::donate(Value parameter, std::int64_t result_index) {
  const Result& to = results_.at(static_cast<std::size_t>(result_index));
  for (Parameter& p : parameters_) {
    if (!same_value(p.value, parameter)) continue;
    if (p.value.shape() != to.value.shape() || p.spec != to.spec) {
      fail_invalid(
          "parameter {} {} cannot be donated to result {} {}: shapes and "
          "partition specs must agree",
          p.name, p.value.shape().to_string(), to.name,
          to.value.shape().to_string());
    }
    p.donated_to = result_index;
    return;
  }
  fail_invalid("{} is not a parameter of the program", parameter.describe());
}

std::optional<NodeId> Graph::find_equal(const Node& candidate) const {
  const auto [begin, end] = by_hash_.equal_range(node_hash(candidate));
  for (auto it = begin; it != end; ++it) {
    const Node& other = node(it->second);
    if (other.op == candidate.op && other.block == candidate.block &&
        other.results == candidate.results &&
        std::equal(other.operands.begin(), other.operands.end(),
                   candidate.operands.begin(), candidate.operands.end(),
                   ValueEqual()) &&
        other.attributes == candidate.attributes) {
      return it->second;
    }
  }
  return std::nullopt;
}

Value Graph::add(Op op, std::vector<Value> operands, Shape shape,
                 Attributes attributes) {
  Node candidate;
  candidate.op = op;
  candidate.block = current_;
  candidate.scope = scope_;
  for (const Value& v : operands) candidate.operands.push_back(localize(v));
  candidate.results.push_back(std::move(shape));
  candidate.attributes = std::move(attributes);
  if (may_share(op)) {
    if (const auto found = find_equal(candidate)) return value(*found);
  }
  const auto id = static_cast<NodeId>(nodes_.size());
  if (may_share(op)) by_hash_.emplace(node_hash(candidate), id);
  nodes_.push_back(std::move(candidate));
  block(current_).nodes.push_back(id);
  return value(id);
}

NodeId Graph::add_node(Op op, std::vector<Value> operands,
                       std::vector<Shape> results, Attributes attributes,
                       std::vector<BlockId> regions) {
  Node n;
  n.op = op;
  n.block = current_;
  n.scope = scope_;
  for (const Value& v : operands) n.operands.push_back(localize(v));
  n.results = std::move(results);
  n.attributes = std::move(attributes);
  n.regions = std::move(regions);
  const auto id = static_cast<NodeId>(nodes_.size());
  nodes_.push_back(std::move(n));
  block(current_).nodes.push_back(id);
  return id;
}

BlockId Graph::open_block(const std::vector<Shape>& parameters) {
  const auto id = static_cast<BlockId>(blocks_.size());
  blocks_.emplace_back();
  blocks_.back().parent = current_;
  for (const Shape& shape : parameters) add_block_parameter(id, shape);
  open_.push_back({id, {}, {}});
  current_ = id;
  return id;
}

std::vector<Value> Graph::close_block(const std::vector<Value>& results) {
  RINGMAX_CHECK(!open_.empty());
  std::vector<Value> local;
  for (const Value& v : results) local.push_back(localize(v));
  block(current_).results = std::move(local);
  std::vector<Value> captured = std::move(open_.back().captured);
  abandon_block();
  return captured;
}

void Graph::abandon_block() {
  RINGMAX_CHECK(!open_.empty());
  open_.pop_back();
  current_ = block(current_).parent;
}

void Graph::suspend_block() {
  RINGMAX_CHECK(!open_.empty());
  suspended_.push_back(std::move(open_.back()));
  abandon_block();
}

void Graph::resume_block() {
  open_.push_back(std::move(suspended_.back()));
  suspended_.pop_back();
  current_ = open_.back().block;
}

Value Graph::add_block_parameter(BlockId id, Shape shape) {
  Node n;
  n.op = Op::kParameter;
  n.block = id;
  n.scope = scope_;
  n.results.push_back(std::move(shape));
  n.attributes = ParameterAttr{};
  const auto node_id = static_cast<NodeId>(nodes_.size());
  nodes_.push_back(std::move(n));
  block(id).parameters.push_back(node_id);
  return value(node_id);
}

Value Graph::block_parameter(BlockId id, std::size_t index) {
  return value(block(id).parameters.at(index));
}

Value Graph::localize(Value v) {
  RINGMAX_CHECK(v.valid());
  if (v.graph != this) {
    fail(ErrorCode::kInternal, "{} belongs to another graph", v.describe());
  }
  if (node(v).block == current_) return v;
  if (open_.empty()) {
    fail(ErrorCode::kInternal, "{} was made in a block that is closed",
         v.describe());
  }
  return capture_into(open_.size() - 1, v);
}

Value Graph::capture_into(std::size_t open_index, Value v) {
  const BlockId target = open_[open_index].block;
  if (node(v).block == target) return v;
  const auto it = open_[open_index].inside.find(v);
  if (it != open_[open_index].inside.end()) return it->second;
  // Constants and iotas are made again instead of travelling as operands.
  const Node& source = node(v);
  if (source.op == Op::kConstant || source.op == Op::kIota) {
    const Value copy = copy_source(source, target);
    open_[open_index].inside.emplace(v, copy);
    return copy;
  }
  // As seen in the parent first, so that every block on the way captures it.
  const BlockId parent = block(target).parent;
  Value outer = v;
  if (node(v).block != parent) {
    if (open_index == 0) {
      fail(ErrorCode::kInternal,
           "{} was made in a block that does not enclose this one",
           v.describe());
    }
    outer = capture_into(open_index - 1, v);
  }
  const auto known = open_[open_index].inside.find(outer);
  const Value inside = known != open_[open_index].inside.end()
                           ? known->second
                           : add_block_parameter(target, outer.shape());
  if (known == open_[open_index].inside.end()) {
    open_[open_index].captured.push_back(outer);
    open_[open_index].inside.emplace(outer, inside);
  }
  open_[open_index].inside.emplace(v, inside);
  return inside;
}

Value Graph::copy_source(const Node& source, BlockId target) {
  Node copy = source;
  copy.block = target;
  if (const auto found = find_equal(copy)) return value(*found);
  const auto id = static_cast<NodeId>(nodes_.size());
  by_hash_.emplace(node_hash(copy), id);
  nodes_.push_back(std::move(copy));
  block(target).nodes.push_back(id);
  return value(id);
}

std::int32_t Graph::intern_scope(std::string_view path) {
  const auto [it, inserted] = scope_ids_.emplace(
      std::string(path), static_cast<std::int32_t>(scope_paths_.size()));
  if (inserted) scope_paths_.emplace_back(path);
  return it->second;
}

Scope::Scope(Graph& graph, std::string_view component)
    : graph_(graph), saved_(graph.scope()) {
  const std::string& outer = graph.scope_path(saved_);
  graph.set_scope(graph.intern_scope(
      outer.empty() ? std::string(component)
                    : fmt::format("{}/{}", outer, component)));
}

Scope::~Scope() { graph_.set_scope(saved_); }

}  // namespace ringmax::graph
