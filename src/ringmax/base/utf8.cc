#include "ringmax/base/utf8.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace ringmax {
namespace {

std::uint64_t load8(const unsigned char* p) {
  std::uint64_t word = 0;
  std::memcpy(&word, p, sizeof(word));
  return word;
}

constexpr std::uint64_t kHighBits = 0x8080808080808080;

// What must follow a first byte: the character's length (0: not a first byte)
// and the range of its second byte, which excludes overlong forms, surrogates
// and values above U+10FFFF.
struct Lead {
  std::uint8_t length = 0;
  std::uint8_t low = 0x80;
  std::uint8_t high = 0xBF;
};

struct LeadTable {
  Lead leads[256];
  constexpr LeadTable() : leads() {
    for (int byte = 0; byte < 256; ++byte) {
      Lead& lead = leads[byte];
      if (byte < 0x80) lead.length = 1;
      if (byte >= 0xC2 && byte <= 0xDF) lead.length = 2;
      if (byte >= 0xE0 && byte <= 0xEF) lead.length = 3;
      if (byte >= 0xF0 && byte <= 0xF4) lead.length = 4;
    }
    leads[0xE0].low = 0xA0;
    leads[0xED].high = 0x9F;
    leads[0xF0].low = 0x90;
    leads[0xF4].high = 0x8F;
  }
};
constexpr LeadTable kTable;

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD

bool is_continuation(unsigned char byte) { return (byte & 0xC0) == 0x80; }

}  // namespace

Utf8Check check_utf8(std::string_view text) {
  const auto* begin = reinterpret_cast<const unsigned char*>(text.data());
  const auto* end = begin + text.size();
  const auto* p = begin;
  const auto at = [&] { return static_cast<std::size_t>(p - begin); };
  while (p < end) {
    // Plain ASCII, 32 bytes at a time.
    while (end - p >= 32 &&
           ((load8(p) | load8(p + 8) | load8(p + 16) | load8(p + 24)) &
            kHighBits) == 0) {
      p += 32;
    }
    // Then character by character for a while, before ASCII is tried again.
    const auto* stop = end - p > 64 ? p + 32 : end;
    while (p < stop) {
      if (*p < 0x80) {
        ++p;
        continue;
      }
      const Lead lead = kTable.leads[*p];
      if (lead.length == 0) return {at(), false};
      const auto have = std::min<std::ptrdiff_t>(lead.length, end - p);
      if (have >= 2 && (p[1] < lead.low || p[1] > lead.high)) {
        return {at(), false};
      }
      for (std::ptrdiff_t i = 2; i < have; ++i) {
        if (!is_continuation(p[i])) return {at(), false};
      }
      if (have < lead.length) return {at(), true};
      p += lead.length;
    }
  }
  return {text.size(), false};
}

std::optional<std::size_t> find_invalid_utf8(std::string_view text) {
  const Utf8Check check = check_utf8(text);
  if (check.valid_bytes == text.size()) return std::nullopt;
  return check.valid_bytes;
}

std::string replace_invalid_utf8(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const std::size_t valid = check_utf8(text).valid_bytes;
    out += text.substr(0, valid);
    text.remove_prefix(valid);
    if (text.empty()) break;
    out += kReplacement;
    text.remove_prefix(1);
  }
  return out;
}

std::string printable(std::string_view text, Unprintable how) {
  std::string out;
  while (!text.empty()) {
    const auto first = static_cast<unsigned char>(text[0]);
    const std::size_t length =
        std::max<std::size_t>(kTable.leads[first].length, 1);
    const std::string_view one = text.substr(0, length);
    const bool whole = check_utf8(one).valid_bytes == length;
    // U+0080 to U+009F are control characters too.
    const bool control =
        (first < 0x20 && first != '\n' && first != '\t') || first == 0x7F ||
        (first == 0xC2 && whole && static_cast<unsigned char>(one[1]) < 0xA0);
    const std::size_t taken = whole ? length : 1;
    if (whole && !control) {
      out += one;
    } else if (how == Unprintable::kReplace) {
      out += kReplacement;
    } else {
      for (const char c : text.substr(0, taken)) {
        out += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
      }
    }
    text.remove_prefix(taken);
  }
  return out;
}

}  // namespace ringmax
