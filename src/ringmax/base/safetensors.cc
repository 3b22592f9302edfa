#include "ringmax/base/safetensors.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <utility>

#include "ringmax/base/error.h"

namespace ringmax {
namespace {

static_assert(std::endian::native == std::endian::little,
              "safetensors bytes are used in place");

using Json = nlohmann::json;

constexpr std::string_view kMetadataKey = "__metadata__";
constexpr std::size_t kLengthBytes = 8;
// The limit of the format's reference reader.
constexpr std::uint64_t kMaxHeaderBytes = 100'000'000;

std::uint64_t read_u64(std::span<const std::byte> bytes) {
  std::uint64_t value = 0;
  std::memcpy(&value, bytes.data(), sizeof(value));
  return value;
}

// Parses the header; a key given twice would silently hide a tensor.
Json parse_header(std::string_view text, const std::string& path) {
  std::vector<std::set<std::string>> keys;
  const auto check = [&](int, Json::parse_event_t event, Json& parsed) {
    if (event == Json::parse_event_t::object_start) {
      keys.emplace_back();
    } else if (event == Json::parse_event_t::object_end) {
      keys.pop_back();
    } else if (event == Json::parse_event_t::key &&
               !keys.back().insert(parsed.get<std::string>()).second) {
      fail_invalid("safetensors file '{}': key \"{}\" stands twice", path,
                   parsed.get<std::string>());
    }
    return true;
  };
  try {
    Json header = Json::parse(text, check);
    if (!header.is_object()) {
      fail_invalid("safetensors file '{}': the header is not a JSON object",
                   path);
    }
    return header;
  } catch (const Json::exception& error) {
    fail_invalid("safetensors file '{}': the header is not valid JSON: {}",
                 path, error.what());
  }
}

StringMap parse_metadata(const Json& json, const std::string& path) {
  StringMap metadata;
  const auto bad = [&] {
    fail_invalid("safetensors file '{}': {} must map strings to strings", path,
                 kMetadataKey);
  };
  if (!json.is_object()) bad();
  for (const auto& [key, value] : json.items()) {
    if (!value.is_string()) bad();
    metadata.emplace(key, value.get<std::string>());
  }
  return metadata;
}

struct Entry {
  std::string name;
  Shape shape;
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

std::optional<std::uint64_t> as_unsigned(const Json& json) {
  if (!json.is_number_unsigned()) return std::nullopt;
  return json.get<std::uint64_t>();
}

Entry parse_entry(const std::string& name, const Json& json,
                  const std::string& path) {
  const auto bad = [&](std::string_view fault) {
    fail_invalid("safetensors file '{}': tensor '{}': {}", path, name, fault);
  };
  if (!json.is_object()) bad("its entry is not a JSON object");
  const auto field = [&](const char* key) {
    const auto it = json.find(key);
    if (it == json.end()) bad(fmt::format("it has no \"{}\"", key));
    return *it;
  };
  for (const auto& [key, value] : json.items()) {
    if (key != "dtype" && key != "shape" && key != "data_offsets") {
      bad(fmt::format("unknown field \"{}\"", key));
    }
  }
  Entry entry;
  entry.name = name;
  const Json dtype = field("dtype");
  if (!dtype.is_string()) bad("its dtype is not a string");
  const auto parsed = parse_safetensors_dtype(dtype.get<std::string>());
  if (!parsed) {
    bad(fmt::format("dtype {} is not supported", dtype.get<std::string>()));
  }
  entry.shape.dtype = *parsed;
  const Json dims = field("shape");
  if (!dims.is_array()) bad("its shape is not a list");
  for (const Json& dim : dims) {
    const auto size = as_unsigned(dim);
    if (!size || *size > std::uint64_t{INT64_MAX}) {
      bad("its shape holds something else than sizes");
    }
    entry.shape.dims.push_back(static_cast<std::int64_t>(*size));
  }
  const Json offsets = field("data_offsets");
  if (!offsets.is_array() || offsets.size() != 2 || !as_unsigned(offsets[0]) ||
      !as_unsigned(offsets[1])) {
    bad("its data_offsets are not two offsets");
  }
  entry.begin = *as_unsigned(offsets[0]);
  entry.end = *as_unsigned(offsets[1]);
  if (entry.begin > entry.end) bad("its data_offsets run backwards");
  std::int64_t bytes = 0;
  try {
    bytes = entry.shape.bytes();
  } catch (const Error&) {
    bad("its shape is too large");
  }
  if (entry.end - entry.begin != static_cast<std::uint64_t>(bytes)) {
    bad(fmt::format("{} needs {} bytes, its data_offsets span {}",
                    entry.shape.to_string(), bytes, entry.end - entry.begin));
  }
  return entry;
}

// Tensors must tile the data exactly: no overlap, no hole, no rest.
void check_tiling(std::vector<Entry>& entries, std::uint64_t data_bytes,
                  const std::string& path) {
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  std::uint64_t at = 0;
  for (const Entry& entry : entries) {
    if (entry.begin != at) {
      fail_invalid(
          "safetensors file '{}': tensor '{}' begins at data byte {}, where {} "
          "is expected ({})",
          path, entry.name, entry.begin, at,
          entry.begin < at ? "tensors overlap" : "there is a hole");
    }
    at = entry.end;
  }
  if (at != data_bytes) {
    fail_invalid(
        "safetensors file '{}': the tensors need {} bytes of data, the file "
        "holds {}",
        path, at, data_bytes);
  }
}

std::string make_header(const std::vector<TensorSource>& tensors,
                        const StringMap& metadata) {
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  if (!metadata.empty()) header[std::string(kMetadataKey)] = metadata;
  std::int64_t at = 0;
  for (const TensorSource& tensor : tensors) {
    const std::int64_t end = at + tensor.shape.bytes();
    header[tensor.name] = {
        {"dtype", dtype_safetensors_name(tensor.shape.dtype)},
        {"shape", tensor.shape.dims},
        {"data_offsets", {at, end}}};
    at = end;
  }
  std::string text;
  try {
    text = header.dump();
  } catch (const nlohmann::json::exception& error) {
    fail_invalid("safetensors: a name or metadata string is not UTF-8: {}",
                 error.what());
  }
  text.resize((text.size() + 7) / 8 * 8, ' ');
  return text;
}

void check_names(const std::vector<TensorSource>& tensors) {
  std::set<std::string_view> names;
  for (const TensorSource& tensor : tensors) {
    if (tensor.name == kMetadataKey) {
      fail_invalid("safetensors: '{}' cannot name a tensor", kMetadataKey);
    }
    if (!names.insert(tensor.name).second) {
      fail_invalid("safetensors: tensor '{}' is given twice", tensor.name);
    }
  }
}

void write_tensor(AtomicFile& file, const TensorSource& tensor) {
  const auto expected = static_cast<std::uint64_t>(tensor.shape.bytes());
  std::uint64_t written = 0;
  tensor.write([&](std::span<const std::byte> bytes) {
    written += bytes.size();
    // Checked before writing: a runaway source must not fill the disk.
    if (written <= expected) file.write(bytes);
  });
  if (written != expected) {
    fail(ErrorCode::kInternal,
         "safetensors: tensor '{}' {} has {} bytes, its source wrote {}",
         tensor.name, tensor.shape.to_string(), expected, written);
  }
}

}  // namespace

SafetensorsFile::SafetensorsFile(const std::string& path)
    : path_(path), file_(path) {
  const std::span<const std::byte> bytes = file_.bytes();
  if (bytes.size() < kLengthBytes) {
    fail_invalid("safetensors file '{}': {} bytes are too few for a header",
                 path, bytes.size());
  }
  const std::uint64_t header_bytes = read_u64(bytes);
  if (header_bytes > kMaxHeaderBytes ||
      header_bytes > bytes.size() - kLengthBytes) {
    fail_invalid(
        "safetensors file '{}': a header of {} bytes does not fit (file of {} "
        "bytes, limit {})",
        path, header_bytes, bytes.size(), kMaxHeaderBytes);
  }
  const std::size_t data_start = kLengthBytes + header_bytes;
  const Json header =
      parse_header(file_.text().substr(kLengthBytes, header_bytes), path);

  std::vector<Entry> entries;
  for (const auto& [name, value] : header.items()) {
    if (name == kMetadataKey) {
      metadata_ = parse_metadata(value, path);
    } else {
      entries.push_back(parse_entry(name, value, path));
    }
  }
  check_tiling(entries, bytes.size() - data_start, path);
  for (Entry& entry : entries) {
    offsets_[entry.name] = data_start + entry.begin;
    shapes_[entry.name] = std::move(entry.shape);
  }
}

HostArray SafetensorsFile::tensor(const std::string& name) const {
  const auto it = shapes_.find(name);
  if (it == shapes_.end()) {
    std::string names;
    for (const auto& [other, shape] : shapes_) {
      if (!names.empty()) names += ", ";
      names += other;
      if (names.size() > 400) {
        names += ", ...";
        break;
      }
    }
    fail(ErrorCode::kNotFound,
         "safetensors file '{}' has no tensor '{}'; it has: {}", path_, name,
         names);
  }
  const std::size_t offset = offsets_.at(name);
  if (offset % dtype_size(it->second.dtype) == 0) {
    return {it->second, file_.share(offset)};
  }
  HostArray copy(it->second);
  const std::span<std::byte> to = copy.bytes();
  std::memcpy(to.data(), file_.bytes().data() + offset, to.size());
  return copy;
}

TensorSource tensor_source(std::string name, HostArray array) {
  Shape shape = array.shape();
  return {std::move(name), std::move(shape),
          [array = std::move(array)](const ByteSink& sink) {
            sink(array.bytes());
          }};
}

void write_safetensors(const std::string& path,
                       std::vector<TensorSource> tensors,
                       const StringMap& metadata) {
  check_names(tensors);
  std::sort(tensors.begin(), tensors.end(),
            [](const TensorSource& a, const TensorSource& b) {
              const std::size_t size_a = dtype_size(a.shape.dtype);
              const std::size_t size_b = dtype_size(b.shape.dtype);
              return size_a != size_b ? size_a > size_b : a.name < b.name;
            });
  const std::string header = make_header(tensors, metadata);
  if (header.size() > kMaxHeaderBytes) {
    fail_invalid("safetensors: a header of {} bytes is above the limit of {}",
                 header.size(), kMaxHeaderBytes);
  }
  const std::uint64_t header_bytes = header.size();
  AtomicFile file(path);
  file.write(std::as_bytes(std::span(&header_bytes, 1)));
  file.write(header);
  for (const TensorSource& tensor : tensors) write_tensor(file, tensor);
  file.commit();
}

}  // namespace ringmax
