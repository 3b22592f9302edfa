// Which weights a training step keeps shared (shared_weights.h), and who reads
// which.
#ifndef RINGMAX_MODEL_KEEP_WEIGHTS_H_
#define RINGMAX_MODEL_KEEP_WEIGHTS_H_

#include <cstddef>
#include <optional>
#include <vector>

#include "ringmax/model/decoder.h"
#include "ringmax/model/shared_weights.h"

namespace ringmax::model {

// Groups of KeptWeights, stacks of layers but the last one: of vocabulary
// chunks.
inline constexpr std::size_t kQueryKeyValue = 0;
inline constexpr std::size_t kAttentionOut = 1;
inline constexpr std::size_t kGateUp = 2;
inline constexpr std::size_t kDown = 3;
inline constexpr std::size_t kHead = 4;

// None where devices do not share weights, or where not everything is kept for
// the backward pass: then each product shares its own, and forgets them.
// `weights` are in the order of the context's infos.
std::optional<KeptWeights> keep_weights(
    const ModelContext& context, const mesh::Mesh& mesh,
    const std::vector<graph::Value>& weights);

}  // namespace ringmax::model

#endif  // RINGMAX_MODEL_KEEP_WEIGHTS_H_
