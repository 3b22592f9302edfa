#include "ringmax/kernel/twin.h"

#include <limits>
#include <unordered_map>
#include <utility>

#include "ringmax/base/error.h"
#include "ringmax/graph/ops.h"

namespace ringmax::kernel {
namespace {

namespace g = ringmax::graph;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

g::Value garbage(g::Graph& graph, const Shape& shape) {
  if (is_float(shape.dtype)) return g::constant(graph, shape, kNan);
  return g::constant(graph, shape, std::numeric_limits<std::int32_t>::min());
}

g::Value scalar(g::Graph& graph, std::int64_t value) {
  return g::constant(graph, Shape(DType::kI32, {}), static_cast<double>(value));
}

// Blocks of an array, and the place of one among them in row-major order.
std::int64_t block_count(const RefInfo& info) {
  std::int64_t count = 1;
  for (std::size_t d = 0; d < info.block.size(); ++d) {
    count *= info.array.dims[d] / info.block[d];
  }
  return count;
}
// Blocks along dimension `d`; exact in a double.
double blocks_along(const RefInfo& info, std::size_t d) {
  const std::int64_t count = info.array.dims[d] / info.block[d];
  return static_cast<double>(count);
}
g::Value linear_block(const RefInfo& info, const g::Values& block) {
  g::Value linear = block[0];
  for (std::size_t d = 1; d < block.size(); ++d) {
    linear = linear * blocks_along(info, d) + block[d];
  }
  return linear;
}
g::Values starts(const RefInfo& info, const g::Values& block) {
  g::Values start;
  for (std::size_t d = 0; d < block.size(); ++d) {
    start.push_back(block[d] * static_cast<double>(info.block[d]));
  }
  return start;
}
g::Value in_range(const RefInfo& info, const g::Values& block) {
  g::Value good;
  for (std::size_t d = 0; d < block.size(); ++d) {
    const g::Value low = g::greater_equal(block[d], g::zeros_like(block[d]));
    const g::Value high =
        g::less(block[d], g::full_like(block[d], blocks_along(info, d)));
    const g::Value both = g::logical_and(low, high);
    good = good.valid() ? g::logical_and(good, both) : both;
  }
  return good;
}

// Refs as arrays, and the values of the regions around.
struct State {
  std::vector<g::Value> refs;  // by RefId
  std::unordered_map<std::int32_t, g::Value> values;
};

class Lowering {
 public:
  Lowering(const Kernel& kernel, g::Graph& graph) : k_(kernel), graph_(graph) {}

  void bind(const Region& region, const g::Values& arguments, State* state) {
    for (std::size_t i = 0; i < arguments.size(); ++i) {
      state->values[region.arguments[i]] = arguments[i];
    }
  }
  g::Values run(RegionId id, const g::Values& arguments, State* state) {
    const Region& region = k_.region(id);
    bind(region, arguments, state);
    for (const NodeId n : region.nodes) node(k_.node(n), state);
    g::Values yields;
    for (const std::int32_t v : region.yields) {
      yields.push_back(state->values.at(v));
    }
    return yields;
  }
  // Runs a region's effects on refs where the predicate holds.
  void branch(g::Value predicate, RegionId id, const g::Values& arguments,
              State* state) {
    const std::vector<RefId> stored = k_.stored_refs(id);
    if (stored.empty()) return;
    const g::Values results = g::cond(
        graph_, predicate,
        [&] {
          State inner = *state;
          run(id, arguments, &inner);
          return pick(stored, inner);
        },
        [&] { return pick(stored, *state); });
    put(stored, results, state);
  }

 private:
  static g::Values pick(const std::vector<RefId>& ids, const State& state) {
    g::Values values;
    for (const RefId id : ids) {
      values.push_back(state.refs[static_cast<std::size_t>(id)]);
    }
    return values;
  }
  static void put(const std::vector<RefId>& ids, const g::Values& values,
                  State* state) {
    for (std::size_t i = 0; i < ids.size(); ++i) {
      state->refs[static_cast<std::size_t>(ids[i])] = values[i];
    }
  }

