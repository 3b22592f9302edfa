// A mask that is an array: one byte a (query, key) pair, not zero for visible.
// Immutable and shared; for masks that have a formula there is mask.h.
#ifndef RINGMAX_ATTENTION_DENSE_MASK_H_
#define RINGMAX_ATTENTION_DENSE_MASK_H_

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "ringmax/attention/position.h"

namespace ringmax::attention {

class DenseMask {
 public:
  // `visible` is row-major [queries, keys], both at least 1. Throws
  // kInvalidArgument when the sizes do not fit.
  static std::shared_ptr<const DenseMask> make(
      std::int64_t queries, std::int64_t keys,
      std::span<const std::uint8_t> visible);

  std::int64_t queries() const { return queries_; }
  std::int64_t keys() const { return keys_; }
  // Row-major [queries, keys], 0 or 1.
  std::span<const std::uint8_t> bytes() const { return bytes_; }
  // False outside of the array.
  bool visible(std::int64_t query, std::int64_t key) const {
    return query >= 0 && query < queries_ && key >= 0 && key < keys_ &&
           bytes_[static_cast<std::size_t>(query * keys_ + key)] != 0;
  }
  std::int64_t count(const PositionRun& queries, const PositionRun& keys) const;
  std::uint64_t hash() const { return hash_; }

  friend bool operator==(const DenseMask& a, const DenseMask& b) {
    return a.queries_ == b.queries_ && a.keys_ == b.keys_ &&
           a.hash_ == b.hash_ && a.bytes_ == b.bytes_;
  }

 private:
  DenseMask(std::int64_t queries, std::int64_t keys)
      : queries_(queries), keys_(keys) {}

  std::int64_t queries_;
  std::int64_t keys_;
  std::vector<std::uint8_t> bytes_;
  std::uint64_t hash_ = 0;
};

}  // namespace ringmax::attention

#endif  // RINGMAX_ATTENTION_DENSE_MASK_H_
