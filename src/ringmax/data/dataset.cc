#include "ringmax/data/dataset.h"

#include <vector>

#include "ringmax/base/error.h"
#include "ringmax/base/philox.h"

namespace ringmax::data {
namespace {

// Random streams of this room; parameters have their own.
constexpr std::uint64_t kSyntheticStream = 0x73796e7468;

class SyntheticDataset : public Dataset {
 public:
  SyntheticDataset(BatchShape shape, std::int64_t vocab_size,
                   std::uint64_t seed)
      : shape_(shape), vocab_size_(vocab_size), seed_(seed) {
    if (vocab_size < 1) {
      fail_invalid("vocab_size={}: must be at least 1", vocab_size);
    }
  }

  Batch batch(std::int64_t, RowRange rows) const override {
    const std::int64_t length = shape_.sequence_length;
    Batch batch = make_empty_batch(rows.count, length);
    std::vector<std::int32_t> tokens(static_cast<std::size_t>(length) + 1);
    for (std::int64_t row = 0; row < rows.count; ++row) {
      const std::int64_t first = (rows.begin + row) * (length + 1);
      for (std::int64_t i = 0; i <= length; ++i) {
        tokens[i] = static_cast<std::int32_t>(
            random_below(seed_, kSyntheticStream, first + i, vocab_size_));
      }
      fill_row(batch, row, tokens);
    }
    return batch;
  }

  std::int64_t vocab_size() const override { return vocab_size_; }

  std::string describe() const override {
    return fmt::format("synthetic: one batch of {} x {} tokens, repeated",
                       shape_.global_batch, shape_.sequence_length);
  }

 private:
  BatchShape shape_;
  std::int64_t vocab_size_;
  std::uint64_t seed_;
};

}  // namespace

double Batch::total_weights() const {
  double sum = 0;
  for (const float weight : weights.data<float>()) sum += weight;
  return sum;
}

RowRange process_rows(std::int64_t global_batch, std::int64_t process_index,
                      std::int64_t process_count) {
  RINGMAX_CHECK(process_index >= 0 && process_index < process_count);
  if (global_batch % process_count != 0) {
    fail_invalid(
        "a global batch of {} sequences cannot be dealt to {} processes; it "
        "must be a multiple of them",
        global_batch, process_count);
  }
  const std::int64_t count = global_batch / process_count;
  return {process_index * count, count};
}

Batch make_empty_batch(std::int64_t rows, std::int64_t sequence_length) {
  const Dims dims = {rows, sequence_length};
  return {
      HostArray(Shape(DType::kI32, dims)), HostArray(Shape(DType::kI32, dims)),
      HostArray(Shape(DType::kI32, dims)), HostArray(Shape(DType::kI32, dims)),
      HostArray(Shape(DType::kF32, dims))};
}

void fill_row(Batch& batch, std::int64_t row,
              std::span<const std::int32_t> tokens) {
  const std::int64_t length = batch.tokens.shape().dims[1];
  const auto count = static_cast<std::int64_t>(tokens.size());
  RINGMAX_CHECK(row >= 0 && row < batch.tokens.shape().dims[0]);
  RINGMAX_CHECK(count <= length + 1);
  const std::int64_t first = row * length;
  for (std::int64_t i = 0; i + 1 < count; ++i) {
    const std::int64_t at = first + i;
    batch.tokens.data<std::int32_t>()[at] = tokens[i];
    batch.targets.data<std::int32_t>()[at] = tokens[i + 1];
    batch.segment_ids.data<std::int32_t>()[at] = 1;
    batch.weights.data<float>()[at] = 1;
  }
  // Padding keeps counting: RoPE has no special case for it.
  for (std::int64_t i = 0; i < length; ++i) {
    batch.positions.data<std::int32_t>()[first + i] =
        static_cast<std::int32_t>(i);
  }
}

std::unique_ptr<Dataset> make_synthetic_dataset(BatchShape shape,
                                                std::int64_t vocab_size,
                                                std::uint64_t seed) {
  return std::make_unique<SyntheticDataset>(shape, vocab_size, seed);
}

}  // namespace ringmax::data
