// Settings of the input: where tokens come from and the shape of a batch.
// Names and meaning are MaxText's where MaxText has the setting; `text` and
// `bytes` are RingMax's own.
#ifndef RINGMAX_DATA_OPTIONS_H_
#define RINGMAX_DATA_OPTIONS_H_

#include <cstdint>
#include <string>

#include "ringmax/base/option.h"
#include "ringmax/base/problems.h"

namespace ringmax::data {

enum class DatasetType { kSynthetic, kText };
inline constexpr Named<DatasetType> kDatasetTypes[] = {
    {DatasetType::kSynthetic, "synthetic"},
    {DatasetType::kText, "text"},
};

enum class TokenizerType { kBytes };
inline constexpr Named<TokenizerType> kTokenizerTypes[] = {
    {TokenizerType::kBytes, "bytes"},
};

// The smallest vocab_size a model of bytes can have.
inline constexpr std::int64_t kByteVocabSize = 259;

struct DataOptions {
  DatasetType dataset_type = DatasetType::kSynthetic;
  std::string dataset_path;  // FILE, DIR or GLOB
  TokenizerType tokenizer_type = TokenizerType::kBytes;
  // Sequences of the global batch per device; may be a fraction.
  double per_device_batch_size = 1;
  std::int64_t max_target_length = 2048;  // tokens of a sequence
  bool packing = true;                    // text only
  bool enable_data_shuffling = true;
  std::int64_t data_shuffle_seed = 0;

  // Rows of text hold several documents, or one and padding.
  bool has_segments() const { return dataset_type == DatasetType::kText; }
};

void declare_options(OptionSet& set, DataOptions& options);
// dataset_type=text needs a dataset_path that names at least one file, and not
// only empty ones. Reads no file: whether it is UTF-8 is seen when it is
// opened, before anything is compiled.
void validate(const DataOptions& options, Problems& problems);

}  // namespace ringmax::data

#endif  // RINGMAX_DATA_OPTIONS_H_
