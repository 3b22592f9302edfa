// Text files as training data: bytes are tokens, a file is a document.
//
// Files, in sorted order, form one stream in which each document stands between
// kBeginId and kEndId. The stream is cut into windows of S pairs (neighbouring
// windows share one token, so each pair stands in exactly one window), and an
// epoch walks all windows in a random order by seed. A window may begin or end
// inside a document and may hold several; the pair from one document's end to
// the next one's begin has weight 0.
//
// Files are checked once, when opened, and read by mmap afterwards; memory
// grows with the number of files, not with their sizes.
#ifndef RINGMAX_DATA_TEXT_DATASET_H_
#define RINGMAX_DATA_TEXT_DATASET_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "ringmax/data/dataset.h"

namespace ringmax::data {

struct TextSettings {
  std::string dataset_path;  // FILE, DIR (recursive) or GLOB
  bool shuffle = true;
  std::uint64_t seed = 0;
  // True: segment_ids number the documents of a window from 1 and positions
  // restart with each, for attention that keeps documents apart. False: one
  // segment, positions 0 .. S - 1.
  bool packing = false;
};

// The regular files that FILE, DIR or GLOB names, sorted, each once. Hidden
// files in directories are left out. Throws kNotFound naming dataset_path.
std::vector<std::string> resolve_dataset_path(const std::string& dataset_path);

// Opens and checks every file. Throws kNotFound when there is none and
// kInvalidArgument, naming dataset_path, the file and the byte, when one is not
// UTF-8 or all are empty. Empty files among others are left out.
std::unique_ptr<Dataset> open_text_dataset(const TextSettings& settings,
                                           BatchShape shape);

}  // namespace ringmax::data

#endif  // RINGMAX_DATA_TEXT_DATASET_H_
