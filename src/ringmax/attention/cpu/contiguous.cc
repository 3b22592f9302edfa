#include "ringmax/attention/cpu/contiguous.h"

#include <algorithm>
#include <cstring>

namespace ringmax::attention::cpu {
namespace {

// Calls work(batch, head, row) for all rows, a run of rows a task: those of all
// heads together, as an array with tokens first has them.
template <typename Work>
void for_rows(const RowSizes& sizes, const Workers& workers, const Work& work) {
  constexpr std::int64_t kRun = 64;
  const std::int64_t runs = (sizes.rows + kRun - 1) / kRun;
  workers.run(sizes.batches * runs, [&](std::int64_t task) {
    const std::int64_t batch = task / runs;
    const std::int64_t first = task % runs * kRun;
    const std::int64_t end = std::min(first + kRun, sizes.rows);
    for (std::int64_t row = first; row < end; ++row) {
      for (std::int64_t head = 0; head < sizes.heads; ++head) {
        work(batch, head, row);
      }
    }
  });
}

}  // namespace

ContiguousRows::ContiguousRows(const ConstRows& from, const RowSizes& sizes,
                               std::size_t element_bytes,
                               const Workers& workers)
    : rows_(from) {
  if (from.row == sizes.columns) return;
  const std::int64_t head = sizes.rows * sizes.columns;
  const auto bytes = static_cast<std::int64_t>(element_bytes);
  copy_ = hwy::AllocateAligned<std::byte>(
      static_cast<std::size_t>(sizes.batches * sizes.heads * head * bytes));
  rows_ = {copy_.get(), sizes.heads * head, head, sizes.columns};
  const auto* source = static_cast<const std::byte*>(from.data);
  for_rows(sizes, workers,
           [&](std::int64_t batch, std::int64_t h, std::int64_t row) {
             const std::int64_t at =
                 batch * from.batch + h * from.head + row * from.row;
             const std::int64_t to =
                 batch * rows_.batch + h * rows_.head + row * rows_.row;
             std::memcpy(copy_.get() + to * bytes, source + at * bytes,
                         static_cast<std::size_t>(sizes.columns * bytes));
           });
}

ContiguousSums::ContiguousSums(const FloatRows& to, const RowSizes& sizes,
                               bool fresh, const Workers& workers)
    : to_(to), sizes_(sizes), fresh_(fresh), sums_(to) {
  const bool in_place = to.row == sizes.columns;
  if (in_place && !fresh) return;
  if (!in_place) {
    const std::int64_t head = sizes.rows * sizes.columns;
    memory_ = hwy::AllocateAligned<float>(
        static_cast<std::size_t>(sizes.batches * sizes.heads * head));
    sums_ = {memory_.get(), sizes.heads * head, head, sizes.columns};
  }
  for_rows(sizes, workers,
           [&](std::int64_t batch, std::int64_t h, std::int64_t row) {
             std::fill_n(sums_.data + batch * sums_.batch + h * sums_.head +
                             row * sums_.row,
                         sizes.columns, 0.0f);
           });
}

void ContiguousSums::finish(const Workers& workers) const {
  if (!memory_) return;
  for_rows(sizes_, workers,
           [&](std::int64_t batch, std::int64_t h, std::int64_t row) {
             const float* from = sums_.data + batch * sums_.batch +
                                 h * sums_.head + row * sums_.row;
             float* to =
                 to_.data + batch * to_.batch + h * to_.head + row * to_.row;
             if (fresh_) {
               std::copy_n(from, sizes_.columns, to);
             } else {
               for (std::int64_t c = 0; c < sizes_.columns; ++c) {
                 to[c] += from[c];
               }
             }
           });
}

}  // namespace ringmax::attention::cpu
