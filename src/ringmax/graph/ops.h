// Builders of elementwise, contraction, reduction and shape ops.
//
// Free functions on Values; each infers shape and dtype and throws
// kInvalidArgument naming both operands when they do not fit. Operands of an
// elementwise op have one shape and dtype; a C++ number is a splat of the other
// operand's shape. Only broadcast_to() and the *_like helpers broadcast.
// Semantics are StableHLO's (openxla.org StableHLO specification).
#ifndef RINGMAX_GRAPH_OPS_H_
#define RINGMAX_GRAPH_OPS_H_

#include <cstdint>
#include <string_view>
#include <vector>

#include "ringmax/base/array.h"
#include "ringmax/graph/graph.h"

namespace ringmax::graph {

// Sources.
Value constant(Graph& graph, Shape shape, double value);  // splat
Value constant(Graph& graph, const HostArray& literal);
// Counts 0, 1, ... along `dim`.
Value iota(Graph& graph, Shape shape, std::int64_t dim);
Value zeros_like(Value like);
Value full_like(Value like, double value);

// One operand; float unless said.
Value negate(Value x);
Value abs(Value x);
Value sign(Value x);
Value exp(Value x);
Value log(Value x);
Value log1p(Value x);
Value sqrt(Value x);
Value rsqrt(Value x);
Value tanh(Value x);
Value logistic(Value x);
Value sine(Value x);
Value cosine(Value x);
Value floor(Value x);
Value logical_not(Value x);  // bool or integer (bitwise)
Value is_finite(Value x);    // bool
Value convert(Value x, DType dtype);

// Two operands of one shape and dtype.
Value add(Value a, Value b);
Value subtract(Value a, Value b);
Value multiply(Value a, Value b);
Value divide(Value a, Value b);
Value maximum(Value a, Value b);
Value minimum(Value a, Value b);
Value power(Value a, Value b);
Value remainder(Value a, Value b);
Value logical_and(Value a, Value b);
Value logical_or(Value a, Value b);
Value logical_xor(Value a, Value b);
Value shift_left(Value a, Value b);
Value shift_right_logical(Value a, Value b);
Value compare(Value a, Value b, CompareDirection direction);
inline Value equal(Value a, Value b) {
  return compare(a, b, CompareDirection::kEq);
}
inline Value not_equal(Value a, Value b) {
  return compare(a, b, CompareDirection::kNe);
}
inline Value less(Value a, Value b) {
  return compare(a, b, CompareDirection::kLt);
}
inline Value less_equal(Value a, Value b) {
  return compare(a, b, CompareDirection::kLe);
}
inline Value greater(Value a, Value b) {
  return compare(a, b, CompareDirection::kGt);
}
inline Value greater_equal(Value a, Value b) {
  return compare(a, b, CompareDirection::kGe);
}
// `predicate` is bool of the same shape, or a bool scalar.
Value select(Value predicate, Value on_true, Value on_false);

inline Value operator+(Value a, Value b) { return add(a, b); }
inline Value operator-(Value a, Value b) { return subtract(a, b); }
inline Value operator*(Value a, Value b) { return multiply(a, b); }
inline Value operator/(Value a, Value b) { return divide(a, b); }
inline Value operator-(Value a) { return negate(a); }
Value operator+(Value a, double b);
Value operator-(Value a, double b);
Value operator*(Value a, double b);
Value operator/(Value a, double b);
Value operator-(double a, Value b);
Value operator/(double a, Value b);

// Contractions. Result dims: batch, then the lhs's free, then the rhs's free.
// `result` is the accumulation and result dtype; default: the operands'.
Value dot_general(Value lhs, Value rhs, DotAttr attr);
Value dot_general(Value lhs, Value rhs, DotAttr attr, DType result);
// Two-operand einsum without repeated letters in one operand,
// "bse,ehd->bshd". A letter in both operands and the result is a batch dim.
Value einsum(std::string_view spec, Value lhs, Value rhs,
             Precision precision = Precision::kDefault);
Value einsum(std::string_view spec, Value lhs, Value rhs, DType result,
             Precision precision = Precision::kDefault);

// Reductions over `dims` (removed from the shape). kSum/kMax/kMin of numbers,
// kAnd/kOr of bool. An empty maximum is -inf (or the lowest integer).
Value reduce(Value x, Dims dims, ReduceKind kind);
inline Value reduce_sum(Value x, Dims dims) {
  return reduce(x, std::move(dims), ReduceKind::kSum);
}
inline Value reduce_max(Value x, Dims dims) {
  return reduce(x, std::move(dims), ReduceKind::kMax);
}
inline Value reduce_min(Value x, Dims dims) {
  return reduce(x, std::move(dims), ReduceKind::kMin);
}

// Shape.
Value reshape(Value x, Dims dims);
Value transpose(Value x, Dims permutation);
// dims[i] is where dimension i of x goes; x's size there is equal or 1.
Value broadcast_in_dim(Value x, Dims result, Dims dims);
// Numpy rules: aligns trailing dimensions.
Value broadcast_to(Value x, const Dims& result);
// Inserts a dimension of size 1.
Value expand_dim(Value x, std::int64_t dim);
Value concatenate(const std::vector<Value>& parts, std::int64_t dim);
Value slice(Value x, Dims start, Dims limit, Dims stride = {});
// One dimension only.
Value slice_dim(Value x, std::int64_t dim, std::int64_t start,
                std::int64_t limit);
Value pad(Value x, Dims low, Dims high, double value, Dims interior = {});
Value reverse(Value x, Dims dims);
// `start` holds one integer scalar per dimension; clamped as StableHLO does.
Value dynamic_slice(Value x, const std::vector<Value>& start, Dims sizes);
Value dynamic_slice_dim(Value x, std::int64_t dim, Value start,
                        std::int64_t size);
Value dynamic_update_slice(Value x, Value update,
                           const std::vector<Value>& start);
Value dynamic_update_slice_dim(Value x, Value update, std::int64_t dim,
                               Value start);
// table [V, E...], rows int32 [...] -> [..., E...]; out of range clamps.
Value take_rows(Value table, Value rows);
// into [V, E...] += updates [..., E...] at rows [...]; duplicates add up,
// rows out of range are dropped.
Value scatter_add_rows(Value into, Value rows, Value updates);

// Gradient and optimisation markers.
Value stop_gradient(Value x);
// The name by which a RematPolicy keeps this value for the backward pass.
Value checkpoint_name(Value x, std::string_view name);
// Values come back unchanged, but the compiler may move nothing across.
std::vector<Value> optimization_barrier(const std::vector<Value>& values);

}  // namespace ringmax::graph

#endif  // RINGMAX_GRAPH_OPS_H_
