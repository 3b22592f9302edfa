// Blockwise (flash) attention as plain StableHLO: the kernel that runs on any
// plugin.
//
// For every batch row, kv head and block of queries it walks the key blocks
// that the block table lists, first the fully visible ones, without any mask,
// then the others; partial sums meet by online softmax (Milakov and Gimelshein
// 2018; Dao 2023). No [S, T] array exists. Sums and statistics are float32.
//
// Score tiles are [keys, queries]: XLA:CPU vectorises reductions over a leading
// dimension, not over the last. The query heads of one kv head are rows of one
// tile, so every contraction is a plain two-dimensional dot.
#ifndef RINGMAX_ATTENTION_BLOCKWISE_H_
#define RINGMAX_ATTENTION_BLOCKWISE_H_

#include "ringmax/attention/backend.h"

namespace ringmax::attention {

const Backend& stablehlo_backend();

}  // namespace ringmax::attention

#endif  // RINGMAX_ATTENTION_BLOCKWISE_H_
