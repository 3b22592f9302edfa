// The safetensors file format: named tensors and string metadata in one file.
//
// Reading maps the file and hands out views, and trusts nothing in it: header
// length, JSON, dtypes, shapes, offsets, overlaps and holes are checked before
// the first tensor is touched. Writing is atomic and streams, so tensors need
// not be in memory together. Not for sharded checkpoints' index files.
//
// Format: 8-byte little-endian header length; JSON object name -> {dtype,
// shape, data_offsets}, "__metadata__" -> strings, padded with spaces to 8
// bytes; then the tensors' bytes, little-endian, row-major, without holes.
#ifndef RINGMAX_BASE_SAFETENSORS_H_
#define RINGMAX_BASE_SAFETENSORS_H_

#include <cstddef>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ringmax/base/array.h"
#include "ringmax/base/file.h"
#include "ringmax/base/shape.h"

namespace ringmax {

using StringMap = std::map<std::string, std::string>;

class SafetensorsFile {
 public:
  // Throws kNotFound / kIo when the file cannot be read and kInvalidArgument,
  // naming the file and the fault, when it is not a valid safetensors file.
  explicit SafetensorsFile(const std::string& path);

  const std::string& path() const { return path_; }
  const StringMap& metadata() const { return metadata_; }
  // Sorted by name.
  const std::map<std::string, Shape>& shapes() const { return shapes_; }
  bool contains(const std::string& name) const {
    return shapes_.contains(name);
  }
  // A read-only view of the mapped bytes, valid after this object is gone; an
  // aligned copy where the file holds the tensor misaligned. Throws kNotFound
  // with the names there are.
  HostArray tensor(const std::string& name) const;

 private:
  std::string path_;
  MappedFile file_;
  StringMap metadata_;
  std::map<std::string, Shape> shapes_;
  std::map<std::string, std::size_t> offsets_;  // from the file's start
};

// Takes a tensor's next bytes in row-major order.
using ByteSink = std::function<void(std::span<const std::byte>)>;

struct TensorSource {
  std::string name;
  Shape shape;
  // Called once, while the file is written; must pass shape.bytes() bytes in
  // all.
  std::function<void(const ByteSink&)> write;
};

// A source for a tensor that is in memory already (shared, not copied).
TensorSource tensor_source(std::string name, HostArray array);

// Writes all tensors and the metadata to `path`, atomically: on any exception,
// also one of a source, nothing is there that was not before. Tensors lie
// sorted by alignment (wide dtypes first), then name, whatever the order given,
// so equal content gives equal bytes. Throws kInvalidArgument for a name given
// twice, a reserved or non-UTF-8 name, and kInternal when a source passes the
// wrong number of bytes.
void write_safetensors(const std::string& path,
                       std::vector<TensorSource> tensors,
                       const StringMap& metadata);

}  // namespace ringmax

#endif  // RINGMAX_BASE_SAFETENSORS_H_
