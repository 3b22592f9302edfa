#include "ringmax/graph/ops.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <utility>

#include "ringmax/base/error.h"

namespace ringmax::graph {
namespace {

void require_float(Op op, Value x) {
  if (!is_float(x.dtype())) {
    fail_invalid("{}: needs a float operand, got {}", op_name(op),
                 x.describe());
  }
}

Value unary(Op op, Value x) { return x.graph->add(op, {x}, x.shape()); }

Value float_unary(Op op, Value x) {
  require_float(op, x);
  return unary(op, x);
}

void require_same(std::string_view what, Value a, Value b) {
  if (a.shape() != b.shape()) {
    fail_invalid("{}: operands differ: {} and {}", what, a.describe(),
                 b.describe());
  }
}

Value binary(Op op, Value a, Value b) {
  require_same(op_name(op), a, b);
  return a.graph->add(op, {a, b}, a.shape());
}

void require_dim(std::string_view what, Value x, std::int64_t dim) {
  if (dim < 0 || dim >= x.rank()) {
    fail_invalid("{}: dimension {} is outside {}", what, dim, x.describe());
  }
}

void require_permutation(std::string_view what, Value x, const Dims& dims) {
  std::set<std::int64_t> seen;
  for (const std::int64_t d : dims) {
    require_dim(what, x, d);
    if (!seen.insert(d).second) {
      fail_invalid("{}: dimension {} is named twice for {}", what, d,
                   x.describe());
    }
  }
}

}  // namespace

Value constant(Graph& graph, Shape shape, double value) {
  ConstantAttr attr;
  if (is_integer(shape.dtype)) {
    attr.integer = static_cast<std::int64_t>(value);
  } else {
    attr.number = value;
  }
  return graph.add(Op::kConstant, {}, std::move(shape), std::move(attr));
}

Value constant(Graph& graph, const HostArray& literal) {
  ConstantAttr attr;
  attr.splat = false;
  attr.dense = literal;
  return graph.add(Op::kConstant, {}, literal.shape(), std::move(attr));
}

Value iota(Graph& graph, Shape shape, std::int64_t dim) {
  if (dim < 0 || dim >= shape.rank()) {
    fail_invalid("iota: dimension {} is outside {}", dim, shape.to_string());
  }
  return graph.add(Op::kIota, {}, std::move(shape), DimsAttr{{dim}});
}

Value zeros_like(Value like) { return full_like(like, 0); }
Value full_like(Value like, double value) {
  return constant(*like.graph, like.shape(), value);
}

Value negate(Value x) { return unary(Op::kNegate, x); }
Value abs(Value x) { return unary(Op::kAbs, x); }
Value sign(Value x) { return unary(Op::kSign, x); }
Value exp(Value x) { return float_unary(Op::kExp, x); }
Value log(Value x) { return float_unary(Op::kLog, x); }
Value log1p(Value x) { return float_unary(Op::kLog1p, x); }
Value sqrt(Value x) { return float_unary(Op::kSqrt, x); }
Value rsqrt(Value x) { return float_unary(Op::kRsqrt, x); }
Value tanh(Value x) { return float_unary(Op::kTanh, x); }
Value logistic(Value x) { return float_unary(Op::kLogistic, x); }
Value sine(Value x) { return float_unary(Op::kSine, x); }
Value cosine(Value x) { return float_unary(Op::kCosine, x); }
Value floor(Value x) { return float_unary(Op::kFloor, x); }

Value logical_not(Value x) {
  if (is_float(x.dtype())) {
    fail_invalid("not: needs bool or integers, got {}", x.describe());
  }
  return unary(Op::kNot, x);
}

Value is_finite(Value x) {
  require_float(Op::kIsFinite, x);
  return x.graph->add(Op::kIsFinite, {x}, Shape(DType::kBool, x.dims()));
}

Value convert(Value x, DType dtype) {
  if (x.dtype() == dtype) return x;
  return x.graph->add(Op::kConvert, {x}, Shape(dtype, x.dims()));
}

Value add(Value a, Value b) { return binary(Op::kAdd, a, b); }
Value subtract(Value a, Value b) { return binary(Op::kSubtract, a, b); }
Value multiply(Value a, Value b) { return binary(Op::kMultiply, a, b); }
Value divide(Value a, Value b) { return binary(Op::kDivide, a, b); }
Value maximum(Value a, Value b) { return binary(Op::kMaximum, a, b); }
Value minimum(Value a, Value b) { return binary(Op::kMinimum, a, b); }
Value power(Value a, Value b) { return binary(Op::kPower, a, b); }
Value remainder(Value a, Value b) { return binary(Op::kRemainder, a, b); }
Value logical_and(Value a, Value b) { return binary(Op::kAnd, a, b); }
Value logical_or(Value a, Value b) { return binary(Op::kOr, a, b); }
Value logical_xor(Value a, Value b) { return binary(Op::kXor, a, b); }
Value shift_left(Value a, Value b) { return binary(Op::kShiftLeft, a, b); }
Value shift_right_logical(Value a, Value b) {
  return binary(Op::kShiftRightLogical, a, b);
}

Value compare(Value a, Value b, CompareDirection direction) {
  require_same("compare", a, b);
  return a.graph->add(Op::kCompare, {a, b}, Shape(DType::kBool, a.dims()),
                      CompareAttr{direction});
}

Value select(Value predicate, Value on_true, Value on_false) {
  require_same("select", on_true, on_false);
  if (predicate.dtype() != DType::kBool ||
      (predicate.rank() != 0 && predicate.dims() != on_true.dims())) {
    fail_invalid(
        "select: predicate {} must be bool and a scalar or of the shape of {}",
        predicate.describe(), on_true.describe());
  }
  return on_true.graph->add(Op::kSelect, {predicate, on_true, on_false},
                            on_true.shape());
}

Value operator+(Value a, double b) { return add(a, full_like(a, b)); }
Value operator-(Value a, double b) { return subtract(a, full_like(a, b)); }
Value operator*(Value a, double b) { return multiply(a, full_like(a, b)); }
Value operator/(Value a, double b) { return divide(a, full_like(a, b)); }
Value operator-(double a, Value b) { return subtract(full_like(b, a), b); }
Value operator/(double a, Value b) { return divide(full_like(b, a), b); }

Value dot_general(Value lhs, Value rhs, DotAttr attr) {
  return dot_general(lhs, rhs, std::move(attr), lhs.dtype());
}

Value dot_general(Value lhs, Value rhs, DotAttr attr, DType result) {
  const auto refuse = [&](std::string_view why) {
    fail_invalid(
        "dot_general: {}: {} and {}, batching dims {} x {}, contracting dims "
        "{} x {}",
        why, lhs.describe(), rhs.describe(), dims_string(attr.lhs_batch),
        dims_string(attr.rhs_batch), dims_string(attr.lhs_contract),
        dims_string(attr.rhs_contract));
  };
  if (lhs.dtype() != rhs.dtype()) refuse("dtypes differ");
  if (attr.lhs_batch.size() != attr.rhs_batch.size() ||
      attr.lhs_contract.size() != attr.rhs_contract.size()) {
    refuse("dimension lists differ in length");
  }
  const auto check_pairs = [&](const Dims& l, const Dims& r) {
    for (std::size_t i = 0; i < l.size(); ++i) {
      require_dim("dot_general lhs", lhs, l[i]);
      require_dim("dot_general rhs", rhs, r[i]);
      if (lhs.dim(l[i]) != rhs.dim(r[i])) refuse("sizes differ");
    }
  };
  check_pairs(attr.lhs_batch, attr.rhs_batch);
  check_pairs(attr.lhs_contract, attr.rhs_contract);
  Dims dims;
  for (const std::int64_t d : attr.lhs_batch) dims.push_back(lhs.dim(d));
  const auto add_free = [&](Value x, const Dims& batch, const Dims& contract) {
    for (std::int64_t d = 0; d < x.rank(); ++d) {
      if (std::count(batch.begin(), batch.end(), d) == 0 &&
          std::count(contract.begin(), contract.end(), d) == 0) {
        dims.push_back(x.dim(d));
      }
    }
  };
  add_free(lhs, attr.lhs_batch, attr.lhs_contract);
  add_free(rhs, attr.rhs_batch, attr.rhs_contract);
  return lhs.graph->add(Op::kDotGeneral, {lhs, rhs},
                        Shape(result, std::move(dims)), std::move(attr));
}

Value einsum(std::string_view spec, Value lhs, Value rhs, Precision precision) {
  return einsum(spec, lhs, rhs, lhs.dtype(), precision);
}

Value einsum(std::string_view spec, Value lhs, Value rhs, DType result,
             Precision precision) {
  const std::size_t comma = spec.find(',');
  const std::size_t arrow = spec.find("->");
  if (comma == std::string_view::npos || arrow == std::string_view::npos ||
      comma > arrow) {
    fail_invalid("einsum: '{}' is not of the form 'ab,bc->ac'", spec);
  }
  const std::string_view a = spec.substr(0, comma);
  const std::string_view b = spec.substr(comma + 1, arrow - comma - 1);
  const std::string_view out = spec.substr(arrow + 2);
  if (static_cast<std::int64_t>(a.size()) != lhs.rank() ||
      static_cast<std::int64_t>(b.size()) != rhs.rank()) {
    fail_invalid("einsum '{}': ranks do not fit {} and {}", spec,
                 lhs.describe(), rhs.describe());
  }
  DotAttr attr;
  attr.precision = precision;
  std::string natural, a_free, b_free;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const std::size_t j = b.find(a[i]);
    const bool in_out = out.find(a[i]) != std::string_view::npos;
    if (j == std::string_view::npos) {
      a_free += a[i];
    } else if (in_out) {
      attr.lhs_batch.push_back(static_cast<std::int64_t>(i));
      attr.rhs_batch.push_back(static_cast<std::int64_t>(j));
      natural += a[i];
    } else {
      attr.lhs_contract.push_back(static_cast<std::int64_t>(i));
      attr.rhs_contract.push_back(static_cast<std::int64_t>(j));
    }
  }
  for (const char c : b) {
    if (a.find(c) == std::string_view::npos) b_free += c;
  }
  natural += a_free + b_free;
  Dims permutation;
  for (const char c : out) {
    const std::size_t at = natural.find(c);
    if (at == std::string::npos) {
      fail_invalid("einsum '{}': '{}' is in no operand", spec, c);
    }
    permutation.push_back(static_cast<std::int64_t>(at));
  }
  if (permutation.size() != natural.size()) {
    fail_invalid(
        "einsum '{}': a letter of one operand only must be in the "
        "result",
        spec);
  }
  return transpose(dot_general(lhs, rhs, std::move(attr), result),
                   std::move(permutation));
}