  void node(const Node& n, State* state) {
    const auto x = [&](std::size_t i) {
      return state->values.at(n.operands.at(i));
    };
    if (n.op == Op::kStore) return store(n, state);
    if (n.op == Op::kIf) return branch(x(0), n.regions[0], {}, state);
    if (n.op == Op::kFor) return loop(n, state);
    state->values[n.results.at(0)] = value(n, x, *state);
  }

  template <typename Operand>
  g::Value value(const Node& n, const Operand& x, const State& state) {
    const Shape& shape = k_.value_shape(n.results[0]);
    switch (n.op) {
      case Op::kConstant:
        return g::constant(graph_, shape, n.number);
      case Op::kIota:
        return g::iota(graph_, shape, n.dims[0]);
      case Op::kNegate:
        return g::negate(x(0));
      case Op::kAbs:
        return g::abs(x(0));
      case Op::kExp2:
        return exp2(x(0));
      case Op::kLog:
        return g::log(x(0));
      case Op::kTanh:
        return g::tanh(x(0));
      case Op::kConvert:
        return g::convert(x(0), shape.dtype);
      case Op::kAdd:
        return g::add(x(0), x(1));
      case Op::kSubtract:
        return g::subtract(x(0), x(1));
      case Op::kMultiply:
        return g::multiply(x(0), x(1));
      case Op::kDivide:
        return g::divide(x(0), x(1));
      case Op::kMaximum:
        return g::maximum(x(0), x(1));
      case Op::kMinimum:
        return g::minimum(x(0), x(1));
      case Op::kRemainder:
        return g::remainder(x(0), x(1));
      case Op::kAnd:
        return g::logical_and(x(0), x(1));
      case Op::kOr:
        return g::logical_or(x(0), x(1));
      case Op::kXor:
        return g::logical_xor(x(0), x(1));
      case Op::kShiftRight:
        return g::shift_right_logical(x(0), x(1));
      case Op::kCompare:
        return g::compare(x(0), x(1), n.compare);
      case Op::kSelect:
        return g::select(x(0), x(1), x(2));
      case Op::kMatmul:
        return matmul(n, x(0), x(1), x(2));
      case Op::kReduce:
        return g::expand_dim(g::reduce(x(0), n.dims, n.reduce), n.dims[0]);
      case Op::kBroadcast:
        return g::broadcast_to(x(0), shape.dims);
      case Op::kTranspose:
        return g::transpose(x(0), {1, 0});
      case Op::kConcatenate: {
        g::Values parts;
        for (std::size_t i = 0; i < n.operands.size(); ++i) {
          parts.push_back(x(i));
        }
        return g::concatenate(parts, n.dims[0]);
      }
      case Op::kSlice: {
        Dims limit = n.dims;
        for (std::size_t d = 0; d < limit.size(); ++d)
          limit[d] += shape.dims[d];
        return g::slice(x(0), n.dims, limit);
      }
      case Op::kMultipleOf:
        return x(0);
      case Op::kLoad: {
        g::Values start;
        for (std::size_t i = 0; i < n.operands.size(); ++i) {
          start.push_back(x(i));
        }
        return g::reshape(
            g::dynamic_slice(state.refs[static_cast<std::size_t>(n.ref)], start,
                             n.dims),
            shape.dims);
      }
      case Op::kLoadScalar:
        return g::reshape(
            g::dynamic_slice(state.refs[static_cast<std::size_t>(n.ref)],
                             {x(0)}, {1}),
            {});
      default:
        fail(ErrorCode::kInternal, "kernel {}: an op without a twin",
             k_.name());
    }
  }

  // 2^x by e^(x ln 2): exact at whole and infinite x alone, a few units in the
  // last place elsewhere.
  g::Value exp2(g::Value x) { return g::exp(x * 0.69314718055994530942); }

  g::Value matmul(const Node& n, g::Value lhs, g::Value rhs, g::Value init) {
    const bool single = n.matmul.precision == g::Precision::kDefault;
    const auto operand = [&](g::Value v) {
      return g::convert(single ? g::convert(v, DType::kBF16) : v, DType::kF32);
    };
    g::DotAttr attr;
    attr.lhs_contract = {n.matmul.lhs_contract};
    attr.rhs_contract = {n.matmul.rhs_contract};
    attr.precision = g::Precision::kHighest;
    return init + g::dot_general(operand(lhs), operand(rhs), attr, DType::kF32);
  }

