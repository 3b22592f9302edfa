#include "ringmax/data/options.h"

#include <vector>

#include "ringmax/base/error.h"
#include "ringmax/data/text_dataset.h"

namespace ringmax::data {

void declare_options(OptionSet& set, DataOptions& options) {
  set.section("Data");
  set.choice("dataset_type", &options.dataset_type, kDatasetTypes,
             "synthetic: one fixed batch, repeated; text: files of UTF-8 text",
             {"tfds", "hf", "grain", "c4_mlperf", "olmo_grain"});
  set.path("dataset_path", &options.dataset_path,
           "with dataset_type text: a file, a directory or a glob");
  set.choice("tokenizer_type", &options.tokenizer_type, kTokenizerTypes,
             "bytes: each byte of the text is a token",
             {"sentencepiece", "tiktoken", "huggingface"});
  set.number("per_device_batch_size", &options.per_device_batch_size,
             "sequences of the global batch per device; may be a fraction",
             {.min = 0, .max = 1 << 20, .above_min = true});
  // Positions stay below 2^30 in attention.
  set.integer("max_target_length", &options.max_target_length,
              "tokens of a sequence", {.min = 2, .max = (1 << 30) - 1});
  set.flag("packing", &options.packing,
           "put several documents into one sequence; text only");
  set.flag("enable_data_shuffling", &options.enable_data_shuffling,
           "walk the text in an order drawn from data_shuffle_seed");
  set.integer("data_shuffle_seed", &options.data_shuffle_seed,
              "seed of the order of the data and of synthetic data",
              {.min = 0});
}

void validate(const DataOptions& options, Problems& problems) {
  if (options.dataset_type != DatasetType::kText) return;
  const std::string& path = options.dataset_path;
  if (path.empty()) {
    problems.add(
        "dataset_path is empty: dataset_type=text needs a file, a directory or "
        "a glob");
    return;
  }
  try {
    const std::vector<std::string> files = resolve_dataset_path(path);
    for (const std::string& file : files) {
      if (text_file_size(path, file) > 0) return;
    }
    problems.add(
        "dataset_path={}: {}; valid is text of at least one byte", path,
        files.size() == 1 ? "the file is empty" : "all files are empty");
  } catch (const Error& error) {
    problems.add("{}", error.message());
  }
}

}  // namespace ringmax::data