Value reduce(Value x, Dims dims, ReduceKind kind) {
  require_permutation("reduce", x, dims);
  const bool logical = kind == ReduceKind::kAnd || kind == ReduceKind::kOr;
  if (logical != (x.dtype() == DType::kBool)) {
    fail_invalid("reduce: and/or need bool, sum/max/min numbers; got {}",
                 x.describe());
  }
  if (dims.empty()) return x;
  std::sort(dims.begin(), dims.end());
  Dims result;
  for (std::int64_t d = 0; d < x.rank(); ++d) {
    if (!std::binary_search(dims.begin(), dims.end(), d)) {
      result.push_back(x.dim(d));
    }
  }
  return x.graph->add(Op::kReduce, {x}, Shape(x.dtype(), std::move(result)),
                      DimsAttr{std::move(dims), kind});
}

Value reshape(Value x, Dims dims) {
  if (dims == x.dims()) return x;
  if (element_count(dims) != x.shape().elements()) {
    fail_invalid("reshape: {} does not have the elements of {}", x.describe(),
                 dims_string(dims));
  }
  return x.graph->add(Op::kReshape, {x}, Shape(x.dtype(), std::move(dims)));
}

Value transpose(Value x, Dims permutation) {
  require_permutation("transpose", x, permutation);
  if (static_cast<std::int64_t>(permutation.size()) != x.rank()) {
    fail_invalid("transpose: permutation {} does not fit {}",
                 dims_string(permutation), x.describe());
  }
  if (std::is_sorted(permutation.begin(), permutation.end())) return x;
  Dims result;
  for (const std::int64_t d : permutation) result.push_back(x.dim(d));
  return x.graph->add(Op::kTranspose, {x}, Shape(x.dtype(), std::move(result)),
                      DimsAttr{std::move(permutation)});
}

