// Bytes as tokens: ids 0 to 255 are the text's bytes, three ids above them mark
// padding and a document's begin and end. No vocabulary file, any language,
// nothing lost.
#ifndef RINGMAX_DATA_TOKENIZER_H_
#define RINGMAX_DATA_TOKENIZER_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ringmax/data/options.h"

namespace ringmax::data {

inline constexpr std::int32_t kPadId = 256;
inline constexpr std::int32_t kBeginId = 257;
inline constexpr std::int32_t kEndId = 258;

// kBeginId, then the bytes: what generation continues from. A document in
// training ends with kEndId too.
std::vector<std::int32_t> encode_prompt(std::string_view text);
// The bytes among the ids (others are dropped), with what is not UTF-8
// replaced by U+FFFD, so that it can be printed.
std::string decode(std::span<const std::int32_t> ids);

}  // namespace ringmax::data

#endif  // RINGMAX_DATA_TOKENIZER_H_
