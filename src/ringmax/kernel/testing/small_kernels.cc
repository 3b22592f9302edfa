#include "ringmax/kernel/testing/small_kernels.h"

#include "ringmax/kernel/ops.h"

namespace ringmax::kernel::testing {

std::unique_ptr<Kernel> sum_of_blocks(std::int64_t steps, double factor) {
  auto kernel = std::make_unique<Kernel>("sum_of_blocks");
  Kernel& k = *kernel;
  k.parallel(2);
  k.walk(steps, /*dynamic=*/true);
  // Ends with one more entry, which differs from all others.
  const Ref order = k.prefetch("order", steps + 1);
  const auto row_at = [&](Value i) {
    return divide(load_scalar(order, i), constant_i32(k, 10));
  };
  const Ref x = k.input(
      "x", Shape(DType::kF32, {4, 8, 128}), {1, 8, 128}, [&](const Values& g) {
        const Value e = load_scalar(order, g[1]);
        const Value zero = constant_i32(k, 0);
        return Values{remainder(e, constant_i32(k, 10)), zero, zero};
      });
  const Ref y = k.output(
      "y", Shape(DType::kF32, {2, 16, 128}), {1, 8, 128}, [&](const Values& g) {
        return Values{g[0], row_at(g[1]), constant_i32(k, 0)};
      });
  const Ref sum = k.scratch("sum", Shape(DType::kF32, {8, 128}));
  k.begin(
      [&](const Values& g) {
        const Value zero = constant_i32(k, 0);
        const Value before = maximum(g[1] - 1.0, zero);
        return logical_or(equal(g[1], zero),
                          not_equal(row_at(before), row_at(g[1])));
      },
      [&](const Values&) {
        store(sum, constant(k, Shape(DType::kF32, {8, 128}), 0));
      });
  k.step([&](const Values&) { store(sum, load(sum) + load(x)); });
  k.end(
      [&](const Values& g) {
        return not_equal(row_at(g[1] + 1.0), row_at(g[1]));
      },
      [&](const Values&) { store(y, load(sum) * factor); });
  return kernel;
}

}  // namespace ringmax::kernel::testing
