#include "ringmax/graph/control.h"

#include <utility>

#include "ringmax/base/error.h"
#include "ringmax/graph/ops.h"

namespace ringmax::graph {
namespace {

std::vector<Shape> shapes_of(const Values& values) {
  std::vector<Shape> shapes;
  for (const Value& v : values) shapes.push_back(v.shape());
  return shapes;
}

Values parameters_of(Graph& graph, BlockId block, std::size_t begin,
                     std::size_t count) {
  Values result;
  for (std::size_t i = 0; i < count; ++i) {
    result.push_back(graph.block_parameter(block, begin + i));
  }
  return result;
}

Values results_of(Graph& graph, NodeId node, std::size_t begin,
                  std::size_t count) {
  Values result;
  for (std::size_t i = begin; i < begin + count; ++i) {
    result.push_back(graph.value(node, static_cast<std::int32_t>(i)));
  }
  return result;
}

void require_same_shapes(std::string_view what, const Values& got,
                         const Values& expected) {
  if (got.size() != expected.size()) {
    fail_invalid("{}: {} values where {} are expected", what, got.size(),
                 expected.size());
  }
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (got[i].shape() != expected[i].shape()) {
      fail_invalid("{}: value {} is {}, expected the shape of {}", what, i,
                   got[i].describe(), expected[i].describe());
    }
  }
}

// Closes or abandons a block: a body that throws must not leave it open.
class BodyScope {
 public:
  BodyScope(Graph& graph, const std::vector<Shape>& parameters)
      : graph_(graph), block_(graph.open_block(parameters)) {}
  ~BodyScope() {
    if (open_) graph_.abandon_block();
  }
  BodyScope(const BodyScope&) = delete;
  BodyScope& operator=(const BodyScope&) = delete;
  BlockId block() const { return block_; }
  Values close(const Values& results) {
    Values captured = graph_.close_block(results);
    open_ = false;
    return captured;
  }

