// Batches of next-token pairs, by step. A data set is a pure function of the
// step and the rows asked for: it has no position to save, and every mesh and
// every resumed run sees the same stream.
#ifndef RINGMAX_DATA_DATASET_H_
#define RINGMAX_DATA_DATASET_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "ringmax/base/array.h"

namespace ringmax::data {

// B rows of S pairs: at position i the model reads tokens[b, i] and should say
// targets[b, i], which is the token after it.
struct Batch {
  HostArray tokens;       // i32 [B, S]
  HostArray targets;      // i32 [B, S]
  HostArray positions;    // i32 [B, S]; restart per segment when packed
  HostArray segment_ids;  // i32 [B, S]; from 1; 0 is padding
  HostArray weights;      // f32 [B, S]; 1, or 0 where there is no target

  // Sum of the weights: pairs that count in the loss.
  double total_weights() const;
};

// Rows [begin, begin + count) of the global batch.
struct RowRange {
  std::int64_t begin = 0;
  std::int64_t count = 0;
  friend bool operator==(const RowRange&, const RowRange&) = default;
};

// The rows that process `process_index` of `process_count` reads when rows are
// dealt out in equal runs. Throws kInvalidArgument unless process_count divides
// global_batch; processes that share a row (a context axis across hosts) ask
// for it by RowRange instead.
RowRange process_rows(std::int64_t global_batch, std::int64_t process_index,
                      std::int64_t process_count);

class Dataset {
 public:
  virtual ~Dataset() = default;

  // The given rows of the global batch of a step (from 0). Safe to call from
  // several threads.
  virtual Batch batch(std::int64_t step, RowRange rows) const = 0;
  // Token ids are below this; the model's vocab_size must not be smaller.
  virtual std::int64_t vocab_size() const = 0;
  // One line for the start of a run.
  virtual std::string describe() const = 0;
};

struct BatchShape {
  std::int64_t global_batch = 1;  // rows over all processes
  std::int64_t sequence_length = 0;
};

// An all-padding batch: zeros everywhere.
Batch make_empty_batch(std::int64_t rows, std::int64_t sequence_length);

// Fills one row of a batch from n tokens: pairs (tokens[i], tokens[i + 1]) at
// positions 0 .. n - 2, each with weight 1, padding after them. n is at most
// sequence_length + 1. With n = sequence_length, that is S - 1 pairs and one
// padded position. Segments and documents' borders are the caller's.
void fill_row(Batch& batch, std::int64_t row,
              std::span<const std::int32_t> tokens);

// One fixed batch by seed, the same at every step: tokens uniform in
// [0, vocab_size), S pairs a row.
std::unique_ptr<Dataset> make_synthetic_dataset(BatchShape shape,
                                                std::int64_t vocab_size,
                                                std::uint64_t seed);

}  // namespace ringmax::data

#endif  // RINGMAX_DATA_DATASET_H_
