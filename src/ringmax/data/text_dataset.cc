#include "ringmax/data/text_dataset.h"

#include <algorithm>
#include <cstring>
#include <fstream>
#include <list>
#include <map>
#include <mutex>
#include <span>
#include <utility>

#include "ringmax/base/error.h"
#include "ringmax/base/file.h"
#include "ringmax/base/numerals.h"
#include "ringmax/base/utf8.h"
#include "ringmax/data/permutation.h"
#include "ringmax/data/tokenizer.h"

namespace ringmax::data {
namespace {

constexpr std::uint64_t kOrderStream = 0x6f72646572;

// What the setting names cannot be used, for a reason of the file system.
[[noreturn]] void refuse(const std::string& dataset_path, const Error& error) {
  const ErrorCode code = error.code() == ErrorCode::kIo
                             ? ErrorCode::kInvalidArgument
                             : error.code();
  fail(code, "dataset_path={}: {}; valid are readable files of UTF-8 text",
       dataset_path, error.message());
}

// Checks a file in pieces, so that a big one needs no memory; returns its size.
std::int64_t check_text_file(const std::string& path) {
  constexpr std::size_t kPiece = 1 << 20;
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    fail_invalid("dataset_path: cannot read '{}'", path);
  }
  file.rdbuf()->pubsetbuf(nullptr, 0);
  std::vector<char> buffer(kPiece);
  std::size_t carried = 0;  // bytes of a character cut off by the last piece
  std::int64_t checked = 0;
  while (true) {
    file.read(buffer.data() + carried,
              static_cast<std::streamsize>(buffer.size() - carried));
    const auto got = static_cast<std::size_t>(file.gcount());
    if (file.bad()) {
      fail_invalid("dataset_path: cannot read '{}'", path);
    }
    const std::string_view text(buffer.data(), carried + got);
    const Utf8Check check = check_utf8(text);
    const bool fault =
        check.valid_bytes < text.size() && (!check.cut_off || got == 0);
    if (fault) {
      const std::int64_t at =
          checked + static_cast<std::int64_t>(check.valid_bytes);
      const bool gzip = at == 1 && text.starts_with("\x1F\x8B");
      fail_invalid(
          "dataset_path: '{}' is not UTF-8: byte 0x{:02X} at offset {}{}; "
          "valid "
          "are files of UTF-8 text",
          path, static_cast<unsigned char>(text[check.valid_bytes]), at,
          gzip ? " (it looks like gzip: unpack it first)" : "");
    }
    if (got == 0) return checked;
    checked += static_cast<std::int64_t>(check.valid_bytes);
    carried = text.size() - check.valid_bytes;
    std::memmove(buffer.data(), buffer.data() + check.valid_bytes, carried);
  }
}

// Maps of the files used last; there may be more files than maps are allowed.
class MapCache {
 public:
  MappedFile get(const std::string& path, std::int64_t expected_size) {
    const std::lock_guard lock(mutex_);
    const auto it = index_.find(path);
    if (it != index_.end()) {
      recent_.splice(recent_.begin(), recent_, it->second);
      return recent_.front().second;
    }
    MappedFile file(path);
    if (static_cast<std::int64_t>(file.size()) != expected_size) {
      fail(ErrorCode::kFailedPrecondition,
           "dataset_path: '{}' changed during the run: it had {} bytes, now {}",
           path, expected_size, file.size());
    }
    recent_.emplace_front(path, file);
    index_[path] = recent_.begin();
    if (recent_.size() > kMaps) {
      index_.erase(recent_.back().first);
      recent_.pop_back();
    }
    return file;
  }

 private:
  static constexpr std::size_t kMaps = 256;
  using Entries = std::list<std::pair<std::string, MappedFile>>;
  std::mutex mutex_;
  Entries recent_;
  std::map<std::string, Entries::iterator> index_;
};

struct Document {
  std::string path;
  std::int64_t bytes = 0;
  std::int64_t start = 0;  // of its kBeginId in the stream
  // The first of its windows when rows are not packed.
  std::int64_t first_window = 0;

  std::int64_t end() const { return start + bytes + 2; }
  std::int64_t pairs() const { return bytes + 1; }
};

class TextDataset : public Dataset {
 public:
  TextDataset(const TextSettings& settings, BatchShape shape,
              std::vector<Document> documents)
      : settings_(settings), shape_(shape), documents_(std::move(documents)) {
    stream_tokens_ = documents_.back().end();
    const auto windows_of = [&](std::int64_t pairs) {
      return (pairs + shape.sequence_length - 1) / shape.sequence_length;
    };
    if (settings.packing) {
      windows_ = windows_of(stream_tokens_ - 1);
      return;
    }
    for (Document& document : documents_) {
      document.first_window = windows_;
      windows_ += windows_of(document.pairs());
    }
  }

  Batch batch(std::int64_t step, RowRange rows) const override {
    Batch batch = make_empty_batch(rows.count, shape_.sequence_length);
    for (std::int64_t row = 0; row < rows.count; ++row) {
      const std::int64_t n = step * shape_.global_batch + rows.begin + row;
      fill_window(batch, row, window_at(n));
    }
    return batch;
  }

  std::int64_t vocab_size() const override { return kByteVocabSize; }

  std::string describe() const override {
    return fmt::format(
        "text: {} {} from {}, {} tokens (bytes), {} windows of {}, {}",
        documents_.size(), documents_.size() == 1 ? "document" : "documents",
        settings_.dataset_path, with_commas(stream_tokens_),
        with_commas(windows_), shape_.sequence_length,
        settings_.packing ? "packed" : "one document each");
  }

