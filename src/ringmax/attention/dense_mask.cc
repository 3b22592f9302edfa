#include "ringmax/attention/dense_mask.h"

#include "ringmax/base/error.h"

namespace ringmax::attention {
std::shared_ptr<const DenseMask> DenseMask::make(
    std::int64_t queries, std::int64_t keys,
    std::span<const std::uint8_t> visible) {
  if (queries < 1 || keys < 1) {
    fail_invalid(
        "a dense mask needs at least one query and one key, got [{}, {}]",
        queries, keys);
  }
  // Divided, so that no product overflows.
  const std::uint64_t size = visible.size();
  const auto columns = static_cast<std::uint64_t>(keys);
  if (size % columns != 0 ||
      size / columns != static_cast<std::uint64_t>(queries)) {
    fail_invalid("a dense mask of [{}, {}] does not have {} values", queries,
                 keys, size);
  }
  std::shared_ptr<DenseMask> mask(new DenseMask(queries, keys));
  mask->bytes_.resize(visible.size());
  std::uint64_t hash = 14695981039346656037u;  // FNV-1a
  for (std::size_t i = 0; i < visible.size(); ++i) {
    mask->bytes_[i] = visible[i] != 0 ? 1 : 0;
    hash = (hash ^ mask->bytes_[i]) * 1099511628211u;
  }
  mask->hash_ = hash;
  return mask;
}

std::int64_t DenseMask::count(const PositionRun& queries,
                              const PositionRun& keys) const {
  const std::int64_t rows = queries.below(queries_).count;
  const std::int64_t columns = keys.below(keys_).count;
  std::int64_t seen = 0;
  for (std::int64_t r = 0; r < rows; ++r) {
    const std::uint8_t* row = bytes_.data() + queries.at(r) * keys_;
    for (std::int64_t c = 0; c < columns; ++c) seen += row[keys.at(c)];
  }
  return seen;
}

}  // namespace ringmax::attention