Value broadcast_in_dim(Value x, Dims result, Dims dims) {
  bool fits = static_cast<std::int64_t>(dims.size()) == x.rank();
  for (std::size_t i = 0; fits && i < dims.size(); ++i) {
    const auto rank = static_cast<std::int64_t>(result.size());
    fits = dims[i] >= 0 && dims[i] < rank && (i == 0 || dims[i] > dims[i - 1]);
    if (fits) {
      const std::int64_t size = x.dim(static_cast<std::int64_t>(i));
      fits = size == 1 || size == result[static_cast<std::size_t>(dims[i])];
    }
  }
  if (!fits) {
    fail_invalid("broadcast: {} does not broadcast to {} with dims {}",
                 x.describe(), dims_string(result), dims_string(dims));
  }
  if (x.dims() == result) return x;
  return x.graph->add(Op::kBroadcastInDim, {x},
                      Shape(x.dtype(), std::move(result)),
                      DimsAttr{std::move(dims)});
}

Value broadcast_to(Value x, const Dims& result) {
  Dims dims(static_cast<std::size_t>(x.rank()));
  std::iota(dims.begin(), dims.end(),
            static_cast<std::int64_t>(result.size()) - x.rank());
  return broadcast_in_dim(x, result, std::move(dims));
}

Value expand_dim(Value x, std::int64_t dim) {
  Dims dims = x.dims();
  RINGMAX_CHECK(dim >= 0 && dim <= x.rank());
  dims.insert(dims.begin() + dim, 1);
  return reshape(x, std::move(dims));
}

