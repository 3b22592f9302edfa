#include "ringmax/data/permutation.h"

#include <bit>

#include "ringmax/base/error.h"
#include "ringmax/base/philox.h"

namespace ringmax::data {

Permutation::Permutation(std::uint64_t n, std::uint64_t seed,
                         std::uint64_t stream)
    : n_(n), seed_(seed), stream_(stream) {
  RINGMAX_CHECK(n >= 1 && n <= (std::uint64_t{1} << 62));
  const unsigned bits = static_cast<unsigned>(std::bit_width(n - 1));
  half_bits_ = bits < 2 ? 1 : (bits + 1) / 2;
}

std::uint64_t Permutation::operator()(std::uint64_t i) const {
  RINGMAX_CHECK(i < n_);
  constexpr std::uint64_t kRounds = 6;
  const std::uint64_t mask = (std::uint64_t{1} << half_bits_) - 1;
  do {
    std::uint64_t left = i >> half_bits_;
    std::uint64_t right = i & mask;
    for (std::uint64_t round = 0; round < kRounds; ++round) {
      const std::uint64_t mixed =
          left ^ (random_bits(seed_, stream_, (round << 32) | right) & mask);
      left = right;
      right = mixed;
    }
    i = (left << half_bits_) | right;
  } while (i >= n_);
  return i;
}

}  // namespace ringmax::data
