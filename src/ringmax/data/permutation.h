// A random order of n things, looked up one by one in no memory: a Feistel
// network on the smallest even number of bits that holds n, walked until it
// lands below n.
#ifndef RINGMAX_DATA_PERMUTATION_H_
#define RINGMAX_DATA_PERMUTATION_H_

#include <cstdint>

namespace ringmax::data {

class Permutation {
 public:
  // Of [0, n), n >= 1; a pure function of (n, seed, stream).
  Permutation(std::uint64_t n, std::uint64_t seed, std::uint64_t stream);
  // The i-th thing, i < n.
  std::uint64_t operator()(std::uint64_t i) const;

 private:
  std::uint64_t n_;
  std::uint64_t seed_;
  std::uint64_t stream_;
  unsigned half_bits_;
};

}  // namespace ringmax::data

#endif  // RINGMAX_DATA_PERMUTATION_H_
