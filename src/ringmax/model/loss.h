// Next-token cross entropy, chunked over the vocabulary.
#ifndef RINGMAX_MODEL_LOSS_H_
#define RINGMAX_MODEL_LOSS_H_

#include <cstdint>
#include <optional>
#include <string>

#include "ringmax/graph/graph.h"
#include "ringmax/model/shared_weights.h"

namespace ringmax::model {

// Vocabulary chunks for `num_vocab_tiling`: that many when it is more than 1,
// else the fewest, at least two where they divide, that keep a chunk at 8192
// columns or less; in multiples of 128 columns where they are not too few for
// that (2048), or else up to 24576.
std::int64_t vocabulary_chunks(std::int64_t vocab_per_shard,
                               std::int64_t num_vocab_tiling);

// A head that devices read from where its parts lie (shared_weights.h).
struct SharedHead {
  std::string axis;
  StackTickets tickets = {};  // of its chunks; may be invalid
};

struct Loss {
  graph::Value mean;     // float32 scalar; 0 when no token is valid
  graph::Value weights;  // float32 scalar: number of valid tokens
};

// Mean over valid tokens of the global batch of log-sum-exp(logits) - logit of
// the target. hidden [B, S, E]; head [V, E] as it is kept; targets int32 [B,
// S]; weights float32 [B, S], 1 valid and 0 not. No [tokens, vocab] array
// exists, forward or backward: chunks are computed, used and forgotten, and
// each chunk of the head's gradient is reduced as it is made. `written_out`:
// chunks follow one another in the program instead of being a loop. `shared`:
// how the head is shared out, if it is.
Loss cross_entropy(graph::Value hidden_BSE, graph::Value head_VE,
                   graph::Value targets_BS, graph::Value weights_BS,
                   std::int64_t num_vocab_tiling, bool written_out = false,
                   const std::optional<SharedHead>& shared = std::nullopt);

}  // namespace ringmax::model

#endif  // RINGMAX_MODEL_LOSS_H_