  void store(const Node& n, State* state) {
    g::Value& ref = state->refs[static_cast<std::size_t>(n.ref)];
    g::Values start;
    for (std::size_t i = 1; i < n.operands.size(); ++i) {
      start.push_back(state->values.at(n.operands[i]));
    }
    ref = g::dynamic_update_slice(
        ref, g::reshape(state->values.at(n.operands[0]), n.dims), start);
  }

  void loop(const Node& n, State* state) {
    const RegionId body = n.regions[0];
    const std::vector<RefId> stored = k_.stored_refs(body);
    g::Values init = {state->values.at(n.operands[0])};
    for (std::size_t i = 2; i < n.operands.size(); ++i) {
      init.push_back(state->values.at(n.operands[i]));
    }
    const std::size_t carried = init.size();
    for (const g::Value v : pick(stored, *state)) init.push_back(v);
    const g::Value high = state->values.at(n.operands[1]);
    const g::Values results = g::while_loop(
        graph_, init, [&](const g::Values& c) { return g::less(c[0], high); },
        [&](const g::Values& c) {
          State inner = *state;
          put(stored,
              g::Values(c.begin() + static_cast<std::ptrdiff_t>(carried),
                        c.end()),
              &inner);
          g::Values next = {c[0] + 1.0};
          for (const g::Value v :
               run(body,
                   g::Values(c.begin(),
                             c.begin() + static_cast<std::ptrdiff_t>(carried)),
                   &inner)) {
            next.push_back(v);
          }
          for (const g::Value v : pick(stored, inner)) next.push_back(v);
          return next;
        });
    for (std::size_t i = 0; i < n.results.size(); ++i) {
      state->values[n.results[i]] = results[i + 1];
    }
    put(stored,
        g::Values(results.begin() + static_cast<std::ptrdiff_t>(carried),
                  results.end()),
        state);
  }

