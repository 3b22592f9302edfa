#include "ringmax/base/option_value.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <charconv>
#include <cmath>
#include <utility>

namespace ringmax {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// Takes out underscores that stand between two digits; any other underscore
// stays and makes the number invalid.
std::string without_grouping(std::string_view text) {
  std::string result;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool between = text[i] == '_' && i > 0 && i + 1 < text.size() &&
                         is_digit(text[i - 1]) && is_digit(text[i + 1]);
    if (!between) result += text[i];
  }
  return result;
}

// A plain scalar that YAML would read as something else than this text.
bool needs_quotes(const std::string& text) {
  if (text.empty() || text == "~" || text == "null" || text == "Null" ||
      text == "NULL" || text == "None") {
    return true;
  }
  if (text.front() == ' ' || text.back() == ' ' || text.front() == '-') {
    return !parse_int_text(text) && !parse_number_text(text);
  }
  if (std::string_view("?:!&*%@`\"'|>#[]{},").find(text.front()) !=
      std::string_view::npos) {
    return true;
  }
  for (const char c : text) {
    if (static_cast<unsigned char>(c) < 0x20) return true;
  }
  return text.find(": ") != std::string::npos ||
         text.find(" #") != std::string::npos || text.back() == ':';
}

std::string quote(const std::string& text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      result += '\\';
      result += c;
    } else if (c == '\n') {
      result += "\\n";
    } else if (c == '\t') {
      result += "\\t";
    } else if (static_cast<unsigned char>(c) < 0x20) {
      result += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    } else {
      result += c;
    }
  }
  return result + '"';
}

}  // namespace

RawValue RawValue::scalar(std::string text, bool quoted) {
  RawValue value;
  value.text = std::move(text);
  value.quoted = quoted;
  return value;
}

RawValue RawValue::list(std::vector<RawValue> items) {
  RawValue value;
  value.kind = Kind::kList;
  value.items = std::move(items);
  return value;
}

bool RawValue::is_null() const {
  return kind == Kind::kScalar && !quoted &&
         (text.empty() || text == "~" || text == "null" || text == "Null" ||
          text == "NULL" || text == "None");
}

std::string RawValue::to_string() const {
  switch (kind) {
    case Kind::kList: {
      std::vector<std::string> parts;
      for (const RawValue& item : items) {
        // Inside a list a comma ends the item.
        const bool comma = item.kind == Kind::kScalar && !item.quoted &&
                           item.text.find_first_of(",]}") != std::string::npos;
        parts.push_back(comma ? quote(item.text) : item.to_string());
      }
      return fmt::format("[{}]", fmt::join(parts, ", "));
    }
    case Kind::kMap:
      return "{...}";
    case Kind::kScalar:
      break;
  }
  if (is_null()) return text.empty() ? "null" : text;
  return quoted || needs_quotes(text) ? quote(text) : text;
}

std::optional<bool> parse_bool_text(std::string_view text) {
  if (text == "true" || text == "True" || text == "TRUE") return true;
  if (text == "false" || text == "False" || text == "FALSE") return false;
  return std::nullopt;
}

std::optional<std::int64_t> parse_int_text(std::string_view text) {
  const std::string plain = without_grouping(text);
  std::string_view digits = plain;
  if (!digits.empty() && digits.front() == '+') {
    digits.remove_prefix(1);
    if (!digits.empty() && digits.front() == '-') return std::nullopt;
  }
  int base = 10;
  if (digits.substr(0, 2) == "0x") base = 16;
  if (digits.substr(0, 2) == "0o") base = 8;
  if (base != 10) {
    digits.remove_prefix(2);
    if (!digits.empty() && digits.front() == '-') return std::nullopt;
  }
  std::int64_t value = 0;
  const char* end = digits.data() + digits.size();
  const auto [stopped, error] =
      std::from_chars(digits.data(), end, value, base);
  if (error != std::errc() || stopped != end) return std::nullopt;
  return value;
}

std::optional<double> parse_number_text(std::string_view text) {
  if (const auto whole = parse_int_text(text)) {
    return static_cast<double>(*whole);
  }
  const std::string plain = without_grouping(text);
  std::string_view digits = plain;
  if (!digits.empty() && digits.front() == '+') digits.remove_prefix(1);
  // from_chars would read "inf" and "nan" too.
  if (digits.find_first_not_of("0123456789+-.eE") != std::string_view::npos) {
    return std::nullopt;
  }
  double value = 0;
  const char* end = digits.data() + digits.size();
  const auto [stopped, error] = std::from_chars(digits.data(), end, value);
  if (error != std::errc() || stopped != end || !std::isfinite(value)) {
    return std::nullopt;
  }
  return value;
}

bool same_value(const RawValue& a, const RawValue& b) {
  if (a.kind != b.kind) return false;
  if (a.kind == RawValue::Kind::kMap) return a.items.empty() && b.items.empty();
  if (a.kind == RawValue::Kind::kList) {
    if (a.items.size() != b.items.size()) return false;
    for (std::size_t i = 0; i < a.items.size(); ++i) {
      if (!same_value(a.items[i], b.items[i])) return false;
    }
    return true;
  }
  if (a.is_null() || b.is_null()) return a.is_null() && b.is_null();
  if (a.text == b.text) return true;
  if (a.quoted || b.quoted) return false;
  if (const auto left = parse_bool_text(a.text)) {
    return left == parse_bool_text(b.text);
  }
  const auto left = parse_number_text(a.text);
  return left && left == parse_number_text(b.text);
}

}  // namespace ringmax
