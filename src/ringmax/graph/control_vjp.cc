// Gradients of ops with regions: scan, cond, custom_vjp.
//
// The backward of a scan is a scan the other way whose body computes the
// cotangents of one step. Forward values that the body needs are either saved
// (the forward scan gets one more stacked result) or computed again from the
// step's inputs, as the RematPolicy says; nothing is saved that nobody asks
// for.
#include <algorithm>
#include <utility>

#include "ringmax/base/error.h"
#include "ringmax/graph/backward.h"
#include "ringmax/graph/clone.h"
#include "ringmax/graph/control.h"
#include "ringmax/graph/ops.h"

namespace ringmax::graph {
namespace {

bool named(const RematPolicy& policy, const std::string& name) {
  return !name.empty() && std::find(policy.names.begin(), policy.names.end(),
                                    name) != policy.names.end();
}

// Whether the value itself is kept under the policy.
bool keeps(const Graph& graph, const ScanAttr& scan, Value v) {
  const Node& node = graph.node(v);
  const RematPolicy& policy = scan.remat;
  switch (policy.kind) {
    case RematPolicy::Kind::kSaveNothing:
      return false;
    case RematPolicy::Kind::kSaveAll:
      // Constraining may be gathering, which a loop would do again rather than
      // stack what it gathered. Without a loop nothing is stacked.
      if (scan.unroll && node.op == Op::kShardingConstraint) return true;
      return !op_info(node.op).cheap;
    case RematPolicy::Kind::kSaveNames:
      if (node.op == Op::kCheckpointName) {
        return named(policy, node.attr<NameAttr>().name);
      }
      if (node.op == Op::kCustomVjp) {
        const auto& attr = node.attr<RegionAttr>();
        return v.result >= attr.count &&
               named(
                   policy,
                   attr.names[static_cast<std::size_t>(v.result - attr.count)]);
      }
      return false;
  }
  return false;
}

// One representative of values that are the same data, so that they are saved
// once: a name and what it names, a residual and the output it equals.
Value canonical(Graph& graph, Value v) {
  for (;;) {
    const Node& node = graph.node(v);
    if (node.op == Op::kCheckpointName) {
      v = node.operands[0];
      continue;
    }
    if (node.op == Op::kCustomVjp) {
      const auto& results = graph.block(node.regions[0]).results;
      for (std::int32_t r = 0; r < v.result; ++r) {
        if (same_value(results[static_cast<std::size_t>(r)],
                       results[static_cast<std::size_t>(v.result)])) {
          return graph.value(v.node, r);
        }
      }
    }
    return v;
  }
}

// Builds the backward loop of one scan node.
class ScanBackward {
 public:
  explicit ScanBackward(RuleContext& context)
      : context_(context),
        graph_(context.graph()),
        node_(context.node()),
        attr_(node_.attr<ScanAttr>()),
        body_(node_.regions[0]),
        carry_(static_cast<std::size_t>(attr_.carry)),
        xs_(static_cast<std::size_t>(attr_.xs)) {}

  void run() {
    find_active();
    open();
    const auto forward = [this](Value v) { return cloner().fetch(v); };
    Backward backward(graph_, body_, active_, forward);
    const std::vector<Value> body_results = graph_.block(body_).results;
    for (std::size_t i = 0; i < active_carry_.size(); ++i) {
      backward.seed(body_results[active_carry_[i]],
                    graph_.block_parameter(block_, 1 + i));
    }
    for (const auto& [result, parameter] : stacked_cotangents_) {
      backward.seed(body_results[result], parameter);
    }
    backward.run();
    close(backward);
  }

 private:
  Value body_parameter(std::size_t operand) {
    return graph_.block_parameter(body_, 1 + operand);
  }

  // Which operands take part: a carry is active when its start is wanted or a
  // step makes it so.
  void find_active() {
    std::vector<bool> on(node_.operands.size());
    for (std::size_t k = 0; k < on.size(); ++k) on[k] = context_.wants(k);
    for (bool changed = true; changed;) {
      changed = false;
      Values sources;
      for (std::size_t k = 0; k < on.size(); ++k) {
        if (on[k]) sources.push_back(body_parameter(k));
      }
      active_ = active_values(graph_, body_, sources);
      for (std::size_t k = 0; k < carry_; ++k) {
        const Value out = graph_.block(body_).results[k];
        if (!on[k] && active_.count(out) != 0) on[k] = changed = true;
      }
    }
    for (std::size_t k = 0; k < on.size(); ++k) {
      if (!on[k]) continue;
      if (k < carry_) active_carry_.push_back(k);
      if (k >= carry_ && k < carry_ + xs_) active_xs_.push_back(k);
      if (k >= carry_ + xs_) active_captures_.push_back(k);
    }
  }

