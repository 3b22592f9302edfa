// plan_context() of options.h: strategy and layout with every choice made, the
// length they need, and whether attention can do it.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "ringmax/attention/gate.h"
#include "ringmax/base/error.h"
#include "ringmax/model/attention.h"
#include "ringmax/model/options.h"
#include "ringmax/model/plan_attention.h"

namespace ringmax::model {
namespace {

using attention::AttentionOptions;
using attention::ContextPlan;
using attention::ContextStrategy;
using attention::LayoutKind;
using attention::ReorderStrategy;
using attention::Strategy;

constexpr std::string_view kRingSetting = "ici_context_parallelism";
constexpr std::string_view kUlyssesSetting =
    "ici_context_usp_ulysses_parallelism";

// The order of tokens that load balance asks for. After the all-to-all of
// ulysses every device has the whole sequence: there is nothing to balance.
LayoutKind layout_for(const AttentionOptions& options, ContextStrategy strategy,
                      std::int64_t shards) {
  if (!options.context_parallel_load_balance || shards == 1 ||
      strategy == ContextStrategy::kUlysses) {
    return LayoutKind::kContiguous;
  }
  return options.context_parallel_reorder_strategy == ReorderStrategy::kStriped
             ? LayoutKind::kStriped
             : LayoutKind::kZigzag;
}

ContextStrategy strategy_from(Strategy planned) {
  switch (planned) {
    case Strategy::kAllGather:
      return ContextStrategy::kAllGather;
    case Strategy::kUlysses:
      return ContextStrategy::kUlysses;
    case Strategy::kUsp:
      return ContextStrategy::kUsp;
    case Strategy::kAuto:
    case Strategy::kSingle:
    case Strategy::kRing:
      return ContextStrategy::kRing;
  }
  return ContextStrategy::kRing;
}

class Planner {
 public:
  Planner(const ModelOptions& model, const AttentionOptions& options,
          const mesh::Mesh& mesh, const SequenceShape& shape,
          const hw::Target& target, Problems& problems)
      : model_(model),
        options_(options),
        mesh_(mesh),
        shape_(shape),
        target_(target),
        problems_(problems),
        shards_(attention::sequence_shards(mesh)) {}

  ContextPlan run() {
    ContextPlan plan;
    plan.strategy = options_.context_parallel_strategy;
    plan.layout = layout_for(options_, plan.strategy, shards_);
    if (!axes_fit() || !length_fits(plan.layout) || shape_.batch == 0) {
      return plan;
    }
    attention::AttendPlan made = ask_gate(plan);
    if (plan.strategy == ContextStrategy::kAuto) {
      plan.strategy = strategy_from(made.strategy);
      const LayoutKind layout = layout_for(options_, plan.strategy, shards_);
      if (std::exchange(plan.layout, layout) != layout) {
        // The reasons are those of the choice.
        attention::AttendPlan chosen = ask_gate(plan);
        chosen.estimate = std::move(made.estimate);
        chosen.refused = std::move(made.refused);
        made = std::move(chosen);
      }
    }
    const ReorderStrategy reorder = options_.context_parallel_reorder_strategy;
    if (reorder != ReorderStrategy::kAuto &&
        plan.layout == LayoutKind::kContiguous) {
      plan.notes.push_back(fmt::format(
          "context_parallel_reorder_strategy={}: no effect, tokens stay in "
          "order ({})",
          name_of(attention::kReorderStrategies, reorder),
          options_.context_parallel_load_balance
              ? "there is nothing to balance"
              : "context_parallel_load_balance is false"));
    }
    if (options_.ring_scan_unroll > 0 && made.in_memory) {
      plan.notes.push_back(fmt::format(
          "ring_scan_unroll={}: no effect, keys are read where they "
          "lie; ring_transport=collective sends them",
          options_.ring_scan_unroll));
    } else if (options_.ring_scan_unroll > 0 && target_.collectives_block() &&
               !made.ring_axis.empty()) {
      plan.notes.push_back(fmt::format(
          "ring_scan_unroll={}: ring steps are written out on CPUs, whose "
          "collectives may overtake a loop and then stand still",
          options_.ring_scan_unroll));
    }
    plan.notes.insert(plan.notes.end(), made.notes.begin(), made.notes.end());
    plan.kernel = made.backend->name();
    plan.summary = made.summary();
    plan.refused = std::move(made.refused);
    return plan;
  }