Value concatenate(const std::vector<Value>& parts, std::int64_t dim) {
  RINGMAX_CHECK(!parts.empty());
  if (parts.size() == 1) return parts[0];
  require_dim("concatenate", parts[0], dim);
  Shape shape = parts[0].shape();
  const auto at = static_cast<std::size_t>(dim);
  shape.dims[at] = 0;
  for (const Value& part : parts) {
    Shape other = part.shape();
    if (other.rank() == shape.rank()) other.dims[at] = shape.dims[at];
    if (other != shape) {
      fail_invalid("concatenate: {} and {} differ outside dimension {}",
                   parts[0].describe(), part.describe(), dim);
    }
    shape.dims[at] += part.dim(dim);
  }
  return parts[0].graph->add(Op::kConcatenate, parts, std::move(shape),
                             DimsAttr{{dim}});
}

Value slice(Value x, Dims start, Dims limit, Dims stride) {
  const auto rank = static_cast<std::size_t>(x.rank());
  if (stride.empty()) stride.assign(rank, 1);
  if (start.size() != rank || limit.size() != rank || stride.size() != rank) {
    fail_invalid("slice: {} to {} does not fit {}", dims_string(start),
                 dims_string(limit), x.describe());
  }
  Dims result(rank);
  for (std::size_t d = 0; d < rank; ++d) {
    if (start[d] < 0 || limit[d] < start[d] || limit[d] > x.dims()[d] ||
        stride[d] < 1) {
      fail_invalid("slice: {} to {} by {} is outside {}", dims_string(start),
                   dims_string(limit), dims_string(stride), x.describe());
    }
    result[d] = (limit[d] - start[d] + stride[d] - 1) / stride[d];
  }
  if (result == x.dims()) return x;
  return x.graph->add(
      Op::kSlice, {x}, Shape(x.dtype(), std::move(result)),
      WindowAttr{std::move(start), std::move(limit), std::move(stride)});
}

Value slice_dim(Value x, std::int64_t dim, std::int64_t start,
                std::int64_t limit) {
  require_dim("slice", x, dim);
  Dims starts(static_cast<std::size_t>(x.rank()), 0);
  Dims limits = x.dims();
  starts[static_cast<std::size_t>(dim)] = start;
  limits[static_cast<std::size_t>(dim)] = limit;
  return slice(x, std::move(starts), std::move(limits));
}

Value pad(Value x, Dims low, Dims high, double value, Dims interior) {
  const auto rank = static_cast<std::size_t>(x.rank());
  if (interior.empty()) interior.assign(rank, 0);
  if (low.size() != rank || high.size() != rank || interior.size() != rank) {
    fail_invalid("pad: {} and {} do not fit {}", dims_string(low),
                 dims_string(high), x.describe());
  }
  Dims result(rank);
  for (std::size_t d = 0; d < rank; ++d) {
    const std::int64_t size = x.dims()[d];
    result[d] = low[d] + high[d] + size +
                std::max<std::int64_t>(size - 1, 0) * interior[d];
    if (result[d] < 0 || interior[d] < 0) {
      fail_invalid("pad: {} and {} make a negative size of {}",
                   dims_string(low), dims_string(high), x.describe());
    }
  }
  const Value filler = constant(*x.graph, Shape(x.dtype(), {}), value);
  return x.graph->add(
      Op::kPad, {x, filler}, Shape(x.dtype(), std::move(result)),
      WindowAttr{std::move(low), std::move(high), std::move(interior)});
}

Value reverse(Value x, Dims dims) {
  require_permutation("reverse", x, dims);
  return x.graph->add(Op::kReverse, {x}, x.shape(), DimsAttr{std::move(dims)});
}