  void open() {
    std::vector<Shape> parameters = {Shape(DType::kI32, {})};
    for (const std::size_t k : active_carry_) {
      init_.push_back(context_.cotangent_or_zeros(k));
      parameters.push_back(init_.back().shape());
    }
    for (const std::size_t k : active_captures_) {
      init_.push_back(constant(graph_, context_.operand_shape(k), 0));
      parameters.push_back(init_.back().shape());
    }
    std::vector<Value> stacked;
    std::vector<std::size_t> which;
    for (std::size_t r = carry_; r < node_.results.size(); ++r) {
      const Value ct = context_.cotangent(r);
      if (!ct.valid()) continue;
      stacked.push_back(ct);
      which.push_back(r);
    }
    block_ = graph_.open_block(parameters);
    carried_parameters_ = graph_.block(block_).parameters;
    for (std::size_t i = 0; i < stacked.size(); ++i) {
      stacked_cotangents_.emplace_back(which[i], add_slice(stacked[i]));
    }
  }

  // A new parameter of the backward body: the slice of `outer`, which lives in
  // the block around the backward scan.
  Value add_slice(Value outer) {
    const Value parameter = graph_.add_block_parameter(
        block_, Shape(outer.dtype(),
                      Dims(outer.dims().begin() + 1, outer.dims().end())));
    slices_.push_back(outer);
    slice_parameters_.push_back(parameter.node);
    return parameter;
  }

  // Appends `v` to the forward scan's stacked results and returns the whole.
  Value save(Value v) {
    graph_.block(body_).results.push_back(v);
    Shape shape = v.shape();
    shape.dims.insert(shape.dims.begin(), attr_.length);
    Node& node = graph_.node(context_.id());
    node.results.push_back(std::move(shape));
    return graph_.value(context_.id(),
                        static_cast<std::int32_t>(node.results.size()) - 1);
  }

  Value saved_slice(Value v) {
    const Value key = canonical(graph_, v);
    const auto it = saved_.find(key);
    if (it != saved_.end()) return it->second;
    const Value saved = save(key);
    const Value slice =
        add_slice(outside([&] { return context_.forward(saved); }));
    saved_.emplace(key, slice);
    return slice;
  }

  // Forward values of the block around the backward loop, should they have to
  // be computed again, belong there and not into the loop's body.
  template <typename Get>
  Value outside(const Get& get) {
    RINGMAX_CHECK(graph_.current_block() == block_);
    const OutsideBlock guard(graph_);
    return get();
  }

  Cloner& cloner() {
    if (!cloner_) {
      cloner_.emplace(
          graph_, [this](Value v) { return provide(v); },
          attr_.remat.kind == RematPolicy::Kind::kSaveAll ? "backward"
                                                          : "remat");
    }
    return *cloner_;
  }

  Value provide(Value v) {
    const Node& node = graph_.node(v);
    if (node.op != Op::kParameter) {
      const auto it = saved_.find(canonical(graph_, v));
      if (it != saved_.end()) return it->second;
      return keeps(graph_, attr_, v) ? saved_slice(v) : Value{};
    }
    const auto& parameters = graph_.block(body_).parameters;
    const auto at = static_cast<std::size_t>(
        std::find(parameters.begin(), parameters.end(), v.node) -
        parameters.begin());
    RINGMAX_CHECK(at < parameters.size());
    if (at == 0) return graph_.block_parameter(block_, 0);
    const std::size_t operand = at - 1;
    if (operand < carry_) return saved_slice(v);
    const Value outer = outside([&] { return context_.x(operand); });
    return operand < carry_ + xs_ ? add_slice(outer) : graph_.localize(outer);
  }

  void close(Backward& backward) {
    Values results;
    for (const std::size_t k : active_carry_) {
      results.push_back(backward.cotangent_or_zeros(body_parameter(k)));
    }
    for (std::size_t i = 0; i < active_captures_.size(); ++i) {
      const Value sum =
          graph_.block_parameter(block_, 1 + active_carry_.size() + i);
      const Value ct = backward.cotangent(body_parameter(active_captures_[i]));
      results.push_back(ct.valid() ? add(sum, ct) : sum);
    }
    std::vector<Shape> shapes;
    for (const Value& v : results) shapes.push_back(v.shape());
    for (const std::size_t k : active_xs_) {
      const Value ct = backward.cotangent_or_zeros(body_parameter(k));
      results.push_back(ct);
      Shape shape = ct.shape();
      shape.dims.insert(shape.dims.begin(), attr_.length);
      shapes.push_back(std::move(shape));
    }
    const Values captured = graph_.close_block(results);
    order_parameters(captured.size());
    Values operands = init_;
    operands.insert(operands.end(), slices_.begin(), slices_.end());
    operands.insert(operands.end(), captured.begin(), captured.end());
    ScanAttr attr;
    attr.length = attr_.length;
    attr.carry = static_cast<std::int64_t>(init_.size());
    attr.xs = static_cast<std::int64_t>(slices_.size());
    attr.reverse = !attr_.reverse;
    attr.unroll = attr_.unroll;
    attr.fence = attr_.remat.kind != RematPolicy::Kind::kSaveAll;
    const NodeId id = graph_.add_node(Op::kScan, std::move(operands),
                                      std::move(shapes), attr, {block_});
    std::int32_t r = 0;
    for (const auto* group : {&active_carry_, &active_captures_, &active_xs_}) {
      for (const std::size_t k : *group) {
        context_.give(k, graph_.value(id, r));
        ++r;
      }
    }
  }

