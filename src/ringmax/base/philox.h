// Philox4x32-10, a counter-based generator: random words are a pure function of
// (seed, stream, index), so initialisation and data are the same bits for every
// mesh, order and machine. Not for cryptography.
//
// Source: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as
// 1, 2, 3" (SC11). The device twin lives in graph terms; these functions are
// its oracle, so every one is exact integer arithmetic followed by at most one
// rounding.
#ifndef RINGMAX_BASE_PHILOX_H_
#define RINGMAX_BASE_PHILOX_H_

#include <array>
#include <cstdint>

namespace ringmax {

using PhiloxBlock = std::array<std::uint32_t, 4>;

// Ten rounds of Philox4x32.
PhiloxBlock philox4x32(PhiloxBlock counter, std::array<std::uint32_t, 2> key);

// The block for one index of a stream: counter = (index lo, index hi, stream
// lo, stream hi), key = (seed lo, seed hi).
PhiloxBlock random_block(std::uint64_t seed, std::uint64_t stream,
                         std::uint64_t index);

// 64 uniform bits: words 0 (low) and 1 (high) of the block.
std::uint64_t random_bits(std::uint64_t seed, std::uint64_t stream,
                          std::uint64_t index);

// Uniform in [0, bound), bound >= 1: the high half of bits * bound, so the bias
// is below bound / 2^64.
std::uint64_t random_below(std::uint64_t seed, std::uint64_t stream,
                           std::uint64_t index, std::uint64_t bound);

// 1 / sqrt(8 (65536^2 - 1) / 12), rounded to f32: the factor that gives
// approx_normal unit variance.
inline constexpr float kApproxNormalScale = 0x1.3988e2p-16F;

// Nearly standard normal (Irwin-Hall): the block's eight 16-bit halves are
// summed as integers, the exact mean 262140 is taken off, the difference (exact
// in f32) is multiplied by kApproxNormalScale. One rounding in all, so the bits
// agree on every machine. |value| <= 4.9; excess kurtosis -0.15.
float approx_normal(std::uint64_t seed, std::uint64_t stream,
                    std::uint64_t index);

}  // namespace ringmax

#endif  // RINGMAX_BASE_PHILOX_H_