 private:
  // The window at place n of the endless walk over epochs.
  std::int64_t window_at(std::int64_t n) const {
    const std::int64_t epoch = n / windows_;
    const std::int64_t i = n % windows_;
    if (!settings_.shuffle) return i;
    const Permutation order(windows_, settings_.seed,
                            kOrderStream ^ (std::uint64_t(epoch) << 40));
    return static_cast<std::int64_t>(order(i));
  }

  // The last document for which `begins` is at most `at`.
  std::vector<Document>::const_iterator document_at(
      std::int64_t at, std::int64_t Document::*begins) const {
    return std::prev(std::upper_bound(
        documents_.begin(), documents_.end(), at,
        [&](std::int64_t x, const Document& d) { return x < d.*begins; }));
  }

  void fill_window(Batch& batch, std::int64_t row, std::int64_t window) const {
    const std::int64_t length = shape_.sequence_length;
    std::int64_t begin = window * length;
    std::int64_t end = stream_tokens_;
    auto document = document_at(begin, &Document::start);
    if (!settings_.packing) {
      document = document_at(window, &Document::first_window);
      begin = document->start + (window - document->first_window) * length;
      end = document->end();
    }
    end = std::min(begin + length + 1, end);
    std::vector<std::int32_t> tokens;
    tokens.reserve(static_cast<std::size_t>(end - begin));
    // Places in the window where another document begins.
    std::vector<std::int64_t> borders;
    for (std::int64_t at = begin; at < end; ++document) {
      if (at == document->start && at > begin) borders.push_back(at - begin);
      append(*document, at, end, tokens);
      at = begin + static_cast<std::int64_t>(tokens.size());
    }
    fill_row(batch, row, tokens);
    if (!borders.empty()) mark_borders(batch, row, borders);
  }

  // Appends stream tokens [at, end) as far as they lie in `document`.
  void append(const Document& document, std::int64_t at, std::int64_t end,
              std::vector<std::int32_t>& tokens) const {
    const std::int64_t text_begin = document.start + 1;
    const std::int64_t text_end = text_begin + document.bytes;
    if (at < text_begin) {
      tokens.push_back(kBeginId);
      ++at;
    }
    if (at < std::min(text_end, end)) {
      const MappedFile file = maps_.get(document.path, document.bytes);
      const std::string_view text = file.text().substr(
          static_cast<std::size_t>(at - text_begin),
          static_cast<std::size_t>(std::min(text_end, end) - at));
      for (const char c : text) tokens.push_back(static_cast<unsigned char>(c));
    }
    if (end > text_end) tokens.push_back(kEndId);
  }

  void mark_borders(Batch& batch, std::int64_t row,
                    const std::vector<std::int64_t>& borders) const {
    const std::int64_t length = shape_.sequence_length;
    const auto weights =
        batch.weights.data<float>().subspan(row * length, length);
    for (const std::int64_t border : borders) weights[border - 1] = 0;
    const auto segments =
        batch.segment_ids.data<std::int32_t>().subspan(row * length, length);
    const auto positions =
        batch.positions.data<std::int32_t>().subspan(row * length, length);
    std::int32_t segment = 1;
    std::int64_t start = 0;
    auto next = borders.begin();
    for (std::int64_t i = 0; i < length && segments[i] != 0; ++i) {
      if (next != borders.end() && *next == i) {
        ++segment;
        start = i;
        ++next;
      }
      segments[i] = segment;
      positions[i] = static_cast<std::int32_t>(i - start);
    }
  }

  TextSettings settings_;
  BatchShape shape_;
  std::vector<Document> documents_;
  std::int64_t stream_tokens_ = 0;
  std::int64_t windows_ = 0;
  mutable MapCache maps_;
};

}  // namespace

std::vector<std::string> resolve_dataset_path(const std::string& dataset_path) {
  if (dataset_path.empty()) {
    fail_invalid(
        "dataset_path is empty; dataset_type=text needs a file, a directory or "
        "a glob");
  }
  // A file whose name holds * or [ is meant as it stands.
  const std::vector<std::string> matches = path_exists(dataset_path)
                                               ? std::vector{dataset_path}
                                               : expand_glob(dataset_path);
  std::vector<std::string> files;
  for (const std::string& match : matches) {
    if (is_directory(match)) {
      try {
        const std::vector<std::string> inside = list_files(match);
        files.insert(files.end(), inside.begin(), inside.end());
      } catch (const Error& error) {
        refuse(dataset_path, error);
      }
    } else {
      files.push_back(match);
    }
  }
  std::sort(files.begin(), files.end());
  files.erase(std::unique(files.begin(), files.end()), files.end());
  if (files.empty()) {
    fail(ErrorCode::kNotFound,
         "dataset_path={}: no such file; valid is a file, a directory that "
         "holds files, or a glob that matches some",
         dataset_path);
  }
  return files;
}

std::int64_t text_file_size(const std::string& dataset_path,
                            const std::string& file) {
  try {
    return file_size(file);
  } catch (const Error& error) {
    refuse(dataset_path, error);
  }
}

std::unique_ptr<Dataset> open_text_dataset(const TextSettings& settings,
                                           BatchShape shape) {
  RINGMAX_CHECK(shape.sequence_length >= 1 && shape.global_batch >= 1);
  std::vector<Document> documents;
  std::int64_t at = 0;
  for (std::string& path : resolve_dataset_path(settings.dataset_path)) {
    text_file_size(settings.dataset_path, path);  // is it a file at all?
    const std::int64_t bytes = check_text_file(path);
    if (bytes == 0) continue;
    documents.push_back({std::move(path), bytes, at});
    at += bytes + 2;
  }
  if (documents.empty()) {
    fail_invalid("dataset_path={}: empty; it needs at least one byte of text",
                 settings.dataset_path);
  }
  return std::make_unique<TextDataset>(settings, shape, std::move(documents));
}

}  // namespace ringmax::data