 private:
  Graph& graph_;
  BlockId block_;
  bool open_ = true;
};

// Gives two blocks of one op the same captures: appends to each the parameters
// that only the other one needs, in one common order.
void unify_captures(Graph& graph, BlockId first, Values* captured_first,
                    BlockId second, const Values& captured_second) {
  const std::size_t base =
      graph.block(first).parameters.size() - captured_first->size();
  const std::size_t base_second =
      graph.block(second).parameters.size() - captured_second.size();
  std::vector<NodeId> reordered(graph.block(second).parameters.begin(),
                                graph.block(second).parameters.begin() +
                                    static_cast<std::ptrdiff_t>(base_second));
  std::vector<bool> used(captured_second.size(), false);
  for (const Value& outer : *captured_first) {
    bool found = false;
    for (std::size_t j = 0; j < captured_second.size(); ++j) {
      if (!same_value(outer, captured_second[j])) continue;
      reordered.push_back(graph.block(second).parameters[base_second + j]);
      used[j] = found = true;
    }
    if (!found) {
      reordered.push_back(
          graph.add_block_parameter(second, outer.shape()).node);
    }
  }
  for (std::size_t j = 0; j < captured_second.size(); ++j) {
    if (used[j]) continue;
    reordered.push_back(graph.block(second).parameters[base_second + j]);
    graph.add_block_parameter(first, captured_second[j].shape());
    captured_first->push_back(captured_second[j]);
  }
  graph.block(second).parameters = std::move(reordered);
  RINGMAX_CHECK(graph.block(first).parameters.size() - base ==
                captured_first->size());
}

Values concat(Values a, const Values& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

}  // namespace

ScanValues scan(Graph& graph, const Values& init, const Values& xs,
                const ScanOptions& options,
                const std::function<ScanValues(Value, const Values&,
                                               const Values&)>& body) {
  if (options.length < 1) {
    fail_invalid("scan: length {} is not positive", options.length);
  }
  std::vector<Shape> parameters = {Shape(DType::kI32, {})};
  for (const Value& v : init) parameters.push_back(v.shape());
  for (const Value& x : xs) {
    if (x.rank() < 1 || x.dim(0) != options.length) {
      fail_invalid("scan over {} steps: leading dimension of {} differs",
                   options.length, x.describe());
    }
    parameters.emplace_back(x.dtype(),
                            Dims(x.dims().begin() + 1, x.dims().end()));
  }
  BodyScope scope(graph, parameters);
  const BlockId block = scope.block();
  ScanValues out =
      body(graph.block_parameter(block, 0),
           parameters_of(graph, block, 1, init.size()),
           parameters_of(graph, block, 1 + init.size(), xs.size()));
  require_same_shapes("scan carry", out.carry, init);
  std::vector<Shape> results = shapes_of(init);
  for (const Value& y : out.stacked) {
    Dims dims = y.dims();
    dims.insert(dims.begin(), options.length);
    results.emplace_back(y.dtype(), std::move(dims));
  }
  const Values captured = scope.close(concat(out.carry, out.stacked));
  ScanAttr attr;
  attr.length = options.length;
  attr.carry = static_cast<std::int64_t>(init.size());
  attr.xs = static_cast<std::int64_t>(xs.size());
  attr.reverse = options.reverse;
  attr.unroll = options.unroll;
  attr.remat = options.remat;
  const NodeId id =
      graph.add_node(Op::kScan, concat(concat(init, xs), captured),
                     std::move(results), std::move(attr), {block});
  return {results_of(graph, id, 0, init.size()),
          results_of(graph, id, init.size(), out.stacked.size())};
}

Values checkpoint(Graph& graph, const Values& inputs, const RematPolicy& remat,
                  const std::function<Values(const Values&)>& body) {
  // A loop of one step: the backward pass is another loop, so the compiler
  // does not merge the recomputation with the first computation.
  ScanOptions options;
  options.length = 1;
  options.remat = remat;
  Values stacked =
      scan(graph, {}, {}, options, [&](Value, const Values&, const Values&) {
        return ScanValues{{}, body(inputs)};
      }).stacked;
  for (Value& v : stacked) {
    v = reshape(v, Dims(v.dims().begin() + 1, v.dims().end()));
  }
  return stacked;
}

Values while_loop(Graph& graph, const Values& init,
                  const std::function<Value(const Values&)>& condition,
                  const std::function<Values(const Values&)>& body) {
  const std::vector<Shape> parameters = shapes_of(init);
  BodyScope condition_scope(graph, parameters);
  const Value go =
      condition(parameters_of(graph, condition_scope.block(), 0, init.size()));
  if (go.shape() != Shape(DType::kBool, {})) {
    fail_invalid("while: condition {} is not a bool scalar", go.describe());
  }
  Values captured = condition_scope.close({go});
  BodyScope body_scope(graph, parameters);
  const Values next =
      body(parameters_of(graph, body_scope.block(), 0, init.size()));
  require_same_shapes("while carry", next, init);
  const Values body_captured = body_scope.close(next);
  unify_captures(graph, condition_scope.block(), &captured, body_scope.block(),
                 body_captured);
  RegionAttr attr;
  attr.count = static_cast<std::int64_t>(init.size());
  const NodeId id = graph.add_node(
      Op::kWhile, concat(init, captured), parameters, std::move(attr),
      {condition_scope.block(), body_scope.block()});
  return results_of(graph, id, 0, init.size());
}

Values cond(Graph& graph, Value predicate,
            const std::function<Values()>& on_true,
            const std::function<Values()>& on_false) {
  if (predicate.shape() != Shape(DType::kBool, {})) {
    fail_invalid("cond: predicate {} is not a bool scalar",
                 predicate.describe());
  }
  BodyScope true_scope(graph, {});
  const Values a = on_true();
  Values captured = true_scope.close(a);
  BodyScope false_scope(graph, {});
  const Values b = on_false();
  require_same_shapes("cond branches", b, a);
  const Values false_captured = false_scope.close(b);
  unify_captures(graph, true_scope.block(), &captured, false_scope.block(),
                 false_captured);
  const NodeId id =
      graph.add_node(Op::kCond, concat({predicate}, captured), shapes_of(a),
                     RegionAttr{}, {true_scope.block(), false_scope.block()});
  return results_of(graph, id, 0, a.size());
}

Values custom_vjp(
    Graph& graph, const Values& inputs,
    const std::function<CustomVjpForward(const Values&)>& forward,
    const std::function<Values(const Values&, const Values&)>& backward) {
  BodyScope forward_scope(graph, shapes_of(inputs));
  const CustomVjpForward made =
      forward(parameters_of(graph, forward_scope.block(), 0, inputs.size()));
  std::vector<std::string> names = made.residual_names;
  names.resize(made.residuals.size());
  const Values all = concat(made.outputs, made.residuals);
  if (!forward_scope.close(all).empty()) {
    fail(ErrorCode::kInternal,
         "custom_vjp: the forward function uses a value it was not given");
  }
  std::vector<Shape> backward_parameters = shapes_of(made.residuals);
  for (const Value& v : made.outputs) backward_parameters.push_back(v.shape());
  BodyScope backward_scope(graph, backward_parameters);
  const BlockId block = backward_scope.block();
  const Values given = backward(
      parameters_of(graph, block, 0, made.residuals.size()),
      parameters_of(graph, block, made.residuals.size(), made.outputs.size()));
  if (given.size() != inputs.size()) {
    fail(ErrorCode::kInternal, "custom_vjp: {} cotangents for {} inputs",
         given.size(), inputs.size());
  }
  // Inputs without a cotangent get zeros, so that the block has one result per
  // input.
  Values cotangents;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    cotangents.push_back(
        given[i].valid() ? given[i] : constant(graph, inputs[i].shape(), 0));
  }
  require_same_shapes("custom_vjp cotangents", cotangents, inputs);
  if (!backward_scope.close(cotangents).empty()) {
    fail(ErrorCode::kInternal,
         "custom_vjp: the backward function uses a value it was not given");
  }
  RegionAttr attr;
  attr.count = static_cast<std::int64_t>(made.outputs.size());
  attr.inputs = static_cast<std::int64_t>(inputs.size());
  attr.names = std::move(names);
  const NodeId id =
      graph.add_node(Op::kCustomVjp, inputs, shapes_of(all), std::move(attr),
                     {forward_scope.block(), block});
  return results_of(graph, id, 0, made.outputs.size());
}

Values custom_call(Graph& graph, const Values& operands,
                   std::vector<Shape> results, CustomCallAttr attr) {
  const std::size_t count = results.size();
  const NodeId id = graph.add_node(Op::kCustomCall, operands,
                                   std::move(results), std::move(attr));
  return results_of(graph, id, 0, count);
}

}  // namespace ringmax::graph
