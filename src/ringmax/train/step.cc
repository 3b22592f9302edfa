#include "ringmax/train/step.h"

#include <utility>

#include "ringmax/graph/gradient.h"
#include "ringmax/graph/ops.h"
#include "ringmax/graph/parallel.h"
#include "ringmax/mesh/axis_rules.h"
#include "ringmax/model/decoder.h"
#include "ringmax/model/keep_weights.h"
#include "ringmax/model/loss.h"
#include "ringmax/model/shared_weights.h"

namespace ringmax::train {
namespace {

using graph::Graph;
using graph::Value;
using graph::Values;

// AdamW (Loshchilov and Hutter 2019), weight decay on every parameter as
// MaxText's; moments in the weights' dtype, arithmetic in float32.
struct AdamScalars {
  Value learning_rate, correction1, correction2, clip;
};

struct Updated {
  Value weight, first, second;
};

Updated adamw(Value weight, Value first, Value second, Value gradient,
              const AdamScalars& s, const TrainOptions& o) {
  const auto wide = [](Value x) { return graph::convert(x, DType::kF32); };
  const auto spread = [&](Value scalar) {
    return graph::broadcast_to(scalar, weight.dims());
  };
  const Value g = wide(gradient) * spread(s.clip);
  const Value m = wide(first) * o.adam_b1 + g * (1 - o.adam_b1);
  const Value v = wide(second) * o.adam_b2 + g * g * (1 - o.adam_b2);
  const Value root =
      graph::sqrt(v / spread(s.correction2) + o.adam_eps_root) + o.adam_eps;
  const Value direction =
      (m / spread(s.correction1)) / root + wide(weight) * o.adam_weight_decay;
  const Value w = wide(weight) - direction * spread(s.learning_rate);
  return {graph::convert(w, weight.dtype()), graph::convert(m, first.dtype()),
          graph::convert(v, second.dtype())};
}

// Gradients as they are kept until all of them are there, in their shardings.
// The
// barrier keeps a compiler from leaving the rounding out.
Values kept_gradients(const Values& gradients,
                      const std::vector<model::ParameterInfo>& infos,
                      DType dtype) {
  Values kept;
  for (std::size_t i = 0; i < infos.size(); ++i) {
    kept.push_back(
        graph::constrain(graph::convert(gradients[i], dtype), infos[i].spec));
  }
  return dtype == DType::kF32 ? kept : graph::optimization_barrier(kept);
}

Value global_norm(const Values& gradients) {
  Value sum;
  for (const Value& gradient : gradients) {
    const Value g = graph::convert(gradient, DType::kF32);
    Dims all;
    for (std::int64_t d = 0; d < g.rank(); ++d) all.push_back(d);
    const Value part = graph::reduce_sum(g * g, std::move(all));
    sum = sum.valid() ? sum + part : part;
  }
  return graph::sqrt(sum);
}

Value clip_factor(Value norm, double threshold) {
  const Value one = graph::full_like(norm, 1);
  if (threshold <= 0) return one;
  const Value safe = graph::maximum(norm, graph::full_like(norm, threshold));
  return graph::full_like(norm, threshold) / safe;
}

}  // namespace

mesh::PartitionSpec batch_spec(const mesh::Mesh& mesh) {
  return mesh::logical_to_spec({"activation_batch", "activation_length"},
                               mesh::default_axis_rules(), mesh);
}

std::unique_ptr<Graph> init_program(const StepSettings& settings) {
  auto g = std::make_unique<Graph>(settings.mesh, "init");
  const auto infos = model::parameters(settings.model, settings.mesh);
  for (std::size_t i = 0; i < infos.size(); ++i) {
    const Value v = model::initial_value(
        *g, infos[i], i,
        static_cast<std::uint64_t>(settings.train.init_weights_seed));
    g->result(infos[i].name, v, infos[i].spec);
  }
  for (const char* moment : {"first_moment/", "second_moment/"}) {
    for (const auto& info : infos) {
      g->result(moment + info.name, graph::constant(*g, info.shape, 0),
                info.spec);
    }
  }
  return g;
}

std::unique_ptr<Graph> step_program(const StepSettings& settings) {
  auto owned = std::make_unique<Graph>(settings.mesh, "train_step");
  Graph& g = *owned;
  const auto infos = model::parameters(settings.model, settings.mesh);
  const auto state = [&](const std::string& prefix) {
    Values values;
    for (const auto& info : infos) {
      values.push_back(g.parameter(prefix + info.name, info.shape, info.spec));
    }
    return values;
  };
  const Values weights = state("");
  const Values first = state("first_moment/");
  const Values second = state("second_moment/");
  const Dims data = {settings.batch, settings.length};
  const mesh::PartitionSpec rows = batch_spec(settings.mesh);
  const Value tokens = g.parameter("tokens", Shape(DType::kI32, data), rows);
  const Value targets = g.parameter("targets", Shape(DType::kI32, data), rows);
  const Value positions =
      g.parameter("positions", Shape(DType::kI32, data), rows);
  const Value valid = g.parameter("weights", Shape(DType::kF32, data), rows);
  Value segment_ids;
  if (settings.segments) {
    segment_ids = g.parameter("segment_ids", Shape(DType::kI32, data), rows);
  }
  const auto scalar = [&](const char* name) {
    return g.parameter(name, Shape(DType::kF32, {}), mesh::PartitionSpec());
  };
  AdamScalars scalars{};
  scalars.learning_rate = scalar("learning_rate");
  scalars.correction1 = scalar("bias_correction1");
  scalars.correction2 = scalar("bias_correction2");

  model::ModelContext context{settings.model, settings.attention, infos,
                              settings.plan, settings.target};
  const std::optional<model::KeptWeights> kept =
      model::keep_weights(context, settings.mesh, weights);
  if (kept) context.kept = &*kept;
  const model::DecoderOutput decoded =
      model::decoder(context, weights, {tokens, positions, segment_ids});
  std::optional<model::SharedHead> shared_head;
  if (const auto axis = model::sharing_axis(context, settings.mesh)) {
    shared_head = {*axis,
                   kept ? kept->group(model::kHead) : model::StackTickets{}};
  }
  const model::Loss loss = model::cross_entropy(
      decoded.hidden_BSE, model::output_head(context, weights), targets, valid,
      settings.model.num_vocab_tiling, !settings.model.scan_layers,
      shared_head);
  const Values gradients = kept_gradients(graph::gradient(loss.mean, weights),
                                          infos, settings.train.grad_dtype);
  const graph::Scope scope(g, "optimizer");
  Value norm = global_norm(gradients);
  if (kept) norm = kept->release(norm);
  scalars.clip = clip_factor(norm, settings.train.gradient_clipping_threshold);
  std::vector<Updated> updated;
  for (std::size_t i = 0; i < infos.size(); ++i) {
    updated.push_back(adamw(weights[i], first[i], second[i], gradients[i],
                            scalars, settings.train));
  }
  const auto emit = [&](const std::string& prefix, const Values& from,
                        Value Updated::*member) {
    for (std::size_t i = 0; i < infos.size(); ++i) {
      g.donate(from[i], g.result(prefix + infos[i].name, updated[i].*member,
                                 infos[i].spec));
    }
  };
  emit("", weights, &Updated::weight);
  emit("first_moment/", first, &Updated::first);
  emit("second_moment/", second, &Updated::second);
  if (decoded.max_logits_L.valid()) {
    g.result("max_logits", decoded.max_logits_L, mesh::PartitionSpec());
  }
  g.result("loss", loss.mean, mesh::PartitionSpec());
  g.result("grad_norm", norm, mesh::PartitionSpec());
  g.result("total_weights", loss.weights, mesh::PartitionSpec());
  return owned;
}

}  // namespace ringmax::train
