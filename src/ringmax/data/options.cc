#include "ringmax/data/options.h"

#include <glob.h>

#include <filesystem>
#include <vector>

namespace ringmax::data {
namespace {

namespace fs = std::filesystem;

// Every file that FILE, DIR or GLOB names; unordered.
std::vector<fs::path> files_of(const std::string& path) {
  std::vector<fs::path> files;
  std::error_code error;
  const auto add = [&](const fs::path& each) {
    if (fs::is_directory(each, error)) {
      fs::recursive_directory_iterator walk(
          each, fs::directory_options::skip_permission_denied, error);
      for (; !error && walk != fs::recursive_directory_iterator();
           walk.increment(error)) {
        if (walk->is_regular_file(error)) files.push_back(walk->path());
      }
    } else if (fs::is_regular_file(each, error)) {
      files.push_back(each);
    }
  };
  if (fs::exists(path, error)) {
    add(path);
    return files;
  }
  glob_t found = {};
  if (glob(path.c_str(), GLOB_TILDE, nullptr, &found) == 0) {
    for (std::size_t i = 0; i < found.gl_pathc; ++i) add(found.gl_pathv[i]);
  }
  globfree(&found);
  return files;
}

}  // namespace

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
  set.integer("max_target_length", &options.max_target_length,
              "tokens of a sequence", {.min = 2, .max = 2147483647});
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
  const std::vector<fs::path> files = files_of(path);
  if (files.empty()) {
    problems.add(
        "dataset_path={}: no such file; valid is a file, a directory that "
        "holds files, or a glob that matches some",
        path);
    return;
  }
  for (const fs::path& file : files) {
    std::error_code error;
    if (fs::file_size(file, error) > 0 && !error) return;
  }
  problems.add("dataset_path={}: {}; valid is text of at least one byte", path,
               files.size() == 1 ? "the file is empty" : "all files are empty");
}

}  // namespace ringmax::data