  const Kernel& k_;
  g::Graph& graph_;
};

// What an output carries from step to step.
enum OutputPart { kArray, kWindow, kBlock, kVisited, kOutputParts };

}  // namespace

graph::Values call_twin(const Kernel& kernel, const graph::Values& operands) {
  g::Graph& graph = *operands.at(0).graph;
  g::Scope scope(graph, kernel.name() + "_twin");
  const std::vector<RefId> outputs = kernel.refs_of(RefKind::kOutput);
  const std::vector<RefId> scratch = kernel.refs_of(RefKind::kScratch);
  const auto at = [](RefId id) { return static_cast<std::size_t>(id); };

  std::size_t next = 0;
  const g::Value length = kernel.walk_dynamic()
                              ? operands[next++]
                              : scalar(graph, kernel.walk_steps());
  std::vector<g::Value> arrays(kernel.refs().size());
  for (const RefKind kind : {RefKind::kPrefetch, RefKind::kInput}) {
    for (const RefId id : kernel.refs_of(kind))
      arrays[at(id)] = operands[next++];
  }
  std::int64_t programs = 1;
  for (const std::int64_t size : kernel.parallel_sizes()) programs *= size;
  const g::Value steps = length * static_cast<double>(programs);

  // step, good, outputs..., scratch...
  const g::Value yes = g::constant(graph, Shape(DType::kBool, {}), 1);
  g::Values init = {scalar(graph, 0), yes};
  for (const RefId id : outputs) {
    const RefInfo& info = kernel.ref(id);
    init.push_back(info.alias >= 0 ? arrays[at(info.alias)]
                                   : garbage(graph, info.array));
    init.push_back(garbage(graph, info.window()));
    init.push_back(scalar(graph, -1));
    init.push_back(
        g::constant(graph, Shape(DType::kBool, {block_count(info)}), 0));
  }
  for (const RefId id : scratch) {
    init.push_back(garbage(graph, kernel.ref(id).array));
  }

  const auto body = [&](const g::Values& carry) {
    Lowering lowering(kernel, graph);
    State state;
    state.refs = arrays;
    g::Value good = carry[1];
    const g::Value walk = g::remainder(carry[0], length);
    g::Values grid = {walk};
    g::Value rest = g::divide(carry[0], length);
    for (std::size_t d = kernel.parallel_sizes().size(); d-- > 0;) {
      const g::Value size = scalar(graph, kernel.parallel_sizes()[d]);
      grid.insert(grid.begin(), g::remainder(rest, size));
      rest = g::divide(rest, size);
    }
    const auto output_part = [&](std::size_t o, OutputPart part) {
      return 2 + o * kOutputParts + part;
    };

    std::vector<g::Values> blocks(kernel.refs().size());
    const auto find_block = [&](RefId id) {
      State prefetched;
      prefetched.refs = arrays;
      blocks[at(id)] =
          lowering.run(kernel.ref(id).index_map, grid, &prefetched);
      good = g::logical_and(good, in_range(kernel.ref(id), blocks[at(id)]));
    };
    for (const RefId id : kernel.refs_of(RefKind::kInput)) find_block(id);
    g::Values now = carry;
    for (std::size_t o = 0; o < outputs.size(); ++o) {
      const RefInfo& info = kernel.ref(outputs[o]);
      find_block(outputs[o]);
      const g::Value linear = linear_block(info, blocks[at(outputs[o])]);
      const g::Value entered =
          g::not_equal(linear, carry[output_part(o, kBlock)]);
      const g::Value visited = carry[output_part(o, kVisited)];
      const g::Value before =
          g::reshape(g::dynamic_slice(visited, {linear}, {1}), {});
      good =
          g::logical_and(good, g::logical_not(g::logical_and(entered, before)));
      if (info.alias >= 0) {
        good = g::logical_and(
            good, g::equal(linear, linear_block(info, blocks[at(info.alias)])));
        // The buffer is one: what the array holds now is what is read.
        state.refs[at(info.alias)] = carry[output_part(o, kArray)];
      }
      now[output_part(o, kBlock)] = linear;
      now[output_part(o, kVisited)] =
          g::dynamic_update_slice(visited, g::reshape(yes, {1}), {linear});
      state.refs[at(outputs[o])] =
          g::select(entered, garbage(graph, info.window()),
                    carry[output_part(o, kWindow)]);
    }
    for (const RefId id : kernel.refs_of(RefKind::kInput)) {
      const RefInfo& info = kernel.ref(id);
      state.refs[at(id)] = g::dynamic_slice(
          state.refs[at(id)], starts(info, blocks[at(id)]), info.block);
    }
    const std::size_t first_scratch = output_part(outputs.size(), kArray);
    const g::Value fresh = g::equal(walk, scalar(graph, 0));
    for (std::size_t s = 0; s < scratch.size(); ++s) {
      state.refs[at(scratch[s])] =
          g::select(fresh, garbage(graph, kernel.ref(scratch[s]).array),
                    carry[first_scratch + s]);
    }

    const auto guarded = [&](RegionId when, RegionId then) {
      if (when < 0) return;
      const g::Value predicate = lowering.run(when, grid, &state)[0];
      lowering.branch(predicate, then, grid, &state);
    };
    guarded(kernel.begin_when(), kernel.begin_body());
    lowering.run(kernel.step_body(), grid, &state);
    guarded(kernel.end_when(), kernel.end_body());

    now[0] = carry[0] + 1.0;
    now[1] = good;
    for (std::size_t o = 0; o < outputs.size(); ++o) {
      const RefInfo& info = kernel.ref(outputs[o]);
      const g::Value window = state.refs[at(outputs[o])];
      now[output_part(o, kWindow)] = window;
      now[output_part(o, kArray)] =
          g::dynamic_update_slice(carry[output_part(o, kArray)], window,
                                  starts(info, blocks[at(outputs[o])]));
    }
    for (std::size_t s = 0; s < scratch.size(); ++s) {
      now[first_scratch + s] = state.refs[at(scratch[s])];
    }
    return now;
  };

  const g::Values last = g::while_loop(
      graph, init,
      [&](const g::Values& carry) { return g::less(carry[0], steps); }, body);
  g::Values results;
  for (std::size_t o = 0; o < outputs.size(); ++o) {
    const g::Value array = last[2 + o * kOutputParts + kArray];
    results.push_back(g::select(last[1], array, garbage(graph, array.shape())));
  }
  return results;
}

}  // namespace ringmax::kernel
