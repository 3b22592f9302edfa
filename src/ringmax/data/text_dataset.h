// Text files as training data: bytes are tokens, a file is a document between
// kBeginId and kEndId.
//
// Packed, the documents in sorted order form one stream, which is cut into
// windows of S pairs (neighbouring windows share one token, so each pair stands
// in exactly one window). A window may begin or end inside a document and may
// hold several: segment_ids number them from 1, positions restart with each,
// and the pair from one document's end to the next one's begin has weight 0.
//
// Not packed, a window holds tokens of one document, which a long document
// makes several of, and padding after them.
//
// An epoch walks all windows in a random order by seed.
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
  // True: several documents a window. False: one, and padding.
  bool packing = false;
};

// The regular files that FILE, DIR or GLOB names, sorted, each once. Hidden
// files in directories are left out. Throws kNotFound naming dataset_path.
std::vector<std::string> resolve_dataset_path(const std::string& dataset_path);

// Bytes of one of those files. Throws, naming the setting, when it is no
// regular file or cannot be opened.
std::int64_t text_file_size(const std::string& dataset_path,
                            const std::string& file);

// Opens and checks every file. Throws kNotFound when there is none and
// kInvalidArgument, naming dataset_path, the file and the byte, when one is not
// UTF-8 or all are empty. Empty files among others are left out.
std::unique_ptr<Dataset> open_text_dataset(const TextSettings& settings,
                                           BatchShape shape);

}  // namespace ringmax::data

#endif  // RINGMAX_DATA_TEXT_DATASET_H_
