#include "ringmax/attention/reorder.h"

#include <cstring>
#include <vector>

#include "ringmax/base/error.h"

namespace ringmax::attention {
namespace {

HostArray reorder(const HostArray& from, const Layout& layout,
                  bool into_slots) {
  const std::int64_t rows =
      into_slots ? layout.tokens() : layout.padded_tokens();
  if (from.shape().rank() < 2 || from.shape().dims[1] != rows) {
    fail_invalid("array {} has not the {} rows of its layout",
                 from.shape().to_string(), rows);
  }
  Shape shape = from.shape();
  shape.dims[1] = into_slots ? layout.padded_tokens() : layout.tokens();
  HostArray to(shape);
  const std::int64_t batch = shape.dims[0];
  if (batch == 0) return to;
  const auto row_bytes =
      static_cast<std::size_t>(from.shape().bytes() / (batch * rows));
  const std::vector<std::int64_t> positions = layout.positions();
  for (std::int64_t b = 0; b < batch; ++b) {
    for (std::size_t slot = 0; slot < positions.size(); ++slot) {
      if (positions[slot] >= layout.tokens()) continue;
      const auto row = [&](std::int64_t length, std::int64_t at) {
        return static_cast<std::size_t>(b * length + at) * row_bytes;
      };
      const std::size_t token = row(layout.tokens(), positions[slot]);
      const std::size_t place =
          row(layout.padded_tokens(), static_cast<std::int64_t>(slot));
      std::memcpy(to.bytes().data() + (into_slots ? place : token),
                  from.bytes().data() + (into_slots ? token : place),
                  row_bytes);
    }
  }
  return to;
}

}  // namespace

HostArray to_slots(const HostArray& tokens, const Layout& layout) {
  return reorder(tokens, layout, true);
}

HostArray from_slots(const HostArray& slots, const Layout& layout) {
  return reorder(slots, layout, false);
}

}  // namespace ringmax::attention