  // Parameters were appended as they were asked for; a scan wants index,
  // carries, slices, captures.
  void order_parameters(std::size_t capture_count) {
    std::vector<NodeId> ordered = carried_parameters_;
    ordered.insert(ordered.end(), slice_parameters_.begin(),
                   slice_parameters_.end());
    for (const NodeId p : graph_.block(block_).parameters) {
      if (std::find(ordered.begin(), ordered.end(), p) == ordered.end()) {
        ordered.push_back(p);
      }
    }
    RINGMAX_CHECK(ordered.size() == carried_parameters_.size() +
                                        slice_parameters_.size() +
                                        capture_count);
    graph_.block(block_).parameters = std::move(ordered);
  }

  RuleContext& context_;
  Graph& graph_;
  const Node node_;
  const ScanAttr attr_;
  const BlockId body_;
  const std::size_t carry_;
  const std::size_t xs_;

  ValueSet active_;
  std::vector<std::size_t> active_carry_, active_xs_, active_captures_;
  BlockId block_ = -1;
  Values init_;
  std::vector<NodeId> carried_parameters_;
  std::vector<NodeId> slice_parameters_;
  Values slices_;
  std::vector<std::pair<std::size_t, Value>> stacked_cotangents_;
  ValueMap<Value> saved_;
  std::optional<Cloner> cloner_;
};

}  // namespace

void scan_rule(RuleContext& context) { ScanBackward(context).run(); }

void cond_rule(RuleContext& context) {
  Graph& graph = context.graph();
  const Node node = context.node();
  std::vector<std::size_t> wanted;
  for (std::size_t k = 1; k < node.operands.size(); ++k) {
    if (context.wants(k)) wanted.push_back(k);
  }
  const auto branch = [&](BlockId block) {
    const auto parameter = [&](std::size_t operand) {
      return graph.block_parameter(block, operand - 1);
    };
    Cloner cloner(
        graph,
        [&](Value v) {
          const auto& parameters = graph.block(block).parameters;
          const auto it =
              std::find(parameters.begin(), parameters.end(), v.node);
          if (it == parameters.end()) return Value{};
          const auto at = static_cast<std::size_t>(it - parameters.begin());
          // A value computed again in one branch would miss in the other.
          const Value outer = [&] {
            const OutsideBlock outside(graph);
            return context.x(1 + at);
          }();
          return graph.localize(outer);
        },
        "backward");
    Values sources;
    for (const std::size_t k : wanted) sources.push_back(parameter(k));
    Backward backward(graph, block, active_values(graph, block, sources),
                      [&](Value v) { return cloner.fetch(v); });
    for (std::size_t r = 0; r < node.results.size(); ++r) {
      const Value ct = context.cotangent(r);
      if (ct.valid()) backward.seed(graph.block(block).results[r], ct);
    }
    backward.run();
    Values out;
    for (const std::size_t k : wanted) {
      out.push_back(backward.cotangent_or_zeros(parameter(k)));
    }
    return out;
  };
  const Value predicate = context.x(0);
  const Values cotangents = cond(
      graph, predicate, [&] { return branch(node.regions[0]); },
      [&] { return branch(node.regions[1]); });
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    context.give(wanted[i], cotangents[i]);
  }
}

void custom_vjp_rule(RuleContext& context) {
  Graph& graph = context.graph();
  const Node node = context.node();
  const auto& attr = node.attr<RegionAttr>();
  const auto outputs = static_cast<std::size_t>(attr.count);
  const std::size_t residuals = node.results.size() - outputs;
  const BlockId block = node.regions[1];
  Cloner cloner(
      graph,
      [&](Value v) {
        const auto& parameters = graph.block(block).parameters;
        const auto it = std::find(parameters.begin(), parameters.end(), v.node);
        if (it == parameters.end()) return Value{};
        const auto at = static_cast<std::size_t>(it - parameters.begin());
        if (at < residuals) return context.y(outputs + at);
        return context.cotangent_or_zeros(at - residuals);
      },
      "backward");
  for (std::size_t k = 0; k < node.operands.size(); ++k) {
    if (context.wants(k)) {
      context.give(k, cloner.fetch(graph.block(block).results[k]));
    }
  }
}

}  // namespace ringmax::graph
