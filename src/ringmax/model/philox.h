// Counter-based random numbers as graph nodes (Philox4x32-10; Salmon, Moraes,
// Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011).
//
// Elementwise integer arithmetic on iota: every element's bits depend on (seed,
// stream, index) only, so a partitioned program makes the same numbers.
#ifndef RINGMAX_MODEL_PHILOX_H_
#define RINGMAX_MODEL_PHILOX_H_

#include <array>
#include <cstdint>

#include "ringmax/graph/graph.h"

namespace ringmax::model {

// One call per element: four words, each ui32 of shape `dims`. Counter: low and
// high half of the row-major element index, low and high half of `stream`; key:
// low and high half of `seed`.
std::array<graph::Value, 4> philox_words(graph::Graph& graph, const Dims& dims,
                                         std::uint64_t seed,
                                         std::uint64_t stream);

// float32 close to normal with mean 0 and the given standard deviation: the sum
// of eight uniform 16-bit integers, shifted to mean 0 (exact) and scaled by one
// multiplication, so the bits are the same on every platform. Bounded by 4.9
// standard deviations.
graph::Value approx_normal(graph::Graph& graph, const Dims& dims,
                           std::uint64_t seed, std::uint64_t stream,
                           double stddev);

}  // namespace ringmax::model

#endif  // RINGMAX_MODEL_PHILOX_H_
