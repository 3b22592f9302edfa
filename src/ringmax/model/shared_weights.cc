#include "ringmax/model/shared_weights.h"

#include <algorithm>
#include <utility>

#include "ringmax/graph/control.h"
#include "ringmax/graph/ops.h"
#include "ringmax/graph/parallel.h"
#include "ringmax/mesh/axis_rules.h"
#include "ringmax/model/cpu/ffi.h"

namespace ringmax::model {
namespace {

using graph::Graph;
using graph::Value;
using graph::Values;
using mesh::PartitionSpec;

// Local values inside a manual computation over the devices.
struct Devices {
  Graph& graph;
  const std::string& axis;

  std::int64_t count() const { return graph.mesh().device_count(); }

  // Nothing of these calls may be left out or done once for two: every ticket
  // has its readers.
  Values call(const char* target, const Values& operands,
              std::vector<Shape> results, std::string attributes) const {
    graph::CustomCallAttr attr;
    attr.target = target;
    attr.backend_config = std::move(attributes);
    attr.has_side_effect = true;
    return graph::custom_call(graph, operands, std::move(results),
                              std::move(attr));
  }

  Value share_weights(const Values& weights, bool turned) const {
    return call(cpu::kShareWeights, weights, {Shape(DType::kI64, {1})},
                cpu::share_attributes(count(), turned))[0];
  }
  Value keep_weights(const Values& stacks, bool turned) const {
    return call(cpu::kShareWeights, stacks,
                {Shape(DType::kI64, {stacks[0].dim(0)})},
                cpu::share_attributes(count(), turned, /*kept=*/true))[0];
  }
  Value share_activations(Value x_TE, const Values& y_TF) const {
    Values operands = {x_TE};
    operands.insert(operands.end(), y_TF.begin(), y_TF.end());
    return call(cpu::kShareActivations, operands, {Shape(DType::kI64, {1})},
                cpu::attributes(count()))[0];
  }
  // The tickets of all devices, one list for each of this device's: they arrive
  // when everyone has shared.
  Values meet(const Values& tickets) const {
    const auto n = static_cast<std::int64_t>(tickets.size());
    const Value all = graph::all_gather(
        n == 1 ? tickets[0] : graph::concatenate(tickets, 0), axis, 0);
    Values lists;
    for (std::int64_t i = 0; i < n; ++i) {
      lists.push_back(n == 1 ? all
                             : graph::slice(all, {i}, {n * count()}, {n}));
    }
    return lists;
  }
  Values to_features(Value x_TE, Value tickets, const Dims& features) const {
    std::vector<Shape> shapes;
    for (const std::int64_t f : features) {
      shapes.emplace_back(DType::kF32, Dims{x_TE.dim(0), f});
    }
    return call(cpu::kToFeatures, {x_TE, tickets}, shapes,
                cpu::attributes(count()));
  }
  Value from_features(const Values& y_TF, Value tickets,
                      std::int64_t columns) const {
    Values operands = y_TF;
    operands.push_back(tickets);
    return call(cpu::kFromFeatures, operands,
                {Shape(DType::kF32, {y_TF[0].dim(0), columns})},
                cpu::attributes(count()))[0];
  }
  Values weight_gradients(Value tickets, std::int64_t tokens,
                          const Values& weights) const {
    std::vector<Shape> shapes;
    for (const Value& w : weights) shapes.push_back(w.shape());
    return call(cpu::kWeightGradients,
                {tickets, graph::axis_index(graph, axis)}, shapes,
                cpu::gradient_attributes(count(), tokens));
  }
};

Value rows(Value x_BSE) {
  return graph::reshape(x_BSE, {x_BSE.dim(0) * x_BSE.dim(1), x_BSE.dim(2)});
}
Values rows(Values all) {
  for (Value& x : all) x = rows(x);
  return all;
}
Values unrows(Values all, Value like_BS) {
  for (Value& x : all) {
    x = graph::reshape(x, {like_BS.dim(0), like_BS.dim(1), x.dim(1)});
  }
  return all;
}

PartitionSpec tokens_spec(const mesh::Mesh& mesh) {
  PartitionSpec spec =
      mesh::logical_to_spec({"activation_batch", "activation_length"},
                            mesh::default_axis_rules(), mesh);
  spec.dims.resize(3);
  return spec;
}

PartitionSpec weight_spec(const std::string& axis) {
  return PartitionSpec{{}, {axis}};
}

Dims features_of(const Values& weights_FE) {
  Dims features;
  for (const Value& w : weights_FE) features.push_back(w.dim(0));
  return features;
}

template <typename T>
std::vector<T> join(std::vector<T> a, const std::vector<T>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}
Values join(Values a, const Values& b) { return join<Value>(std::move(a), b); }
template <typename T>
std::vector<T> part(const std::vector<T>& all, std::size_t begin,
                    std::size_t end) {
  return {all.begin() + static_cast<std::ptrdiff_t>(begin),
          all.begin() + static_cast<std::ptrdiff_t>(end)};
}

}  // namespace

std::optional<std::string> sharing_axis(const ModelContext& c,
                                        const mesh::Mesh& mesh) {
  const std::int64_t devices = mesh.device_count();
  if (!c.target.devices_share_memory() || !c.target.has_ffi || devices == 1 ||
      c.options.dtype != DType::kF32 || c.options.weight_dtype != DType::kF32 ||
      c.options.base_emb_dim % (devices * cpu::kColumnsUnit) != 0) {
    return std::nullopt;
  }
  const auto cuts = [&](const PartitionSpec& spec, const std::string& axis) {
    return std::any_of(
        spec.dims.begin(), spec.dims.end(), [&](const auto& axes) {
          return std::find(axes.begin(), axes.end(), axis) != axes.end();
        });
  };
  const PartitionSpec weight = mesh::logical_to_spec(
      {"norm", "embed"}, mesh::default_axis_rules(), mesh);
  for (const mesh::MeshAxis& axis : mesh.axes()) {
    if (axis.size == devices && cuts(weight, axis.name) &&
        cuts(tokens_spec(mesh), axis.name)) {
      return axis.name;
    }
  }
  return std::nullopt;
}

Tickets StackTickets::at(Value i) const {
  if (!to_features.valid()) return {};
  const auto column = [&](Value all_DN) {
    return graph::reshape(graph::dynamic_slice_dim(all_DN, 1, i, 1),
                          {all_DN.dim(0)});
  };
  return {column(to_features), column(from_features)};
}

KeptWeights::KeptWeights(const std::vector<Values>& groups,
                         const std::string& axis)
    : axis_(axis) {
  Graph& g = *groups.at(0).at(0).graph;
  Values in;
  for (const Values& group : groups) in = join(in, group);
  const std::vector<PartitionSpec> specs(in.size(),
                                         PartitionSpec{{}, {}, {axis}});
  all_ = graph::manual_computation(
      g, in, specs, {PartitionSpec{}}, [&](const Values& local) {
        const Devices devices{g, axis};
        Values tickets;
        std::size_t at = 0;
        for (const Values& group : groups) {
          const Values own = part(local, at, at + group.size());
          at += group.size();
          tickets.push_back(devices.keep_weights(own, true));
          tickets.push_back(devices.keep_weights(own, false));
        }
        const Value mine = graph::concatenate(tickets, 0);
        return Values{
            graph::all_gather(graph::reshape(mine, {1, mine.dim(0)}), axis, 0)};
      })[0];
  std::int64_t at = 0;
  for (const Values& group : groups) {
    const auto next = [&] {
      const std::int64_t begin = at;
      at += group[0].dim(0);
      return graph::slice(all_, {0, begin}, {all_.dim(0), at}, {1, 1});
    };
    StackTickets tickets;
    tickets.to_features = next();
    tickets.from_features = next();
    groups_.push_back(tickets);
  }
}

Value KeptWeights::release(Value x) const {
  Graph& g = *x.graph;
  return graph::manual_computation(
      g, {graph::reshape(all_, {all_.dim(0) * all_.dim(1)}), x},
      {PartitionSpec{}, PartitionSpec{}}, {PartitionSpec{}},
      [&](const Values& local) {
        return Devices{g, axis_}.call(cpu::kRelease, local, {x.shape()}, "{}");
      })[0];
}

namespace {

// What a product's manual computation is given besides its operands: nothing,
// or the tickets of its weights.
struct Given {
  Values values;
  std::vector<PartitionSpec> specs;

