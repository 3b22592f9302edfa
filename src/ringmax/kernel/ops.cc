#include "ringmax/kernel/ops.h"

#include <utility>

#include "ringmax/base/error.h"

namespace ringmax::kernel {
namespace {

Node make(Op op, const Values& operands) {
  Node node;
  node.op = op;
  for (const Value v : operands) node.operands.push_back(v.id);
  return node;
}

Kernel& kernel_of(const Values& values) {
  for (const Value v : values) {
    if (!v.valid() || v.kernel != values[0].kernel) {
      fail_invalid("an op on an invalid value, or on two kernels' values");
    }
  }
  return *values[0].kernel;
}

[[noreturn]] void mismatch(std::string_view what, Value a, Value b) {
  fail_invalid("kernel {}: {} of {} and {}", a.kernel->name(), what,
               a.shape().to_string(), b.shape().to_string());
}

void require(bool good, std::string_view what, Value x) {
  if (!good) {
    fail_invalid("kernel {}: {} of {}", x.kernel->name(), what,
                 x.shape().to_string());
  }
}

Value unary(Op op, std::string_view what, Value x) {
  Kernel& k = kernel_of({x});
  require(is_float(x.dtype()), what, x);
  return k.add(make(op, {x}), x.shape());
}

// A scalar beside a vector becomes a splat.
void unify(Value* a, Value* b) {
  if (a->scalar() && !b->scalar()) *a = broadcast_to(*a, b->dims());
  if (b->scalar() && !a->scalar()) *b = broadcast_to(*b, a->dims());
}

Value binary(Op op, std::string_view what, Value a, Value b) {
  Kernel& k = kernel_of({a, b});
  unify(&a, &b);
  if (a.shape() != b.shape()) mismatch(what, a, b);
  const bool numbers = a.dtype() != DType::kBool;
  const bool bits = op == Op::kAnd || op == Op::kOr || op == Op::kXor;
  if (bits ? is_float(a.dtype()) : !numbers) mismatch(what, a, b);
  const bool integers = op == Op::kRemainder || op == Op::kShiftRight;
  if (integers && !is_integer(a.dtype())) mismatch(what, a, b);
  return k.add(make(op, {a, b}), a.shape());
}

// Start values and sizes of a slice; sizes must fit and leading ones be 1.
Node access(Op op, Ref ref, const Indices& start, const Dims& sizes) {
  Kernel& k = *ref.kernel;
  const RefInfo& info = k.ref(ref.id);
  bool fits = start.size() == info.block.size() && sizes.size() == start.size();
  for (std::size_t d = 0; fits && d < sizes.size(); ++d) {
    fits = sizes[d] >= 1 && sizes[d] <= info.block[d] &&
           (start[d].dynamic.valid() ||
            (start[d].offset >= 0 &&
             start[d].offset + sizes[d] <= info.block[d])) &&
           (sizes[d] == 1 || d + 2 >= sizes.size());
  }
  if (!fits || info.kind == RefKind::kPrefetch) {
    fail_invalid(
        "kernel {}: a slice of sizes {} does not fit window {} of '{}'",
        k.name(), dims_string(sizes), dims_string(info.block), info.name);
  }
  Node node;
  node.op = op;
  node.ref = ref.id;
  node.dims = sizes;
  for (const Index& index : start) {
    const Value v =
        index.dynamic.valid() ? index.dynamic : constant_i32(k, index.offset);
    if (v.shape() != Shape(DType::kI32, {})) {
      require(false, "a slice that begins at a value", v);
    }
    node.operands.push_back(v.id);
  }
  return node;
}

Shape squeezed(DType dtype, const Dims& sizes) {
  return Shape(dtype, Dims(sizes.end() - 2, sizes.end()));
}

Indices zeros(Ref ref) {
  return Indices(ref.kernel->ref(ref.id).block.size(), Index(0));
}

}  // namespace

Value constant(Kernel& kernel, Shape shape, double value) {
  Node node;
  node.op = Op::kConstant;
  node.number = value;
  return kernel.add(std::move(node), std::move(shape));
}

Value constant_i32(Kernel& kernel, std::int64_t value) {
  return constant(kernel, Shape(DType::kI32, {}), static_cast<double>(value));
}

Value iota(Kernel& kernel, Dims dims, std::int64_t dim) {
  Node node;
  node.op = Op::kIota;
  if (dims.size() != 2 || dim < 0 || dim > 1) {
    fail_invalid("kernel {}: iota counts along dimension {} of {}",
                 kernel.name(), dim, dims_string(dims));
  }
  node.dims = {dim};
  return kernel.add(std::move(node), Shape(DType::kI32, std::move(dims)));
}

Value negate(Value x) { return unary(Op::kNegate, "negate", x); }
Value abs(Value x) { return unary(Op::kAbs, "abs", x); }
Value exp2(Value x) { return unary(Op::kExp2, "exp2", x); }
Value log(Value x) { return unary(Op::kLog, "log", x); }
Value tanh(Value x) { return unary(Op::kTanh, "tanh", x); }

Value convert(Value x, DType dtype) {
  Kernel& k = kernel_of({x});
  if (x.dtype() == dtype) return x;
  const bool good = (is_float(x.dtype()) && is_float(dtype)) ||
                    (x.dtype() == DType::kI32 && dtype == DType::kF32) ||
                    (x.dtype() == DType::kBool && dtype == DType::kI32);
  require(good, "a conversion that does not exist", x);
  return k.add(make(Op::kConvert, {x}), Shape(dtype, x.dims()));
}

Value add(Value a, Value b) { return binary(Op::kAdd, "add", a, b); }
Value subtract(Value a, Value b) {
  return binary(Op::kSubtract, "subtract", a, b);
}
Value multiply(Value a, Value b) {
  return binary(Op::kMultiply, "multiply", a, b);
}
Value divide(Value a, Value b) { return binary(Op::kDivide, "divide", a, b); }
Value maximum(Value a, Value b) {
  return binary(Op::kMaximum, "maximum", a, b);
}
Value minimum(Value a, Value b) {
  return binary(Op::kMinimum, "minimum", a, b);
}
Value remainder(Value a, Value b) {
  return binary(Op::kRemainder, "remainder", a, b);
}
Value logical_and(Value a, Value b) { return binary(Op::kAnd, "and", a, b); }
Value logical_or(Value a, Value b) { return binary(Op::kOr, "or", a, b); }
Value logical_xor(Value a, Value b) { return binary(Op::kXor, "xor", a, b); }
Value logical_not(Value x) {
  require(x.dtype() == DType::kBool, "not", x);
  return logical_xor(x, number_like(x, 1));
}
Value shift_right(Value a, Value b) {
  return binary(Op::kShiftRight, "shift_right", a, b);
}

Value compare(Value a, Value b, graph::CompareDirection direction) {
  Kernel& k = kernel_of({a, b});
  unify(&a, &b);
  if (a.shape() != b.shape() || a.dtype() == DType::kBool) {
    mismatch("compare", a, b);
  }
  Node node = make(Op::kCompare, {a, b});
  node.compare = direction;
  return k.add(std::move(node), Shape(DType::kBool, a.dims()));
}

Value select(Value predicate, Value on_true, Value on_false) {
  Kernel& k = kernel_of({predicate, on_true, on_false});
  unify(&on_true, &on_false);
  if (on_true.shape() != on_false.shape()) {
    mismatch("select", on_true, on_false);
  }
  if (predicate.dtype() != DType::kBool ||
      (!predicate.scalar() && predicate.dims() != on_true.dims())) {
    mismatch("select", predicate, on_true);
  }
  return k.add(make(Op::kSelect, {predicate, on_true, on_false}),
               on_true.shape());
}

Value select(Value predicate, Value on_true, double on_false) {
  return select(predicate, on_true, number_like(on_true, on_false));
}

Value select(Value predicate, double on_true, Value on_false) {
  return select(predicate, number_like(on_false, on_true), on_false);
}

Value number_like(Value like, double value) {
  return constant(*like.kernel, like.shape(), value);
}

Value matmul(Value lhs, Value rhs, MatmulAttr attr, Value accumulator) {
  Kernel& k = kernel_of({lhs, rhs});
  const auto valid = [](std::int64_t d) { return d == 0 || d == 1; };
  if (lhs.shape().rank() != 2 || rhs.shape().rank() != 2 ||
      !valid(attr.lhs_contract) || !valid(attr.rhs_contract) ||
      lhs.dtype() != rhs.dtype() || !is_float(lhs.dtype()) ||
      lhs.dim(static_cast<std::size_t>(attr.lhs_contract)) !=
          rhs.dim(static_cast<std::size_t>(attr.rhs_contract))) {
    mismatch("matmul", lhs, rhs);
  }
  const Shape shape(DType::kF32,
                    {lhs.dim(static_cast<std::size_t>(1 - attr.lhs_contract)),
                     rhs.dim(static_cast<std::size_t>(1 - attr.rhs_contract))});
  if (!accumulator.valid()) accumulator = constant(k, shape, 0);
  if (accumulator.shape() != shape) mismatch("matmul", lhs, accumulator);
  Node node = make(Op::kMatmul, {lhs, rhs, accumulator});
  node.matmul = attr;
  return k.add(std::move(node), shape);
}

Value reduce(Value x, std::int64_t dim, graph::ReduceKind kind) {
  Kernel& k = kernel_of({x});
  require(
      x.dtype() == DType::kF32 && x.shape().rank() == 2 && dim >= 0 &&
          dim < 2 &&
          (kind == graph::ReduceKind::kSum || kind == graph::ReduceKind::kMax),
      "a reduction (sum or maximum of float32 matrices)", x);
  Node node = make(Op::kReduce, {x});
  node.dims = {dim};
  node.reduce = kind;
  Shape shape = x.shape();
  shape.dims[static_cast<std::size_t>(dim)] = 1;
  return k.add(std::move(node), std::move(shape));
}

Value broadcast_to(Value x, Dims dims) {
  Kernel& k = kernel_of({x});
  if (x.dims() == dims) return x;
  bool fits = x.scalar() || x.dims().size() == dims.size();
  for (std::size_t d = 0; fits && d < x.dims().size(); ++d) {
    fits = x.dim(d) == dims[d] || x.dim(d) == 1;
  }
  require(fits, "a broadcast to " + dims_string(dims), x);
  return k.add(make(Op::kBroadcast, {x}), Shape(x.dtype(), std::move(dims)));
}

Value transpose(Value x) {
  Kernel& k = kernel_of({x});
  require(x.shape().rank() == 2, "transpose", x);
  return k.add(make(Op::kTranspose, {x}),
               Shape(x.dtype(), {x.dim(1), x.dim(0)}));
}

Value concatenate(const Values& parts, std::int64_t dim) {
  Kernel& k = kernel_of(parts);
  if (parts.size() == 1) return parts[0];
  Shape shape = parts[0].shape();
  const auto d = static_cast<std::size_t>(dim);
  require(shape.rank() == 2 && dim >= 0 && dim < 2, "concatenate", parts[0]);
  for (std::size_t i = 1; i < parts.size(); ++i) {
    Shape other = parts[i].shape();
    other.dims[d] = parts[0].dim(d);
    if (other != parts[0].shape()) mismatch("concatenate", parts[0], parts[i]);
    shape.dims[d] += parts[i].dim(d);
  }
  Node node = make(Op::kConcatenate, parts);
  node.dims = {dim};
  return k.add(std::move(node), std::move(shape));
}

Value slice(Value x, Dims start, Dims sizes) {
  Kernel& k = kernel_of({x});
  if (sizes == x.dims()) return x;
  bool fits = start.size() == x.dims().size() && sizes.size() == start.size();
  for (std::size_t d = 0; fits && d < start.size(); ++d) {
    fits = start[d] >= 0 && sizes[d] >= 1 && start[d] + sizes[d] <= x.dim(d);
  }
  require(fits, "a slice of sizes " + dims_string(sizes), x);
  Node node = make(Op::kSlice, {x});
  node.dims = std::move(start);
  return k.add(std::move(node), Shape(x.dtype(), std::move(sizes)));
}

Value repeat(Value x, std::int64_t times, std::int64_t dim) {
  require(times >= 1, "no repetition", x);
  return concatenate(Values(static_cast<std::size_t>(times), x), dim);
}

Value multiple_of(Value x, std::int64_t n) {
  Kernel& k = kernel_of({x});
  require(x.shape() == Shape(DType::kI32, {}) && n >= 1, "multiple_of", x);
  Node node = make(Op::kMultipleOf, {x});
  node.dims = {n};
  return k.add(std::move(node), x.shape());
}

Value load(Ref ref) {
  return load(ref, zeros(ref), ref.kernel->ref(ref.id).block);
}

Value load(Ref ref, const Indices& start, const Dims& sizes) {
  Node node = access(Op::kLoad, ref, start, sizes);
  const DType dtype = ref.kernel->ref(ref.id).array.dtype;
  return ref.kernel->add(std::move(node), squeezed(dtype, sizes));
}

void store(Ref ref, Value value) {
  store(ref, value, zeros(ref), ref.kernel->ref(ref.id).block);
}

void store(Ref ref, Value value, const Indices& start, const Dims& sizes) {
  Kernel& k = kernel_of({value});
  const RefInfo& info = k.ref(ref.id);
  Node node = access(Op::kStore, ref, start, sizes);
  const Shape shape = squeezed(info.array.dtype, sizes);
  if (value.shape() != shape || info.kind == RefKind::kInput) {
    fail_invalid("kernel {}: {} cannot be stored into {} of '{}'{}", k.name(),
                 value.shape().to_string(), shape.to_string(), info.name,
                 info.kind == RefKind::kInput ? ", an input" : "");
  }
  node.operands.insert(node.operands.begin(), value.id);
  k.add_node(std::move(node), {});
}

Value load_scalar(Ref ref, Value index) {
  Kernel& k = kernel_of({index});
  require(k.ref(ref.id).kind == RefKind::kPrefetch &&
              index.shape() == Shape(DType::kI32, {}),
          "a scalar load (prefetched integers by an i32)", index);
  Node node = make(Op::kLoadScalar, {index});
  node.ref = ref.id;
  return k.add(std::move(node), Shape(DType::kI32, {}));
}

void if_true(Value predicate, const std::function<void()>& body) {
  Kernel& k = kernel_of({predicate});
  require(predicate.shape() == Shape(DType::kBool, {}), "a branch", predicate);
  Node node = make(Op::kIf, {predicate});
  node.regions = {k.open_region({})};
  body();
  k.close_region({});
  k.add_node(std::move(node), {});
}

Values for_range(
    Value low, Value high, const Values& init,
    const std::function<Values(Value i, const Values& carry)>& body) {
  Kernel& k = kernel_of({low, high});
  const Shape scalar(DType::kI32, {});
  require(low.shape() == scalar && high.shape() == scalar, "a loop", low);
  Node node = make(Op::kFor, {low, high});
  std::vector<Shape> carried;
  for (const Value v : init) {
    node.operands.push_back(v.id);
    carried.push_back(v.shape());
  }
  std::vector<Shape> arguments = {scalar};
  arguments.insert(arguments.end(), carried.begin(), carried.end());
  const RegionId region = k.open_region(arguments);
  const Values inside = k.region_arguments(region);
  const Values next = body(inside[0], Values(inside.begin() + 1, inside.end()));
  if (next.size() != init.size()) {
    fail_invalid("kernel {}: a loop carries {} values and returns {}", k.name(),
                 init.size(), next.size());
  }
  for (std::size_t i = 0; i < next.size(); ++i) {
    if (next[i].shape() != carried[i]) mismatch("a loop", init[i], next[i]);
  }
  k.close_region(next);
  node.regions = {region};
  const NodeId id = k.add_node(std::move(node), carried);
  Values results;
  for (const std::int32_t r : k.node(id).results) {
    results.push_back(Value{&k, r});
  }
  return results;
}

}  // namespace ringmax::kernel
