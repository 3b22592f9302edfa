// Blockwise (flash) attention of one query shard with one key/value shard, as
// plain StableHLO: runs on any plugin.
//
// Queries are walked in blocks of block_q rows and, for each, keys in blocks of
// block_kv up to the last one the mask lets it see; partial results meet by
// online softmax (Milakov and Gimelshein 2018; Dao 2023). No [S, T] array
// exists. State and statistics are float32 in natural log. A row that has seen
// no key has sum 0 and maximum -inf; it comes out as 0 with log-sum-exp -inf.
//
// Shape letters: B batch, K kv heads, G query heads per kv head, S queries, T
// keys, D head_dim of query and key, V head_dim of value. All are local sizes;
// nothing here knows a mesh.
#ifndef RINGMAX_ATTENTION_BLOCKWISE_H_
#define RINGMAX_ATTENTION_BLOCKWISE_H_

#include <cstdint>

#include "ringmax/graph/graph.h"

namespace ringmax::attention {

struct BlockwiseSettings {
  bool causal = true;
  std::int64_t causal_offset = 0;  // key j is seen when j <= i + offset
  double scale = 1;
  std::int64_t block_q = 512;
  std::int64_t block_kv = 512;
  // Keys at this position and later are padding that nobody sees; 0 when there
  // is none.
  std::int64_t keys_end = 0;
};

struct SoftmaxState {
  graph::Value max_BKGS;   // running maximum of the logits
  graph::Value sum_BKGS;   // sum of exp(logit - max)
  graph::Value acc_BKGSV;  // sum of exp(logit - max) * value
};

SoftmaxState empty_state(graph::Value q_BKGSD, std::int64_t value_dim);

// Adds one key/value shard. `kv_BKTE` holds key and value side by side (E = D +
// V): the payload of a ring step. `q_start` and `kv_start` are the positions
// (int32 scalars) of the first query and key; positions are consecutive.
SoftmaxState attend_shard(const SoftmaxState& state, graph::Value q_BKGSD,
                          graph::Value kv_BKTE, graph::Value q_start,
                          graph::Value kv_start,
                          const BlockwiseSettings& settings);

// acc / sum, 0 where sum is 0; float32.
graph::Value normalized(const SoftmaxState& state);
// max + log(sum), -inf where sum is 0; float32 [B, K, G, S].
graph::Value log_sum_exp(const SoftmaxState& state);

struct ShardGradients {
  graph::Value dq_BKGSD;  // float32, added to what is given
  graph::Value dkv_BKTE;  // float32, added to what is given
};

// Adds the contributions of one key/value shard to the gradients. `delta` is
// the row sum of out * dout, float32 [B, K, G, S]; `lse` the global
// log-sum-exp, so that probabilities are the global ones.
ShardGradients attend_shard_backward(
    const ShardGradients& gradients, graph::Value q_BKGSD, graph::Value kv_BKTE,
    graph::Value dout_BKGSV, graph::Value lse_BKGS, graph::Value delta_BKGS,
    graph::Value q_start, graph::Value kv_start,
    const BlockwiseSettings& settings);

}  // namespace ringmax::attention

#endif  // RINGMAX_ATTENTION_BLOCKWISE_H_
