#include "ringmax/model/decoder.h"

#include <cmath>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "ringmax/attention/attend.h"
#include "ringmax/base/error.h"
#include "ringmax/graph/control.h"
#include "ringmax/graph/ops.h"
#include "ringmax/graph/parallel.h"
#include "ringmax/mesh/axis_rules.h"
#include "ringmax/model/attention.h"
#include "ringmax/model/keep_weights.h"
#include "ringmax/model/layers.h"
#include "ringmax/model/shared_weights.h"

namespace ringmax::model {
namespace {

using graph::Graph;
using graph::Scope;
using graph::Value;
using graph::Values;

mesh::PartitionSpec logical(Value x,
                            std::initializer_list<std::string_view> names) {
  return mesh::logical_to_spec(names, mesh::default_axis_rules(),
                               x.graph->mesh());
}

Value constrain_logical(Value x,
                        std::initializer_list<std::string_view> names) {
  return graph::constrain(x, logical(x, names));
}

Value residual_stream(Value x_BSE) {
  return constrain_logical(
      x_BSE, {"activation_batch", "activation_length", "activation_embed"});
}

graph::Precision precision_of(const ModelOptions& options) {
  switch (options.matmul_precision) {
    case MatmulPrecision::kDefault:
      return graph::Precision::kDefault;
    case MatmulPrecision::kHigh:
      return graph::Precision::kHigh;
    case MatmulPrecision::kHighest:
      return graph::Precision::kHighest;
  }
  return graph::Precision::kDefault;
}

graph::RematPolicy remat_of(const ModelOptions& options) {
  using Kind = graph::RematPolicy::Kind;
  switch (options.remat_policy) {
    case RematPolicy::kFull:
      return {Kind::kSaveNothing, {}};
    case RematPolicy::kSaveQkvProj:
      return {Kind::kSaveNames, {"query_proj", "key_proj", "value_proj"}};
    case RematPolicy::kNone:
      return {Kind::kSaveAll, {}};
  }
  return {};
}

// A spec without its leading (layer) dimension.
mesh::PartitionSpec of_one_layer(mesh::PartitionSpec spec) {
  if (!spec.dims.empty()) spec.dims.erase(spec.dims.begin());
  return spec;
}

// A layer's weight as it is used: in the activation dtype, whole along embed.
// It is converted where it is kept, so that half the bytes are gathered, and
// its gradient goes back there.
Value used(Value weight, const ParameterInfo& info, const ModelContext& c) {
  const mesh::PartitionSpec kept = of_one_layer(info.spec);
  const mesh::PartitionSpec gathered = of_one_layer(info.gathered);
  const Value shard =
      graph::constrain(graph::convert(weight, c.options.dtype), kept);
  if (!c.target.gathers_first_dimension_only() || kept == gathered ||
      shard.rank() != 2) {
    return graph::constrain(shard, gathered, kept);
  }
  // XLA's CPU gathers along the first dimension only, and would turn the whole
  // weight around before and after; turning the shard is less.
  const auto turned = [](mesh::PartitionSpec spec) {
    spec.dims.resize(2);
    std::swap(spec.dims[0], spec.dims[1]);
    return spec;
  };
  const Value shard_EF =
      graph::constrain(graph::transpose(shard, {1, 0}), turned(kept));
  return graph::transpose(
      graph::constrain(shard_EF, turned(gathered), turned(kept)), {1, 0});
}

struct Attended {
  Value x_BSE;
  Value max_logit;  // scalar
};

// How a layer's products find weights that devices share: along an axis, as
// they are kept; and where they have been for the whole step.
struct Sharing {
  std::optional<std::string> axis;
  const KeptWeights* kept = nullptr;
  Value layer;  // int32 scalar

