#include "ringmax/base/philox.h"

#include "ringmax/base/error.h"

namespace ringmax {
namespace {

constexpr std::uint32_t kMultiplier0 = 0xD2511F53;
constexpr std::uint32_t kMultiplier1 = 0xCD9E8D57;
constexpr std::uint32_t kWeyl0 = 0x9E3779B9;  // golden ratio
constexpr std::uint32_t kWeyl1 = 0xBB67AE85;  // sqrt(3) - 1

constexpr std::uint32_t low(std::uint64_t x) {
  return static_cast<std::uint32_t>(x);
}
constexpr std::uint32_t high(std::uint64_t x) {
  return static_cast<std::uint32_t>(x >> 32);
}

}  // namespace

PhiloxBlock philox4x32(PhiloxBlock counter, std::array<std::uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t product0 = std::uint64_t{kMultiplier0} * counter[0];
    const std::uint64_t product1 = std::uint64_t{kMultiplier1} * counter[2];
    counter = {high(product1) ^ counter[1] ^ key[0], low(product1),
               high(product0) ^ counter[3] ^ key[1], low(product0)};
    key[0] += kWeyl0;
    key[1] += kWeyl1;
  }
  return counter;
}

PhiloxBlock random_block(std::uint64_t seed, std::uint64_t stream,
                         std::uint64_t index) {
  return philox4x32({low(index), high(index), low(stream), high(stream)},
                    {low(seed), high(seed)});
}

std::uint64_t random_bits(std::uint64_t seed, std::uint64_t stream,
                          std::uint64_t index) {
  const PhiloxBlock block = random_block(seed, stream, index);
  return block[0] | (std::uint64_t{block[1]} << 32);
}

std::uint64_t random_below(std::uint64_t seed, std::uint64_t stream,
                           std::uint64_t index, std::uint64_t bound) {
  RINGMAX_CHECK(bound >= 1);
  __extension__ using Wide = unsigned __int128;
  const std::uint64_t bits = random_bits(seed, stream, index);
  return static_cast<std::uint64_t>((Wide{bits} * bound) >> 64);
}

float approx_normal(std::uint64_t seed, std::uint64_t stream,
                    std::uint64_t index) {
  constexpr std::int32_t kMean = 8 * 65535 / 2;
  std::int32_t sum = -kMean;
  for (const std::uint32_t word : random_block(seed, stream, index)) {
    sum += static_cast<std::int32_t>((word & 0xFFFF) + (word >> 16));
  }
  return static_cast<float>(sum) * kApproxNormalScale;
}

}  // namespace ringmax
