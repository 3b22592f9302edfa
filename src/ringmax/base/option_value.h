// A setting's value as somebody wrote it, and the reading of plain text as
// bool, whole number and number by the rules of YAML 1.2's core schema: `true`
// is a bool, `yes` is text. Digits may be grouped (10_000), as in the config
// files of the field.
// Not a config tree: that is config's, which makes these from files.
// Source: YAML 1.2.2, section 10.3.
#ifndef RINGMAX_BASE_OPTION_VALUE_H_
#define RINGMAX_BASE_OPTION_VALUE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ringmax {

struct RawValue {
  enum class Kind { kScalar, kList, kMap };
  Kind kind = Kind::kScalar;
  std::string text;             // of a scalar
  bool quoted = false;          // a quoted scalar is always text
  std::vector<RawValue> items;  // of a list

  static RawValue scalar(std::string text, bool quoted = false);
  static RawValue list(std::vector<RawValue> items);

  bool is_null() const;
  // As it could be written in a file: `8`, `"a b"`, `[silu, linear]`.
  std::string to_string() const;
};

std::optional<bool> parse_bool_text(std::string_view text);
// Base 10, or 16 and 8 with 0x and 0o. nullopt when it is no whole number or
// does not fit in 64 bits.
std::optional<std::int64_t> parse_int_text(std::string_view text);
// Finite numbers only: `.inf` and `.nan` are no values of a setting.
std::optional<double> parse_number_text(std::string_view text);

// True when both mean the same value: 1.0 and 1, True and true, [a] and [ a ].
bool same_value(const RawValue& a, const RawValue& b);

}  // namespace ringmax

#endif  // RINGMAX_BASE_OPTION_VALUE_H_