namespace {
void require_starts(std::string_view what, Value x,
                    const std::vector<Value>& start) {
  bool fits = static_cast<std::int64_t>(start.size()) == x.rank();
  for (const Value& s : start) {
    fits = fits && s.rank() == 0 && is_integer(s.dtype());
  }
  if (!fits) {
    fail_invalid("{}: needs one integer scalar per dimension of {}", what,
                 x.describe());
  }
}

std::vector<Value> starts_at(Value x, std::int64_t dim, Value start) {
  std::vector<Value> starts(static_cast<std::size_t>(x.rank()),
                            zeros_like(start));
  starts[static_cast<std::size_t>(dim)] = start;
  return starts;
}
}  // namespace

Value dynamic_slice(Value x, const std::vector<Value>& start, Dims sizes) {
  require_starts("dynamic_slice", x, start);
  for (std::size_t d = 0; d < sizes.size(); ++d) {
    if (sizes.size() != start.size() || sizes[d] > x.dims()[d]) {
      fail_invalid("dynamic_slice: sizes {} do not fit {}", dims_string(sizes),
                   x.describe());
    }
  }
  std::vector<Value> operands = {x};
  operands.insert(operands.end(), start.begin(), start.end());
  Shape shape(x.dtype(), sizes);
  return x.graph->add(Op::kDynamicSlice, std::move(operands), std::move(shape),
                      WindowAttr{{}, std::move(sizes), {}});
}

Value dynamic_slice_dim(Value x, std::int64_t dim, Value start,
                        std::int64_t size) {
  require_dim("dynamic_slice", x, dim);
  Dims sizes = x.dims();
  sizes[static_cast<std::size_t>(dim)] = size;
  return dynamic_slice(x, starts_at(x, dim, start), std::move(sizes));
}

Value dynamic_update_slice(Value x, Value update,
                           const std::vector<Value>& start) {
  require_starts("dynamic_update_slice", x, start);
  bool fits = update.rank() == x.rank() && update.dtype() == x.dtype();
  for (std::int64_t d = 0; fits && d < x.rank(); ++d) {
    fits = update.dim(d) <= x.dim(d);
  }
  if (!fits) {
    fail_invalid("dynamic_update_slice: {} does not fit into {}",
                 update.describe(), x.describe());
  }
  std::vector<Value> operands = {x, update};
  operands.insert(operands.end(), start.begin(), start.end());
  return x.graph->add(Op::kDynamicUpdateSlice, std::move(operands), x.shape());
}

Value dynamic_update_slice_dim(Value x, Value update, std::int64_t dim,
                               Value start) {
  require_dim("dynamic_update_slice", x, dim);
  return dynamic_update_slice(x, update, starts_at(x, dim, start));
}

Value take_rows(Value table, Value rows) {
  if (table.rank() < 1 || rows.dtype() != DType::kI32) {
    fail_invalid("take_rows: {} is not a table or {} not int32",
                 table.describe(), rows.describe());
  }
  Dims result = rows.dims();
  result.insert(result.end(), table.dims().begin() + 1, table.dims().end());
  return table.graph->add(Op::kTakeRows, {table, rows},
                          Shape(table.dtype(), std::move(result)));
}

Value scatter_add_rows(Value into, Value rows, Value updates) {
  Dims expected = rows.dims();
  if (into.rank() >= 1) {
    expected.insert(expected.end(), into.dims().begin() + 1, into.dims().end());
  }
  if (into.rank() < 1 || rows.dtype() != DType::kI32 ||
      updates.shape() != Shape(into.dtype(), expected)) {
    fail_invalid("scatter_add_rows: {} at {} does not fit into {}",
                 updates.describe(), rows.describe(), into.describe());
  }
  return into.graph->add(Op::kScatterAddRows, {into, rows, updates},
                         into.shape());
}

Value stop_gradient(Value x) {
  return x.graph->add(Op::kStopGradient, {x}, x.shape());
}

Value checkpoint_name(Value x, std::string_view name) {
  return x.graph->add(Op::kCheckpointName, {x}, x.shape(),
                      NameAttr{std::string(name)});
}

std::vector<Value> optimization_barrier(const std::vector<Value>& values) {
  if (values.empty()) return {};
  Graph& graph = *values[0].graph;
  std::vector<Shape> shapes;
  for (const Value& v : values) shapes.push_back(v.shape());
  const NodeId id =
      graph.add_node(Op::kOptimizationBarrier, values, std::move(shapes), {});
  std::vector<Value> results;
  for (std::size_t i = 0; i < values.size(); ++i) {
    results.push_back(graph.value(id, static_cast<std::int32_t>(i)));
  }
  return results;
}

}  // namespace ringmax::graph
