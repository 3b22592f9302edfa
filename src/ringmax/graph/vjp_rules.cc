// Gradient rules of ops without regions, one function each.
//
// A rule is given the cotangent of the result and gives cotangents of the
// operands that are wanted. Every op of op.cc either has a rule here or is
// declared non-differentiable; a test compares the two lists.
#include <algorithm>
#include <numeric>
#include <utility>

#include "ringmax/base/error.h"
#include "ringmax/graph/backward.h"
#include "ringmax/graph/ops.h"
#include "ringmax/graph/parallel.h"

namespace ringmax::graph {
namespace {

void negate_rule(RuleContext& c) { c.give(0, negate(c.cotangent())); }
void abs_rule(RuleContext& c) { c.give(0, c.cotangent() * sign(c.x(0))); }
void exp_rule(RuleContext& c) { c.give(0, c.cotangent() * c.y()); }
void log_rule(RuleContext& c) { c.give(0, c.cotangent() / c.x(0)); }
void log1p_rule(RuleContext& c) { c.give(0, c.cotangent() / (c.x(0) + 1.0)); }
void sqrt_rule(RuleContext& c) { c.give(0, c.cotangent() * 0.5 / c.y()); }
void rsqrt_rule(RuleContext& c) {
  const Value y = c.y();
  c.give(0, c.cotangent() * -0.5 * (y * y * y));
}
void tanh_rule(RuleContext& c) {
  const Value y = c.y();
  c.give(0, c.cotangent() * (1.0 - y * y));
}
void logistic_rule(RuleContext& c) {
  const Value y = c.y();
  c.give(0, c.cotangent() * (y * (1.0 - y)));
}
void sine_rule(RuleContext& c) { c.give(0, c.cotangent() * cosine(c.x(0))); }
void cosine_rule(RuleContext& c) {
  c.give(0, negate(c.cotangent() * sine(c.x(0))));
}
void convert_rule(RuleContext& c) {
  c.give(0, convert(c.cotangent(), c.operand_shape(0).dtype));
}

void add_rule(RuleContext& c) {
  if (c.wants(0)) c.give(0, c.cotangent());
  if (c.wants(1)) c.give(1, c.cotangent());
}
void subtract_rule(RuleContext& c) {
  if (c.wants(0)) c.give(0, c.cotangent());
  if (c.wants(1)) c.give(1, negate(c.cotangent()));
}
void multiply_rule(RuleContext& c) {
  if (c.wants(0)) c.give(0, c.cotangent() * c.x(1));
  if (c.wants(1)) c.give(1, c.cotangent() * c.x(0));
}
void divide_rule(RuleContext& c) {
  if (c.wants(0)) c.give(0, c.cotangent() / c.x(1));
  if (c.wants(1)) c.give(1, negate(c.cotangent() * c.y() / c.x(1)));
}

// A tie gives each operand half, the mean of the one-sided derivatives.
void extremum(RuleContext& c, CompareDirection wins) {
  const Value ct = c.cotangent();
  const Value a = c.x(0);
  const Value b = c.x(1);
  const Value half = ct * 0.5;
  const Value tie = equal(a, b);
  const Value zero = zeros_like(ct);
  const Value first = compare(a, b, wins);
  if (c.wants(0)) c.give(0, select(tie, half, select(first, ct, zero)));
  if (c.wants(1)) c.give(1, select(tie, half, select(first, zero, ct)));
}
void maximum_rule(RuleContext& c) { extremum(c, CompareDirection::kGt); }
void minimum_rule(RuleContext& c) { extremum(c, CompareDirection::kLt); }

void power_rule(RuleContext& c) {
  const Value a = c.x(0);
  const Value b = c.x(1);
  if (c.wants(0)) c.give(0, c.cotangent() * (b * power(a, b - 1.0)));
  if (c.wants(1)) c.give(1, c.cotangent() * (c.y() * log(a)));
}

void select_rule(RuleContext& c) {
  const Value p = c.x(0);
  const Value zero = zeros_like(c.cotangent());
  if (c.wants(1)) c.give(1, select(p, c.cotangent(), zero));
  if (c.wants(2)) c.give(2, select(p, zero, c.cotangent()));
}

Dims free_dims(std::int64_t rank, const Dims& batch, const Dims& contract) {
  Dims free;
  for (std::int64_t d = 0; d < rank; ++d) {
    if (std::count(batch.begin(), batch.end(), d) == 0 &&
        std::count(contract.begin(), contract.end(), d) == 0) {
      free.push_back(d);
    }
  }
  return free;
}

// Cotangent of one side of a dot_general. The result's dims are batch, lhs
// free, rhs free; contracting the cotangent with the other side over that
// side's free dims leaves batch, this side's free, this side's contracted.
void dot_side(RuleContext& c, bool left) {
  const auto attr = c.node().attr<DotAttr>();
  const std::size_t mine = left ? 0 : 1;
  const Dims& batch = left ? attr.lhs_batch : attr.rhs_batch;
  const Dims& contract = left ? attr.lhs_contract : attr.rhs_contract;
  const Dims& other_batch = left ? attr.rhs_batch : attr.lhs_batch;
  const Dims& other_contract = left ? attr.rhs_contract : attr.lhs_contract;
  const Shape shape = c.operand_shape(mine);
  const Value other = c.x(1 - mine);
  // Same dtype as the operands: a wider result's cotangent is rounded, as the
  // MXU would.
  const Value ct = convert(c.cotangent(), other.dtype());
  const Dims my_free = free_dims(shape.rank(), batch, contract);
  const Dims other_free = free_dims(other.rank(), other_batch, other_contract);
  const auto batches = static_cast<std::int64_t>(batch.size());
  const auto lhs_free =
      static_cast<std::int64_t>(left ? my_free.size() : other_free.size());
  DotAttr grad;
  grad.precision = attr.precision;
  for (std::int64_t i = 0; i < batches; ++i) grad.lhs_batch.push_back(i);
  grad.rhs_batch = other_batch;
  const std::int64_t first = left ? batches + lhs_free : batches;
  for (std::size_t i = 0; i < other_free.size(); ++i) {
    grad.lhs_contract.push_back(first + static_cast<std::int64_t>(i));
  }
  grad.rhs_contract = other_free;
  const Value raw = dot_general(ct, other, std::move(grad), shape.dtype);
  // raw: batch, my free, then the other side's contracted dims in the other
  // side's dimension order. Say where each dim of this side is.
  Dims order_of_contract(other_contract.size());
  std::iota(order_of_contract.begin(), order_of_contract.end(), 0);
  std::sort(order_of_contract.begin(), order_of_contract.end(),
            [&](std::int64_t a, std::int64_t b) {
              return other_contract[static_cast<std::size_t>(a)] <
                     other_contract[static_cast<std::size_t>(b)];
            });
  Dims position(static_cast<std::size_t>(shape.rank()));
  std::int64_t at = 0;
  for (const std::int64_t d : batch)
    position[static_cast<std::size_t>(d)] = at++;
  for (const std::int64_t d : my_free)
    position[static_cast<std::size_t>(d)] = at++;
  for (const std::int64_t i : order_of_contract) {
    position[static_cast<std::size_t>(contract[static_cast<std::size_t>(i)])] =
        at++;
  }
  c.give(mine, transpose(raw, std::move(position)));
}

void dot_rule(RuleContext& c) {
  if (c.wants(0)) dot_side(c, true);
  if (c.wants(1)) dot_side(c, false);
}

Value unreduce(Value reduced, const Dims& full, const Dims& dims) {
  Dims kept;
  for (std::int64_t d = 0; d < static_cast<std::int64_t>(full.size()); ++d) {
    if (std::count(dims.begin(), dims.end(), d) == 0) kept.push_back(d);
  }
  return broadcast_in_dim(reduced, full, std::move(kept));
}

void reduce_rule(RuleContext& c) {
  const auto attr = c.node().attr<DimsAttr>();
  const Dims full = c.operand_shape(0).dims;
  if (attr.reduce == ReduceKind::kSum) {
    c.give(0, unreduce(c.cotangent(), full, attr.dims));
    return;
  }
  // Maxima and minima share the cotangent among equal winners.
  const Value x = c.x(0);
  const Value wins = equal(x, unreduce(c.y(), full, attr.dims));
  const Value ones = convert(wins, x.dtype());
  const Value share = c.cotangent() / reduce_sum(ones, attr.dims);
  c.give(0, ones * unreduce(share, full, attr.dims));
}

void reshape_rule(RuleContext& c) {
  c.give(0, reshape(c.cotangent(), c.operand_shape(0).dims));
}

void transpose_rule(RuleContext& c) {
  const auto attr = c.node().attr<DimsAttr>();
  Dims inverse(attr.dims.size());
  for (std::size_t i = 0; i < inverse.size(); ++i) {
    inverse[static_cast<std::size_t>(attr.dims[i])] =
        static_cast<std::int64_t>(i);
  }
  c.give(0, transpose(c.cotangent(), std::move(inverse)));
}

void broadcast_rule(RuleContext& c) {
  const auto attr = c.node().attr<DimsAttr>();
  const Shape shape = c.operand_shape(0);
  const Value ct = c.cotangent();
  Dims summed;
  for (std::int64_t d = 0; d < ct.rank(); ++d) {
    const auto it = std::find(attr.dims.begin(), attr.dims.end(), d);
    const bool stretched =
        it != attr.dims.end() &&
        shape.dims[static_cast<std::size_t>(it - attr.dims.begin())] == 1 &&
        ct.dim(d) != 1;
    if (it == attr.dims.end() || stretched) summed.push_back(d);
  }
  c.give(0, reshape(reduce_sum(ct, std::move(summed)), shape.dims));
}

void concatenate_rule(RuleContext& c) {
  const Node node = c.node();
  const std::int64_t dim = node.attr<DimsAttr>().dims[0];
  std::int64_t start = 0;
  for (std::size_t k = 0; k < node.operands.size(); ++k) {
    const std::int64_t size =
        c.operand_shape(k).dims[static_cast<std::size_t>(dim)];
    if (c.wants(k)) {
      c.give(k, slice_dim(c.cotangent(), dim, start, start + size));
    }
    start += size;
  }
}

void slice_rule(RuleContext& c) {
  const auto attr = c.node().attr<WindowAttr>();
  const Dims& full = c.operand_shape(0).dims;
  const Dims& cut = c.cotangent().dims();
  Dims high(full.size());
  Dims interior(full.size());
  for (std::size_t d = 0; d < full.size(); ++d) {
    interior[d] = attr.stride[d] - 1;
    const std::int64_t covered =
        cut[d] == 0 ? 0 : (cut[d] - 1) * attr.stride[d] + 1;
    high[d] = full[d] - attr.start[d] - covered;
  }
  c.give(0, pad(c.cotangent(), attr.start, std::move(high), 0,
                std::move(interior)));
}

void pad_rule(RuleContext& c) {
  const auto attr = c.node().attr<WindowAttr>();
  const Value ct = c.cotangent();
  const Dims full = c.operand_shape(0).dims;
  // Negative padding cut elements off: put zeros back before slicing.
  Dims low(full.size()), high(full.size()), start(full.size()),
      limit(full.size()), stride(full.size());
  for (std::size_t d = 0; d < full.size(); ++d) {
    low[d] = std::max<std::int64_t>(0, -attr.start[d]);
    high[d] = std::max<std::int64_t>(0, -attr.limit[d]);
    stride[d] = attr.stride[d] + 1;
    start[d] = std::max<std::int64_t>(0, attr.start[d]);
    limit[d] =
        full[d] == 0 ? start[d] : start[d] + (full[d] - 1) * stride[d] + 1;
  }
  const Value inner =
      slice(pad(ct, std::move(low), std::move(high), 0), start, limit, stride);
  if (c.wants(0)) c.give(0, inner);
  if (c.wants(1)) {
    Dims all(full.size());
    std::iota(all.begin(), all.end(), 0);
    c.give(1, reduce_sum(ct, all) - reduce_sum(inner, all));
  }
}

void reverse_rule(RuleContext& c) {
  c.give(0, reverse(c.cotangent(), c.node().attr<DimsAttr>().dims));
}

std::vector<Value> start_operands(RuleContext& c, std::size_t first) {
  std::vector<Value> starts;
  for (std::size_t k = first; k < c.node().operands.size(); ++k) {
    starts.push_back(c.x(k));
  }
  return starts;
}

void dynamic_slice_rule(RuleContext& c) {
  c.give(0, dynamic_update_slice(constant(c.graph(), c.operand_shape(0), 0),
                                 c.cotangent(), start_operands(c, 1)));
}

void dynamic_update_slice_rule(RuleContext& c) {
  const std::vector<Value> starts = start_operands(c, 2);
  if (c.wants(0)) {
    c.give(0, dynamic_update_slice(c.cotangent(),
                                   constant(c.graph(), c.operand_shape(1), 0),
                                   starts));
  }
  if (c.wants(1)) {
    c.give(1, dynamic_slice(c.cotangent(), starts, c.operand_shape(1).dims));
  }
}

// take_rows clamps rows out of range, scatter_add_rows drops their updates; so
// each is the other's transpose only where that is made up for.
void take_rows_rule(RuleContext& c) {
  const Shape table = c.operand_shape(0);
  const Value rows = c.x(1);
  const Value last = full_like(rows, static_cast<double>(table.dims[0] - 1));
  const Value taken = minimum(maximum(rows, zeros_like(rows)), last);
  c.give(0,
         scatter_add_rows(constant(c.graph(), table, 0), taken, c.cotangent()));
}

void scatter_add_rows_rule(RuleContext& c) {
  const Value ct = c.cotangent();
  if (c.wants(0)) c.give(0, ct);
  if (!c.wants(2)) return;
  const Value rows = c.x(1);
  const Value count = full_like(rows, static_cast<double>(ct.dim(0)));
  const Value kept =
      logical_and(greater_equal(rows, zeros_like(rows)), less(rows, count));
  const Value taken = take_rows(ct, rows);
  Dims leading(static_cast<std::size_t>(rows.rank()));
  std::iota(leading.begin(), leading.end(), 0);
  c.give(2, select(broadcast_in_dim(kept, taken.dims(), std::move(leading)),
                   taken, zeros_like(taken)));
}

void barrier_rule(RuleContext& c) {
  for (std::size_t k = 0; k < c.node().operands.size(); ++k) {
    if (c.wants(k) && c.cotangent(k).valid()) c.give(k, c.cotangent(k));
  }
}

void stop_gradient_rule(RuleContext&) {}
void identity_rule(RuleContext& c) { c.give(0, c.cotangent()); }

void sharding_rule(RuleContext& c) {
  const auto attr = c.node().attr<ShardingAttr>();
  c.give(0, constrain(c.cotangent(), attr.backward_spec, attr.spec));
}

}  // namespace

Rule rule_for(Op op) {
  switch (op) {
    case Op::kNegate:
      return negate_rule;
    case Op::kAbs:
      return abs_rule;
    case Op::kExp:
      return exp_rule;
    case Op::kLog:
      return log_rule;
    case Op::kLog1p:
      return log1p_rule;
    case Op::kSqrt:
      return sqrt_rule;
    case Op::kRsqrt:
      return rsqrt_rule;
    case Op::kTanh:
      return tanh_rule;
    case Op::kLogistic:
      return logistic_rule;
    case Op::kSine:
      return sine_rule;
    case Op::kCosine:
      return cosine_rule;
    case Op::kConvert:
      return convert_rule;
    case Op::kAdd:
      return add_rule;
    case Op::kSubtract:
      return subtract_rule;
    case Op::kMultiply:
      return multiply_rule;
    case Op::kDivide:
      return divide_rule;
    case Op::kMaximum:
      return maximum_rule;
    case Op::kMinimum:
      return minimum_rule;
    case Op::kPower:
      return power_rule;
    case Op::kSelect:
      return select_rule;
    case Op::kDotGeneral:
      return dot_rule;
    case Op::kReduce:
      return reduce_rule;
    case Op::kReshape:
      return reshape_rule;
    case Op::kTranspose:
      return transpose_rule;
    case Op::kBroadcastInDim:
      return broadcast_rule;
    case Op::kConcatenate:
      return concatenate_rule;
    case Op::kSlice:
      return slice_rule;
    case Op::kPad:
      return pad_rule;
    case Op::kReverse:
      return reverse_rule;
    case Op::kDynamicSlice:
      return dynamic_slice_rule;
    case Op::kDynamicUpdateSlice:
      return dynamic_update_slice_rule;
    case Op::kTakeRows:
      return take_rows_rule;
    case Op::kScatterAddRows:
      return scatter_add_rows_rule;
    case Op::kScan:
      return scan_rule;
    case Op::kCond:
      return cond_rule;
    case Op::kCustomVjp:
      return custom_vjp_rule;
    case Op::kOptimizationBarrier:
      return barrier_rule;
    case Op::kStopGradient:
      return stop_gradient_rule;
    case Op::kCheckpointName:
      return identity_rule;
    case Op::kShardingConstraint:
      return sharding_rule;
    case Op::kParameter:
    case Op::kConstant:
    case Op::kIota:
    case Op::kSign:
    case Op::kFloor:
    case Op::kNot:
    case Op::kIsFinite:
    case Op::kRemainder:
    case Op::kAnd:
    case Op::kOr:
    case Op::kXor:
    case Op::kShiftLeft:
    case Op::kShiftRightLogical:
    case Op::kCompare:
    case Op::kWhile:
    case Op::kCustomCall:
    case Op::kManualComputation:
    case Op::kPartitionId:
    case Op::kCollectivePermute:
    case Op::kAllGather:
    case Op::kReduceScatter:
    case Op::kAllReduce:
    case Op::kAllToAll:
    case Op::kCount:
      return nullptr;
  }
  return nullptr;
}

}  // namespace ringmax::graph
