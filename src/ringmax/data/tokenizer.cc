#include "ringmax/data/tokenizer.h"

#include "ringmax/base/utf8.h"

namespace ringmax::data {

std::vector<std::int32_t> encode_prompt(std::string_view text) {
  std::vector<std::int32_t> ids = {kBeginId};
  for (const char c : text) ids.push_back(static_cast<unsigned char>(c));
  return ids;
}

std::string decode(std::span<const std::int32_t> ids) {
  std::string text;
  for (const std::int32_t id : ids) {
    if (id >= 0 && id < 256) text += static_cast<char>(id);
  }
  return replace_invalid_utf8(text);
}

}  // namespace ringmax::data