  explicit operator bool() const { return axis.has_value(); }
  Tickets tickets(std::size_t group) const {
    return kept != nullptr ? kept->group(group).at(layer) : Tickets{};
  }
};

Attended attend_projected(const ModelContext& c, Value x,
                          const RotaryAngles& angles, Value segment_ids_BS,
                          const AttentionWeights& w, const Sharing& shared) {
  const graph::Precision precision = precision_of(c.options);
  const std::int64_t d = c.options.head_dim;
  Values features;
  if (shared) {
    features = to_features(x, {w.query_PE, w.key_PE, w.value_PE}, *shared.axis,
                           shared.tickets(kQueryKeyValue));
  }
  const auto project = [&](std::size_t which, Value weight,
                           std::string_view heads) {
    const Value y = shared ? features[which]
                           : graph::einsum("bse,pe->bsp", x, weight, precision);
    return constrain_logical(
        graph::reshape(y, {y.dim(0), y.dim(1), y.dim(2) / d, d}),
        {"activation_batch", "activation_length", heads, "activation_kv"});
  };
  const Value q = graph::checkpoint_name(
      apply_rotary(project(0, w.query_PE, "activation_heads"), angles),
      "query_proj");
  const Value k = graph::checkpoint_name(
      apply_rotary(project(1, w.key_PE, "activation_kv_heads"), angles),
      "key_proj");
  const Value v = graph::checkpoint_name(
      project(2, w.value_PE, "activation_kv_heads"), "value_proj");
  const attention::AttendResult attended =
      attention::attend({q, k, v, segment_ids_BS, segment_ids_BS, w.sinks_H},
                        attend_settings(c.options, c.attention, c.plan,
                                        x.graph->mesh(), c.target));
  const Value out = graph::checkpoint_name(attended.out_BSHV, "context");
  const Value flat =
      graph::reshape(out, {out.dim(0), out.dim(1), out.dim(2) * out.dim(3)});
  const Value projected =
      shared ? from_features(flat, w.out_PE, *shared.axis,
                             shared.tickets(kAttentionOut))
             : graph::einsum("bsp,pe->bse", flat, w.out_PE, precision);
  return {residual_stream(projected),
          graph::reduce_max(attended.max_BSH, {0, 1, 2})};
}

// A layer's weights of the MLP, as they are kept.
struct MlpWeights {
  Value gate_FE, up_FE, down_FE;
};

// What of F they have, times the activations' part of it.
Value mlp_part(const ModelContext& c, Value x, const MlpWeights& w,
               const Sharing& shared) {
  const graph::Precision precision = precision_of(c.options);
  const auto weight = [&](Value kept, std::string_view name) {
    return used(kept, c.infos[parameter_index(c.infos, name)], c);
  };
  Values features;
  if (shared) {
    features = to_features(x, {w.gate_FE, w.up_FE}, *shared.axis,
                           shared.tickets(kGateUp));
  }
  const auto hidden = [&](std::size_t which, Value kept, std::string_view name,
                          std::string_view remat_name) {
    const Value y =
        shared ? features[which]
               : graph::einsum("bse,fe->bsf", x, weight(kept, name), precision);
    return graph::checkpoint_name(
        constrain_logical(
            y, {"activation_batch", "activation_length", "activation_mlp"}),
        remat_name);
  };
  const Value gate = hidden(0, w.gate_FE, "layers/mlp/wi_0", "mlpwi_0");
  const Value up = hidden(1, w.up_FE, "layers/mlp/wi_1", "mlpwi_1");
  const Value activated = gate * graph::logistic(gate) * up;
  if (shared) {
    return residual_stream(from_features(activated, w.down_FE, *shared.axis,
                                         shared.tickets(kDown)));
  }
  return residual_stream(graph::einsum(
      "bsf,fe->bse", activated, weight(w.down_FE, "layers/mlp/wo"), precision));
}

// [F, E] -> [pieces, F / pieces, E]: every tensor shard has its share of every
// piece.
Value in_pieces(Value w_FE, std::int64_t shards, std::int64_t pieces) {
  const std::int64_t f = w_FE.dim(0);
  const std::int64_t e = w_FE.dim(1);
  const Value parts =
      graph::reshape(w_FE, {shards, pieces, f / (shards * pieces), e});
  return graph::reshape(graph::transpose(parts, {1, 0, 2, 3}),
                        {pieces, f / pieces, e});
}

Value mlp(const ModelContext& c, Value x, const MlpWeights& w,
          const Sharing& shared) {
  const Scope scope(*x.graph, "mlp");
  const std::int64_t pieces = mlp_pieces(c.options, x.graph->mesh(), x.dims());
  if (pieces == 1) return mlp_part(c, x, w, shared);
  const mesh::Mesh& mesh = x.graph->mesh();
  const std::int64_t f = w.gate_FE.dim(0);
  const std::int64_t shards =
      f / mesh::shard_dims({f}, logical(x, {"mlp"}), mesh)[0];
  graph::ScanOptions options;
  options.length = pieces;
  options.remat = remat_of(c.options);
  options.unroll = !c.options.scan_layers;
  const auto cut = [&](Value kept) { return in_pieces(kept, shards, pieces); };
  return graph::scan(*x.graph, {graph::zeros_like(x)},
                     {cut(w.gate_FE), cut(w.up_FE), cut(w.down_FE)}, options,
                     [&](Value, const Values& sum, const Values& piece) {
                       const Value part =
                           mlp_part(c, x, {piece[0], piece[1], piece[2]},
                                    Sharing{shared.axis, nullptr, {}});
                       return graph::ScanValues{{sum[0] + part}, {}};
                     })
      .carry[0];
}

Value embed(const ModelContext& c, Value table, const ParameterInfo& info,
            Value tokens_BS) {
  const Scope scope(*table.graph, "token_embedder");
  // Rows are taken from the table as it is kept, every token by every shard of
  // embed, then resharded to the sequence: neither the table nor its gradient
  // is ever whole on a device.
  const Value rows =
      graph::take_rows(graph::convert(table, c.options.dtype), tokens_BS);
  mesh::PartitionSpec by_embed(std::vector<std::vector<std::string>>(2));
  by_embed.dims.push_back(info.spec.dims.size() > 1
                              ? info.spec.dims[1]
                              : std::vector<std::string>());
  return residual_stream(graph::constrain(rows, by_embed));
}

}  // namespace

std::int64_t mlp_pieces(const ModelOptions& o, const mesh::Mesh& mesh,
                        const Dims& x_BSE) {
  const Dims local = mesh::shard_dims(
      {x_BSE[0], x_BSE[1], o.base_mlp_dim},
      mesh::logical_to_spec(
          {"activation_batch", "activation_length", "activation_mlp"},
          mesh::default_axis_rules(), mesh),
      mesh);
  if (o.num_mlp_tiling > 0) {
    if (local[2] % o.num_mlp_tiling != 0) {
      fail_invalid(
          "num_mlp_tiling={} does not divide the {} hidden columns of a tensor "
          "shard",
          o.num_mlp_tiling, local[2]);
    }
    return o.num_mlp_tiling;
  }
  // All is kept anyway.
  if (o.remat_policy == RematPolicy::kNone) return 1;
  constexpr std::int64_t kLargest = std::int64_t{128} << 20;  // bytes
  constexpr std::int64_t kMost = 8;
  constexpr std::int64_t kLanes = 128;
  const std::int64_t bytes = local[0] * local[1] * local[2] *
                             static_cast<std::int64_t>(dtype_size(o.dtype));
  std::int64_t pieces = 1;
  while (pieces < kMost && bytes / pieces > kLargest &&
         local[2] % (2 * pieces * kLanes) == 0) {
    pieces *= 2;
  }
  return pieces;
}

Value attention_layer(const ModelContext& context, Value x_BSE,
                      const SequenceInputs& inputs,
                      const AttentionWeights& layer) {
  return attend_projected(context, x_BSE,
                          rotary_angles(inputs.positions_BS, context.options),
                          inputs.segment_ids_BS, layer, {})
      .x_BSE;
}

DecoderOutput decoder(const ModelContext& c, const Values& weights,
                      const SequenceInputs& inputs) {
  Graph& g = *inputs.tokens_BS.graph;
  const Scope scope(g, "decoder");
  const auto& infos = c.infos;
  const auto at = [&](std::string_view name) {
    return parameter_index(infos, name);
  };
  const std::size_t embedding = at("token_embedder/embedding");
  const Value x0 =
      embed(c, weights[embedding], infos[embedding], inputs.tokens_BS);
  const RotaryAngles angles = rotary_angles(inputs.positions_BS, c.options);

  std::vector<std::size_t> stacked = {
      at("layers/pre_self_attention_norm/scale"),
      at("layers/self_attention/query"),
      at("layers/self_attention/key"),
      at("layers/self_attention/value"),
      at("layers/self_attention/out"),
      at("layers/post_self_attention_norm/scale"),
      at("layers/mlp/wi_0"),
      at("layers/mlp/wi_1"),
      at("layers/mlp/wo")};
  if (c.options.attention_sink) {
    stacked.push_back(at("layers/self_attention/sinks"));
  }
  Values xs;
  for (const std::size_t i : stacked) xs.push_back(weights[i]);
  graph::ScanOptions options;
  options.length = c.options.base_num_decoder_layers;
  options.remat = remat_of(c.options);
  options.unroll = !c.options.scan_layers;
  const double epsilon = c.options.normalization_layer_epsilon;
  const std::optional<std::string> axis = sharing_axis(c, g.mesh());
  const graph::ScanValues scanned = graph::scan(
      g, {x0}, xs, options,
      [&](Value i_layer, const Values& carry, const Values& slices) {
        const Scope layer(g, "layers");
        const Sharing shared{axis, c.kept, i_layer};
        // Converting and gathering stay inside the loop: the compiler would do
        // them for all layers at once.
        const Values w0 = graph::optimization_barrier(slices);
        Values w;
        for (std::size_t i = 0; i < 5; ++i) {
          w.push_back(shared && i > 0 ? w0[i]
                                      : used(w0[i], infos[stacked[i]], c));
        }
        const Value x = residual_stream(carry[0]);
        // Sinks enter the softmax, which is float32: not rounded.
        const Value sinks = c.options.attention_sink ? w0[9] : Value{};
        const Attended attended = attend_projected(
            c, rms_norm(x, w0[0], epsilon), angles, inputs.segment_ids_BS,
            {w[1], w[2], w[3], w[4], sinks}, shared);
        const Value h = x + attended.x_BSE;
        const Value out = h + mlp(c, rms_norm(h, w0[5], epsilon),
                                  {w0[6], w0[7], w0[8]}, shared);
        Values stacked_out;
        if (c.attention.record_max_logits) {
          stacked_out.push_back(attended.max_logit);
        }
        return graph::ScanValues{{residual_stream(out)}, stacked_out};
      });
  DecoderOutput output;
  output.hidden_BSE =
      rms_norm(scanned.carry[0], weights[at("decoder_norm/scale")], epsilon);
  if (c.attention.record_max_logits) output.max_logits_L = scanned.stacked[0];
  return output;
}

Value output_head(const ModelContext& c, const Values& weights) {
  const bool tied = c.options.logits_via_embedding;
  const Value head = graph::convert(
      weights[parameter_index(
          c.infos, tied ? "token_embedder/embedding" : "logits_dense/kernel")],
      c.options.dtype);
  if (!tied || !c.options.normalize_embedding_logits) return head;
  // As MaxText: a tied table is scaled so that logits start near one.
  return head * (1.0 / std::sqrt(static_cast<double>(c.options.base_emb_dim)));
}

}  // namespace ringmax::model
