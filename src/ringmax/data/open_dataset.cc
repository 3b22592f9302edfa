#include "ringmax/data/open_dataset.h"

#include "ringmax/base/error.h"
#include "ringmax/data/text_dataset.h"

namespace ringmax::data {

std::unique_ptr<Dataset> open_dataset(const DataOptions& options,
                                      BatchShape shape,
                                      std::int64_t vocab_size) {
  const auto seed = static_cast<std::uint64_t>(options.data_shuffle_seed);
  if (options.dataset_type == DatasetType::kSynthetic) {
    return make_synthetic_dataset(shape, vocab_size, seed);
  }
  std::unique_ptr<Dataset> dataset =
      open_text_dataset({.dataset_path = options.dataset_path,
                         .shuffle = options.enable_data_shuffling,
                         .seed = seed,
                         .packing = options.packing},
                        shape);
  if (vocab_size < dataset->vocab_size()) {
    fail_invalid("vocab_size={}: the data has {} tokens; valid is {} or more",
                 vocab_size, dataset->vocab_size(), dataset->vocab_size());
  }
  return dataset;
}

}  // namespace ringmax::data
