#include "ringmax/model/loss.h"

#include <algorithm>
#include <initializer_list>
#include <limits>
#include <string_view>
#include <utility>

#include "ringmax/base/error.h"
#include "ringmax/graph/control.h"
#include "ringmax/graph/ops.h"
#include "ringmax/graph/parallel.h"
#include "ringmax/mesh/axis_rules.h"
#include "ringmax/model/shared_weights.h"

namespace ringmax::model {
namespace {

using graph::Graph;
using graph::Value;
using graph::Values;

// The head's rows, one a token, which are the logits' columns, as [shards,
// chunks, columns]: a chunk takes the same share from every tensor shard, so
// that all of them work on every chunk.
struct Columns {
  std::int64_t shards, chunks, columns;
  // Chunks one after another instead of a loop over them.
  bool written_out;
  std::optional<SharedHead> shared;
  std::int64_t width() const { return shards * columns; }
  graph::ScanOptions walk() const {
    graph::ScanOptions options;
    options.length = chunks;
    options.unroll = written_out || chunks == 1;
    return options;
  }
};

mesh::PartitionSpec spec(Graph& g,
                         std::initializer_list<std::string_view> names) {
  return mesh::logical_to_spec(names, mesh::default_axis_rules(), g.mesh());
}

// [V, E] -> [shards, chunks, columns, E].
Value by_chunk(Value head_VE, const Columns& c) {
  return graph::reshape(head_VE,
                        {c.shards, c.chunks, c.columns, head_VE.dim(1)});
}

// Chunk `i` as [shards * columns, E], whole along embed unless it is shared.
Value chunk_of(Value head_XCWE, Value i, const Columns& c) {
  Graph& g = *head_XCWE.graph;
  const Value w = graph::reshape(graph::dynamic_slice_dim(head_XCWE, 1, i, 1),
                                 {c.width(), head_XCWE.dim(3)});
  return c.shared ? w : graph::constrain(w, spec(g, {"vocab", "norm"}));
}

// Which token each column of chunk `i` is, int32 [width].
Value column_ids(Graph& g, Value i, const Columns& c) {
  const Shape shape(DType::kI32, {c.shards, c.columns});
  const Value shard =
      graph::iota(g, shape, 0) * static_cast<double>(c.chunks * c.columns);
  const Value start =
      graph::broadcast_to(i * static_cast<double>(c.columns), shape.dims);
  return graph::reshape(shard + start + graph::iota(g, shape, 1), {c.width()});
}

// With the head's chunk `i`, w.
Value chunk_logits(Value hidden_BSE, Value w_VE, Value i, const Columns& c) {
  if (c.shared) {
    return shared_features(hidden_BSE, {w_VE}, c.shared->axis,
                           c.shared->tickets.at(i))[0];
  }
  const Value logits =
      graph::einsum("bse,ve->bsv", hidden_BSE, w_VE, DType::kF32);
  return graph::constrain(
      logits, spec(*logits.graph, {"activation_batch", "activation_length",
                                   "activation_vocab"}));
}

Value is_target(Value targets_BS, Value ids, const Dims& dims) {
  return graph::equal(graph::broadcast_in_dim(targets_BS, dims, {0, 1}),
                      graph::broadcast_in_dim(ids, dims, {2}));
}

Value over_columns(Value x_BS, const Dims& dims) {
  return graph::broadcast_in_dim(x_BS, dims, {0, 1});
}

struct Statistics {
  Value lse_BS, target_BS;
};

// One walk over the chunks with online softmax.
Statistics statistics(Value hidden, Value head, Value targets,
                      const Columns& c) {
  Graph& g = *hidden.graph;
  const Shape row(DType::kF32, targets.dims());
  const Value chunks = by_chunk(head, c);
  const graph::ScanOptions options = c.walk();
  const Values init = {
      graph::constant(g, row, -std::numeric_limits<double>::infinity()),
      graph::constant(g, row, 0), graph::constant(g, row, 0)};
  const Values out =
      graph::scan(
          g, init, {}, options,
          [&](Value i, const Values& s, const Values&) {
            const Value logits =
                chunk_logits(hidden, chunk_of(chunks, i, c), i, c);
            const Dims& dims = logits.dims();
            const Value top =
                graph::maximum(s[0], graph::reduce_max(logits, {2}));
            const Value sum =
                s[1] * graph::exp(s[0] - top) +
                graph::reduce_sum(graph::exp(logits - over_columns(top, dims)),
                                  {2});
            const Value hit = is_target(targets, column_ids(g, i, c), dims);
            const Value target =
                s[2] +
                graph::reduce_sum(
                    graph::select(hit, logits, graph::zeros_like(logits)), {2});
            return graph::ScanValues{{top, sum, target}, {}};
          })
          .carry;
  return {out[0] + graph::log(out[1]), out[2]};
}

struct HeadGradients {
  Value hidden_BSE, head_VE;
};

HeadGradients backward(Value hidden, Value head, Value targets, Value lse,
                       Value dnll_BS, const Columns& c) {
  Graph& g = *hidden.graph;
  const Value chunks = by_chunk(head, c);
  const graph::ScanOptions options = c.walk();
  const Value zero = graph::constant(g, Shape(DType::kF32, hidden.dims()), 0);
  const graph::ScanValues out = graph::scan(
      g, {zero}, {}, options, [&](Value i, const Values& s, const Values&) {
        const Value w = chunk_of(chunks, i, c);
        const Value logits = chunk_logits(hidden, w, i, c);
        const Dims& dims = logits.dims();
        const Value p = graph::exp(logits - over_columns(lse, dims));
        const Value hit = is_target(targets, column_ids(g, i, c), dims);
        const Value one_hot = graph::convert(hit, DType::kF32);
        const Value dlogits = graph::convert(
            (p - one_hot) * over_columns(dnll_BS, dims), hidden.dtype());
        if (c.shared) {
          const Values d = shared_feature_gradients(
              hidden, {w}, {dlogits}, c.shared->axis, c.shared->tickets.at(i));
          return graph::ScanValues{{s[0] + d[0]}, {d[1]}};
        }
        const Value dhidden =
            graph::einsum("bsv,ve->bse", dlogits, w, DType::kF32);
        const Value dw =
            graph::einsum("bsv,bse->ve", dlogits, hidden, DType::kF32);
        return graph::ScanValues{
            {s[0] + dhidden},
            {graph::constrain(
                dw, mesh::even_spec(dw.dims(), spec(g, {"vocab", "embed"}),
                                    g.mesh()))}};
      });
  // [chunks, shards * columns, E] -> [V, E].
  const Value stacked = graph::reshape(
      out.stacked[0], {c.chunks, c.shards, c.columns, head.dim(1)});
  const Value dhead =
      graph::reshape(graph::transpose(stacked, {1, 0, 2, 3}), head.dims());
  return {graph::convert(out.carry[0], hidden.dtype()),
          graph::convert(dhead, head.dtype())};
}

Value sum_all(Value x_BS) { return graph::reduce_sum(x_BS, {0, 1}); }

}  // namespace

std::int64_t vocabulary_chunks(std::int64_t vocab_per_shard,
                               std::int64_t num_vocab_tiling) {
  if (num_vocab_tiling > 1) {
    if (vocab_per_shard % num_vocab_tiling != 0) {
      fail_invalid(
          "num_vocab_tiling={} does not divide the {} vocabulary columns of a "
          "tensor shard",
          num_vocab_tiling, vocab_per_shard);
    }
    return num_vocab_tiling;
  }
  // Whole registers of 128 lanes are faster, to run and to compile; for them a
  // chunk may be somewhat larger.
  constexpr std::int64_t kLanes = 128;
  constexpr std::int64_t kColumns = 8192;
  constexpr std::int64_t kFewColumns = 2048;
  constexpr std::int64_t kManyColumns = 24576;
  std::int64_t fewest = 1;  // chunks of at most kColumns
  std::int64_t whole = 1;   // the same, of whole registers
  std::int64_t whole_large =
      1;  // the most, of whole registers and more columns
  for (std::int64_t n = 2; n < vocab_per_shard; ++n) {
    if (vocab_per_shard % n != 0) continue;
    const std::int64_t columns = vocab_per_shard / n;
    const bool small = columns <= kColumns;
    if (small && fewest == 1) fewest = n;
    if (columns % kLanes != 0) continue;
    if (small && whole == 1) whole = n;
    if (!small && columns <= kManyColumns) whole_large = n;
  }
  if (fewest == 1) return 1;
  if (whole == fewest) return whole;
  if (whole > 1 && vocab_per_shard / whole >= kFewColumns) return whole;
  return whole_large > 1 ? whole_large : fewest;
}

Loss cross_entropy(Value hidden_BSE, Value head_VE, Value targets_BS,
                   Value weights_BS, std::int64_t num_vocab_tiling,
                   bool written_out, const std::optional<SharedHead>& shared) {
  Graph& g = *hidden_BSE.graph;
  const graph::Scope scope(g, "loss");
  if (head_VE.rank() != 2 || hidden_BSE.rank() != 3 ||
      hidden_BSE.dim(2) != head_VE.dim(1)) {
    fail_invalid("cross_entropy: {} does not fit the head {}",
                 hidden_BSE.describe(), head_VE.describe());
  }
  Columns c{};
  c.shards = head_VE.dim(0) / mesh::shard_dims({head_VE.dim(0)},
                                               spec(g, {"vocab"}), g.mesh())[0];
  const std::int64_t per_shard = head_VE.dim(0) / c.shards;
  c.chunks = vocabulary_chunks(per_shard, num_vocab_tiling);
  c.columns = per_shard / c.chunks;
  c.written_out = written_out;
  c.shared = shared;
  const auto valid_count = [](Value weights) {
    const Value total = sum_all(weights);
    return graph::maximum(total, graph::full_like(total, 1));
  };
  Values inputs = {hidden_BSE, head_VE, targets_BS, weights_BS};
  const bool kept = shared && shared->tickets.to_features.valid();
  if (kept) {
    inputs.push_back(shared->tickets.to_features);
    inputs.push_back(shared->tickets.from_features);
  }
  // As the functions below are given the tickets.
  const auto columns = [c, kept](const Values& given) {
    Columns own = c;
    if (kept) own.shared->tickets = {given[4], given[5]};
    return own;
  };
  const Values out = graph::custom_vjp(
      g, inputs,
      [&](const Values& in) {
        const Statistics s = statistics(in[0], in[1], in[2], columns(in));
        const Value mean =
            sum_all((s.lse_BS - s.target_BS) * in[3]) / valid_count(in[3]);
        Values residuals = in;
        residuals.push_back(s.lse_BS);
        return graph::CustomVjpForward{{mean}, std::move(residuals), {}};
      },
      [&](const Values& r, const Values& ct) {
        const Value dnll =
            r[3] * graph::broadcast_to(ct[0] / valid_count(r[3]), r[3].dims());
        const HeadGradients d =
            backward(r[0], r[1], r[2], r.back(), dnll, columns(r));
        Values gradients = {d.hidden_BSE, d.head_VE};
        gradients.resize(r.size() - 1);
        return gradients;
      });
  return {out[0], sum_all(weights_BS)};
}

}  // namespace ringmax::model
