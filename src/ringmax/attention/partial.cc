#include "ringmax/attention/partial.h"

#include <limits>

#include "ringmax/graph/ops.h"

namespace ringmax::attention {
namespace {

using graph::Value;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// 0 where x is not finite: subtracting it from -inf then stays -inf.
Value finite_or_zero(Value x) {
  return graph::select(graph::is_finite(x), x, graph::zeros_like(x));
}

Value over_values(Value x_BKGS, const Dims& dims) {
  return graph::broadcast_in_dim(x_BKGS, dims, {0, 1, 2, 3});
}

struct Side {
  Value max, sum;
};
// Two sums under one maximum, and the share of each side in the whole: 0 for an
// empty one.
struct Meeting {
  Value max, sum;
  Value share_a, share_b;
};

Meeting meet(const Side& a, const Side& b) {
  const Value top = graph::maximum(a.max, b.max);
  const Value base = finite_or_zero(top);
  const Value in_a = a.sum * graph::exp(a.max - base);
  const Value in_b = b.sum * graph::exp(b.max - base);
  const Value sum = in_a + in_b;
  const Value safe = graph::select(graph::equal(sum, graph::zeros_like(sum)),
                                   graph::full_like(sum, 1), sum);
  return {top, sum, in_a / safe, in_b / safe};
}

}  // namespace

KernelPartial empty_partial(Value q_BKGSD, std::int64_t value_dim) {
  graph::Graph& g = *q_BKGSD.graph;
  Dims row = q_BKGSD.dims();
  row.pop_back();
  Dims out = row;
  out.push_back(value_dim);
  const Shape rows(DType::kF32, row);
  return {graph::constant(g, Shape(DType::kF32, out), 0),
          graph::constant(g, rows, 0), graph::constant(g, rows, -kInfinity)};
}

KernelPartial merge(const KernelPartial& a, const KernelPartial& b) {
  const Meeting m = meet({a.max_BKGS, a.sum_BKGS}, {b.max_BKGS, b.sum_BKGS});
  const Dims& dims = a.out_BKGSV.dims();
  return {a.out_BKGSV * over_values(m.share_a, dims) +
              b.out_BKGSV * over_values(m.share_b, dims),
          m.sum, m.max};
}

Value log_sum(const KernelPartial& partial) {
  return graph::log(partial.sum_BKGS);
}

Value log_sum_exp(const KernelPartial& partial) {
  return partial.max_BKGS + log_sum(partial);
}

KernelPartial with_sinks(const KernelPartial& partial, Value sinks_KG) {
  const Value sinks =
      graph::broadcast_in_dim(sinks_KG, partial.max_BKGS.dims(), {1, 2});
  const Meeting m = meet({partial.max_BKGS, partial.sum_BKGS},
                         {sinks, graph::full_like(sinks, 1)});
  return {partial.out_BKGSV * over_values(m.share_a, partial.out_BKGSV.dims()),
          m.sum, m.max};
}

}  // namespace ringmax::attention