  explicit Given(const Tickets& tickets) {
    if (!tickets.valid()) return;
    values = {tickets.to_features, tickets.from_features};
    specs.resize(2);
  }
  std::size_t count() const { return values.size(); }
  // The tickets at the end of a list.
  static Tickets of(const Values& list, bool given) {
    if (!given) return {};
    return {list[list.size() - 2], list[list.size() - 1]};
  }
};

// Tickets of weights, and of activations where there are some.
struct Met {
  Value weights, activations;
};
Met meet(const Devices& devices, const Values& weights, bool turned,
         const Tickets& kept, Value activations) {
  Values own;
  if (!kept.valid()) own.push_back(devices.share_weights(weights, turned));
  if (activations.valid()) own.push_back(activations);
  const Values lists = own.empty() ? Values{} : devices.meet(own);
  Met met;
  met.weights = !kept.valid() ? lists[0]
                : turned      ? kept.to_features
                              : kept.from_features;
  if (activations.valid()) met.activations = lists.back();
  return met;
}

}  // namespace

Values shared_features(Value x_BSE, const Values& weights_FE,
                       const std::string& axis, const Tickets& tickets) {
  Graph& g = *x_BSE.graph;
  const std::size_t n = weights_FE.size();
  const Given given(tickets);
  const PartitionSpec tokens = tokens_spec(g.mesh());
  std::vector<PartitionSpec> specs(1 + n, weight_spec(axis));
  specs[0] = tokens;
  return graph::manual_computation(
      g, join(join({x_BSE}, weights_FE), given.values),
      join(specs, given.specs), std::vector<PartitionSpec>(n, tokens),
      [&](const Values& local) {
        const Devices devices{g, axis};
        const Values weights = part(local, 1, 1 + n);
        const Met met =
            meet(devices, weights, true, Given::of(local, tickets.valid()), {});
        return unrows(devices.to_features(rows(local[0]), met.weights,
                                          features_of(weights)),
                      local[0]);
      });
}

Values shared_feature_gradients(Value x_BSE, const Values& weights_FE,
                                const Values& dy_BSF, const std::string& axis,
                                const Tickets& tickets) {
  Graph& g = *x_BSE.graph;
  const std::size_t n = weights_FE.size();
  const Given given(tickets);
  const PartitionSpec tokens = tokens_spec(g.mesh());
  std::vector<PartitionSpec> specs(1 + n, weight_spec(axis));
  specs[0] = tokens;
  std::vector<PartitionSpec> in_specs = specs;
  in_specs.insert(in_specs.end(), n, tokens);
  return graph::manual_computation(
      g, join(join(join({x_BSE}, weights_FE), dy_BSF), given.values),
      join(in_specs, given.specs), specs, [&](const Values& local) {
        const Devices devices{g, axis};
        const Value x = rows(local[0]);
        const Values weights = part(local, 1, 1 + n);
        const Values dy = rows(part(local, 1 + n, 1 + 2 * n));
        const Met met =
            meet(devices, weights, false, Given::of(local, tickets.valid()),
                 devices.share_activations(x, dy));
        return join(
            unrows({devices.from_features(dy, met.weights, x.dim(1))},
                   local[0]),
            devices.weight_gradients(met.activations, x.dim(0), weights));
      });
}

Values to_features(Value x_BSE, const Values& weights_FE,
                   const std::string& axis, const Tickets& tickets) {
  const std::size_t n = weights_FE.size();
  const bool kept = tickets.valid();
  return graph::custom_vjp(
      *x_BSE.graph, join(join({x_BSE}, weights_FE), Given(tickets).values),
      [&](const Values& in) {
        return graph::CustomVjpForward{
            shared_features(in[0], part(in, 1, 1 + n), axis,
                            Given::of(in, kept)),
            in,
            {}};
      },
      [axis, n, kept](const Values& in, const Values& dy_BSF) {
        Values d = shared_feature_gradients(in[0], part(in, 1, 1 + n), dy_BSF,
                                            axis, Given::of(in, kept));
        d.resize(in.size());  // tickets have none
        return d;
      });
}

Value from_features(Value y_BSF, Value weight_FE, const std::string& axis,
                    const Tickets& tickets) {
  Graph& g = *y_BSF.graph;
  const PartitionSpec tokens = tokens_spec(g.mesh());
  const Given given(tickets);
  const bool kept = tickets.valid();
  const std::vector<PartitionSpec> specs = {tokens, weight_spec(axis)};
  return graph::custom_vjp(
      g, join({y_BSF, weight_FE}, given.values),
      [&](const Values& in) {
        Values x = graph::manual_computation(
            g, in, join(specs, given.specs), {tokens},
            [&](const Values& local) {
              const Devices devices{g, axis};
              const Met met =
                  meet(devices, {local[1]}, false, Given::of(local, kept), {});
              return unrows({devices.from_features({rows(local[0])},
                                                   met.weights, in[1].dim(1))},
                            local[0]);
            });
        return graph::CustomVjpForward{std::move(x), in, {}};
      },
      [&g, axis, specs, tokens, kept, given_specs = given.specs](
          const Values& in, const Values& dx_BSE) {
        const Values operands = {in[0], in[1], dx_BSE[0]};
        std::vector<PartitionSpec> in_specs = specs;
        in_specs.push_back(tokens);
        Values d = graph::manual_computation(
            g, join(operands, part(in, 2, in.size())),
            join(in_specs, given_specs), specs, [&](const Values& local) {
              const Devices devices{g, axis};
              const Value y = rows(local[0]);
              const Value dx = rows(local[2]);
              const Met met =
                  meet(devices, {local[1]}, true, Given::of(local, kept),
                       devices.share_activations(dx, {y}));
              return join(
                  unrows(devices.to_features(dx, met.weights, {y.dim(1)}),
                         local[0]),
                  devices.weight_gradients(met.activations, y.dim(0),
                                           {local[1]}));
            });
        d.resize(in.size());  // tickets have none
        return d;
      })[0];
}

}  // namespace ringmax::model