 private:
  // Whether the strategy has an axis for each of the mesh's, and heads for the
  // axis that deals them out.
  bool axes_fit() {
    const ContextStrategy asked = options_.context_parallel_strategy;
    const std::int64_t ring = mesh_.size("context");
    const std::int64_t ulysses = mesh_.size("context_usp_ulysses");
    if (asked == ContextStrategy::kUsp && (ring == 1 || ulysses == 1)) {
      problems_.add(
          "context_parallel_strategy=usp: a ring times Ulysses needs two axes, "
          "and the mesh has {}={} and {}={}; valid are sizes above 1, or "
          "another strategy",
          kRingSetting, ring, kUlyssesSetting, ulysses);
      return false;
    }
    if (ulysses > 1 && asked != ContextStrategy::kUsp &&
        asked != ContextStrategy::kAuto) {
      problems_.add(
          "{}={}: context_parallel_strategy={} has no such axis; valid is 1, "
          "or context_parallel_strategy=usp",
          kUlyssesSetting, ulysses,
          name_of(attention::kContextStrategies, asked));
      return false;
    }
    if (asked == ContextStrategy::kUlysses)
      return heads_fit(kRingSetting, ring);
    if (asked == ContextStrategy::kUsp) {
      return heads_fit(kUlyssesSetting, ulysses);
    }
    return true;
  }

  bool heads_fit(std::string_view setting, std::int64_t devices) {
    const std::int64_t heads =
        model_.base_num_query_heads / mesh_.size("tensor");
    if (heads % devices == 0 || shape_.batch == 0) return true;
    std::vector<std::int64_t> valid;
    for (std::int64_t n = 1; n <= std::min(heads, devices); ++n) {
      if (heads % n == 0) valid.push_back(n);
    }
    problems_.add(
        "{}={}: context_parallel_strategy={} deals {} query heads to as many "
        "devices; valid are sizes that divide them: {}",
        setting, devices,
        name_of(attention::kContextStrategies,
                options_.context_parallel_strategy),
        heads, fmt::join(valid, ", "));
    return false;
  }

  bool length_fits(LayoutKind layout) {
    const bool zigzag = layout == LayoutKind::kZigzag;
    const std::int64_t multiple = zigzag ? 2 * shards_ : shards_;
    if (shape_.length % multiple == 0) return true;
    const std::int64_t ulysses = mesh_.size("context_usp_ulysses");
    const std::int64_t below = shape_.length / multiple * multiple;
    problems_.add(
        "max_target_length={}: {}={}{} {}; nearest valid lengths: {}{}",
        shape_.length, kRingSetting, mesh_.size("context"),
        ulysses > 1 ? fmt::format(" x {}={}", kUlyssesSetting, ulysses) : "",
        zigzag ? fmt::format("in zigzag layout needs a multiple of {} "
                             "(context_parallel_load_balance=false: of {})",
                             multiple, shards_)
               : "must divide it",
        below > 0 ? fmt::format("{} and ", below) : "", below + multiple);
    return false;
  }

  attention::AttendPlan ask_gate(const ContextPlan& plan) {
    return plan_attention(model_, options_, mesh_, shape_, target_, plan);
  }

  const ModelOptions& model_;
  const AttentionOptions& options_;
  const mesh::Mesh& mesh_;
  const SequenceShape& shape_;
  const hw::Target& target_;
  Problems& problems_;
  std::int64_t shards_;
};

}  // namespace

attention::AttendPlan plan_attention(const ModelOptions& model,
                                     const AttentionOptions& options,
                                     const mesh::Mesh& mesh,
                                     const SequenceShape& shape,
                                     const hw::Target& target,
                                     const ContextPlan& context) {
  const auto heads = [&](std::int64_t count) {
    return Shape(model.dtype,
                 {shape.batch, shape.length, count, model.head_dim});
  };
  attention::AttendShapes shapes;
  shapes.q = heads(model.base_num_query_heads);
  shapes.k = shapes.v = heads(model.base_num_kv_heads);
  if (shape.segments) {
    shapes.q_segments = shapes.kv_segments =
        Shape(DType::kI32, {shape.batch, shape.length});
  }
  if (model.attention_sink) {
    shapes.sinks = Shape(model.weight_dtype, {model.base_num_query_heads});
  }
  return attention::plan_attend(
      shapes, attend_settings(model, options, context, mesh, target), mesh);
}

ContextPlan plan_context(const ModelOptions& model,
                         const AttentionOptions& options,
                         const mesh::Mesh& mesh, const SequenceShape& shape,
                         const std::string& compile_topology,
                         Problems& problems) {
  try {
    const hw::Target target = compile_topology.empty()
                                  ? hw::cpu_target(mesh.device_count())
                                  : hw::tpu_target(compile_topology);
    return Planner(model, options, mesh, shape, target, problems).run();
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kInvalidArgument) throw;
    problems.add("{}", error.message());
    return {};
  }
}

}  // namespace ringmax::model
