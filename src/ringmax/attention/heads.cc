#include "ringmax/attention/heads.h"

#include "ringmax/graph/ops.h"
#include "ringmax/graph/parallel.h"

namespace ringmax::attention {

using graph::Value;

Value split_heads(Value x, std::int64_t kv_heads) {
  const Dims& d = x.dims();
  Dims split = {d[0], d[1], kv_heads, d[2] / kv_heads};
  Dims order = {0, 2, 3, 1};
  if (x.rank() == 4) {
    split.push_back(d[3]);
    order.push_back(4);
  }
  return graph::transpose(graph::reshape(x, std::move(split)),
                          std::move(order));
}

Value join_heads(Value x) {
  const bool rows = x.rank() == 4;
  const Value t =
      graph::transpose(x, rows ? Dims{0, 3, 1, 2} : Dims{0, 3, 1, 2, 4});
  const Dims& d = t.dims();
  Dims joined = {d[0], d[1], d[2] * d[3]};
  if (!rows) joined.push_back(d[4]);
  return graph::reshape(t, std::move(joined));
}

Value swap_heads(Value x) { return graph::transpose(x, {0, 2, 1, 3}); }

Value to_heads(Value x, const std::string& axis) {
  return axis.empty() ? x : graph::all_to_all(x, axis, 2, 1);
}
Value to_sequence(Value x, const std::string& axis) {
  return axis.empty() ? x : graph::all_to_all(x, axis, 1, 2);
}

Value copy_heads(Value x, std::int64_t copies) {
  if (copies == 1) return x;
  const Dims& d = x.dims();
  return graph::reshape(graph::broadcast_in_dim(
                            x, {d[0], d[1], d[2], copies, d[3]}, {0, 1, 2, 4}),
                        {d[0], d[1], d[2] * copies, d[3]});
}

Value sum_copies(Value x, std::int64_t copies) {
  if (copies == 1) return x;
  const Dims& d = x.dims();
  return graph::reduce_sum(
      graph::reshape(x, {d[0], d[1], d[2] / copies, copies, d[3]}), {3});
}

}  // namespace ringmax::attention
