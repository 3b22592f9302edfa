// Is it UTF-8? A strict check (RFC 3629: no overlong forms, no surrogates,
// nothing above U+10FFFF) that says where the first fault is, fast enough to
// run over a whole data set when it is opened.
#ifndef RINGMAX_BASE_UTF8_H_
#define RINGMAX_BASE_UTF8_H_

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace ringmax {

struct Utf8Check {
  // Bytes at the front that are whole, valid characters.
  std::size_t valid_bytes = 0;
  // The bytes after those are the beginning of a character that the text's end
  // cuts off: no fault yet, if more text follows.
  bool cut_off = false;
};
Utf8Check check_utf8(std::string_view text);

// Offset of the first byte that does not belong to a whole, valid character;
// nullopt when the text is UTF-8.
std::optional<std::size_t> find_invalid_utf8(std::string_view text);

// The text with every byte that is not UTF-8 replaced by U+FFFD.
std::string replace_invalid_utf8(std::string_view text);

// The text as a terminal can safely show it. What is not UTF-8 and control
// characters, newline and tab apart, become U+FFFD or an escape such as \x1b.
enum class Unprintable { kReplace, kEscape };
std::string printable(std::string_view text, Unprintable how);

}  // namespace ringmax

#endif  // RINGMAX_BASE_UTF8_H_
