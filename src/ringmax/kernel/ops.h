// Builders of a kernel's ops: free functions on its values and refs.
//
// Elementwise ops take equal shapes and dtypes, or a scalar beside a vector (a
// splat), or a C++ number. Nothing else broadcasts but broadcast_to().
#ifndef RINGMAX_KERNEL_OPS_H_
#define RINGMAX_KERNEL_OPS_H_

#include <functional>

#include "ringmax/kernel/kernel.h"

namespace ringmax::kernel {

// Sources.
Value constant(Kernel& kernel, Shape shape, double value);
Value constant_i32(Kernel& kernel, std::int64_t value);  // scalar
// int32 counting along `dim`.
Value iota(Kernel& kernel, Dims dims, std::int64_t dim);

// One operand.
Value negate(Value x);
Value abs(Value x);
Value exp2(Value x);
Value log(Value x);  // natural
Value tanh(Value x);
// Between float types, i32 -> float, bool -> i32.
Value convert(Value x, DType dtype);

// Two operands.
Value add(Value a, Value b);
Value subtract(Value a, Value b);
Value multiply(Value a, Value b);
Value divide(Value a, Value b);  // integers: truncates
Value maximum(Value a, Value b);
Value minimum(Value a, Value b);
Value remainder(Value a, Value b);    // integers
Value logical_and(Value a, Value b);  // bool or integer, as the next two
Value logical_or(Value a, Value b);
Value logical_xor(Value a, Value b);
Value logical_not(Value x);           // bool
Value shift_right(Value a, Value b);  // integers, zeros come in
Value compare(Value a, Value b, graph::CompareDirection direction);
inline Value equal(Value a, Value b) {
  return compare(a, b, graph::CompareDirection::kEq);
}
inline Value not_equal(Value a, Value b) {
  return compare(a, b, graph::CompareDirection::kNe);
}
inline Value less(Value a, Value b) {
  return compare(a, b, graph::CompareDirection::kLt);
}
inline Value less_equal(Value a, Value b) {
  return compare(a, b, graph::CompareDirection::kLe);
}
inline Value greater_equal(Value a, Value b) {
  return compare(a, b, graph::CompareDirection::kGe);
}
Value select(Value predicate, Value on_true, Value on_false);
Value select(Value predicate, Value on_true, double on_false);
Value select(Value predicate, double on_true, Value on_false);

inline Value operator+(Value a, Value b) { return add(a, b); }
inline Value operator-(Value a, Value b) { return subtract(a, b); }
inline Value operator*(Value a, Value b) { return multiply(a, b); }
inline Value operator/(Value a, Value b) { return divide(a, b); }
// A splat of the other operand's shape and dtype.
Value number_like(Value like, double value);
inline Value operator+(Value a, double b) { return a + number_like(a, b); }
inline Value operator-(Value a, double b) { return a - number_like(a, b); }
inline Value operator*(Value a, double b) { return a * number_like(a, b); }
inline Value operator/(Value a, double b) { return a / number_like(a, b); }

// Matrices: sum over one dimension of each, result [lhs's other, rhs's other]
// in float32, plus `accumulator` where one is given.
Value matmul(Value lhs, Value rhs, MatmulAttr attr, Value accumulator = {});
// The dimension stays, with size 1; kSum or kMax of floats.
Value reduce(Value x, std::int64_t dim, graph::ReduceKind kind);
// From a scalar, or from the same rank with dimensions of size 1.
Value broadcast_to(Value x, Dims dims);
Value transpose(Value x);
Value concatenate(const Values& parts, std::int64_t dim);
// The part of a matrix that begins at `start`.
Value slice(Value x, Dims start, Dims sizes);
// x side by side with itself, `times` times: for values that are the same in
// all lanes.
Value repeat(Value x, std::int64_t times, std::int64_t dim);
// Promises that an i32 scalar is a multiple of n, so that a slice which begins
// there is aligned to tiles.
Value multiple_of(Value x, std::int64_t n);

// Memory. Leading dimensions of size 1 beyond the last two are dropped from
// what a load returns and added to what a store takes.
Value load(Ref ref);
Value load(Ref ref, const Indices& start, const Dims& sizes);
void store(Ref ref, Value value);
void store(Ref ref, Value value, const Indices& start, const Dims& sizes);
// A prefetched i32.
Value load_scalar(Ref ref, Value index);

// Control. Regions see the values around them; they pass results on through
// refs, a loop through what it carries as well.
void if_true(Value predicate, const std::function<void()>& body);
// i = low, low + 1, ... high - 1 (i32 scalars).
Values for_range(
    Value low, Value high, const Values& init,
    const std::function<Values(Value i, const Values& carry)>& body);

}  // namespace ringmax::kernel

#endif  // RINGMAX_KERNEL_OPS_H_
