#include "ringmax/attention/layout_graph.h"

#include "ringmax/graph/ops.h"

namespace ringmax::attention {

using graph::Value;

Value slot_positions(const Layout& layout, Value first, std::int64_t count) {
  const Value slot = graph::iota(*first.graph, Shape(DType::kI32, {count}), 0) +
                     graph::broadcast_to(first, {count});
  const auto full = [&](std::int64_t value) {
    return graph::full_like(slot, static_cast<double>(value));
  };
  const Value shard = graph::divide(slot, full(layout.shard_tokens()));
  const Value within =
      slot - shard * static_cast<double>(layout.shard_tokens());
  // Formulas come in the order of their slots: the last one that has begun.
  Value position;
  for (const SlotFormula& f : layout.formulas()) {
    const Value here =
        shard * static_cast<double>(f.per_shard) +
        (within - static_cast<double>(f.slot)) * static_cast<double>(f.stride) +
        static_cast<double>(f.base);
    position =
        position.valid()
            ? graph::select(graph::less(within, full(f.slot)), position, here)
            : here;
  }
  return graph::select(graph::less(position, full(layout.tokens())), position,
                       full(-1));
}

}  // namespace ringmax::attention
