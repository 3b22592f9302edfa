#include "ringmax/base/option.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "ringmax/base/error.h"
#include "ringmax/base/suggest.h"

namespace ringmax {
namespace {

using Kind = RawValue::Kind;

std::string expected(std::string_view valid) {
  return fmt::format("valid is {}", valid);
}

std::string valid_int(const IntRange& range) {
  const IntRange whole;
  if (range.min != whole.min && range.max != whole.max) {
    return fmt::format("a whole number from {} to {}", range.min, range.max);
  }
  if (range.min != whole.min) {
    return fmt::format("a whole number >= {}", range.min);
  }
  if (range.max != whole.max) {
    return fmt::format("a whole number <= {}", range.max);
  }
  return "a whole number";
}

std::string valid_number(const NumberRange& range) {
  std::vector<std::string> limits;
  if (std::isfinite(range.min)) {
    limits.push_back(
        fmt::format("{} {}", range.above_min ? ">" : ">=", range.min));
  }
  if (std::isfinite(range.max)) {
    limits.push_back(
        fmt::format("{} {}", range.below_max ? "<" : "<=", range.max));
  }
  if (limits.empty()) return "a number";
  return fmt::format("a number {}", fmt::join(limits, " and "));
}

bool in_range(double value, const NumberRange& range) {
  if (range.above_min ? value <= range.min : value < range.min) return false;
  return !(range.below_max ? value >= range.max : value > range.max);
}

RawValue text_value(const std::string& text) {
  return RawValue::scalar(text, text.empty());
}

}  // namespace

void OptionSet::section(std::string_view title) { section_ = title; }

Option& OptionSet::add(std::string_view name, OptionKind kind,
                       std::string valid, std::string_view help) {
  RINGMAX_CHECK(find(name) == nullptr);
  Option option;
  option.name = name;
  option.section = section_;
  option.kind = kind;
  option.valid = std::move(valid);
  option.help = help;
  options_.push_back(std::move(option));
  return options_.back();
}

void OptionSet::flag(std::string_view name, bool* to, std::string_view help) {
  Option& option = add(name, OptionKind::kBool, "true or false", help);
  option.set = [to](const RawValue& raw) -> std::string {
    const auto value = raw.kind == Kind::kScalar && !raw.quoted
                           ? parse_bool_text(raw.text)
                           : std::nullopt;
    if (!value) return expected("true or false");
    *to = *value;
    return "";
  };
  option.get = [to] { return RawValue::scalar(*to ? "true" : "false"); };
}

void OptionSet::integer(std::string_view name, std::int64_t* to,
                        std::string_view help, IntRange range) {
  const std::string valid = valid_int(range);
  Option& option = add(name, OptionKind::kInt, valid, help);
  option.set = [to, range, valid](const RawValue& raw) -> std::string {
    const auto value = raw.kind == Kind::kScalar && !raw.quoted
                           ? parse_int_text(raw.text)
                           : std::nullopt;
    if (!value || *value < range.min || *value > range.max) {
      return expected(valid);
    }
    *to = *value;
    return "";
  };
  option.get = [to] { return RawValue::scalar(std::to_string(*to)); };
}

void OptionSet::number(std::string_view name, double* to, std::string_view help,
                       NumberRange range) {
  const std::string valid = valid_number(range);
  Option& option = add(name, OptionKind::kNumber, valid, help);
  option.set = [to, range, valid](const RawValue& raw) -> std::string {
    const auto value = raw.kind == Kind::kScalar && !raw.quoted
                           ? parse_number_text(raw.text)
                           : std::nullopt;
    if (!value || !in_range(*value, range)) return expected(valid);
    *to = *value;
    return "";
  };
  // The shortest text that reads back as the same double.
  option.get = [to] { return RawValue::scalar(fmt::format("{}", *to)); };
}

void OptionSet::text(std::string_view name, std::string* to,
                     std::string_view help) {
  Option& option = add(name, OptionKind::kText, "text", help);
  option.set = [to](const RawValue& raw) -> std::string {
    if (raw.kind != Kind::kScalar) return expected("text");
    *to = raw.is_null() ? "" : raw.text;
    return "";
  };
  option.get = [to] { return text_value(*to); };
}

void OptionSet::path(std::string_view name, std::string* to,
                     std::string_view help) {
  const char* valid = "a path on this machine";
  Option& option = add(name, OptionKind::kPath, valid, help);
  option.set = [to, valid](const RawValue& raw) -> std::string {
    if (raw.kind != Kind::kScalar) return expected(valid);
    const std::string text = raw.is_null() ? "" : raw.text;
    for (const char* remote : {"gs://", "s3://"}) {
      if (text.starts_with(remote)) {
        return fmt::format("{} storage is not there; {}", remote,
                           expected(valid));
      }
    }
    if (text.find('\0') != std::string::npos) return expected(valid);
    *to = text;
    return "";
  };
  option.get = [to] { return text_value(*to); };
}

void OptionSet::list(std::string_view name, std::vector<std::string>* to,
                     std::string_view help) {
  const char* valid = "a list such as [a, b]";
  Option& option = add(name, OptionKind::kList, valid, help);
  option.set = [to, valid](const RawValue& raw) -> std::string {
    if (raw.kind != Kind::kList) return expected(valid);
    std::vector<std::string> items;
    for (const RawValue& item : raw.items) {
      if (item.kind != Kind::kScalar) return expected(valid);
      items.push_back(item.text);
    }
    *to = std::move(items);
    return "";
  };
  option.get = [to] {
    std::vector<RawValue> items;
    for (const std::string& item : *to) items.push_back(text_value(item));
    return RawValue::list(std::move(items));
  };
}

void OptionSet::dtype(std::string_view name, DType* to,
                      std::initializer_list<DType> allowed,
                      std::string_view help,
                      std::initializer_list<std::string_view> not_yet) {
  std::vector<std::string> spellings;
  for (const DType each : allowed) spellings.emplace_back(dtype_name(each));
  add_choice(
      name, std::move(spellings),
      [to, values = std::vector<DType>(allowed)](std::size_t index) {
        *to = values[index];
      },
      [to] { return std::string(dtype_name(*to)); }, help, not_yet);
}

void OptionSet::add_choice(std::string_view name,
                           std::vector<std::string> spellings,
                           std::function<void(std::size_t)> set,
                           std::function<std::string()> get,
                           std::string_view help,
                           std::initializer_list<std::string_view> not_yet) {
  const std::string valid = fmt::format("{}", fmt::join(spellings, ", "));
  Option& option = add(name, OptionKind::kChoice, valid, help);
  option.set = [set = std::move(set), spellings = std::move(spellings), valid,
                not_yet =
                    std::vector<std::string>(not_yet.begin(), not_yet.end())](
                   const RawValue& raw) -> std::string {
    if (raw.kind != Kind::kScalar) return expected(valid);
    const auto found = std::find(spellings.begin(), spellings.end(), raw.text);
    if (found != spellings.end()) {
      set(static_cast<std::size_t>(found - spellings.begin()));
      return "";
    }
    if (std::find(not_yet.begin(), not_yet.end(), raw.text) != not_yet.end()) {
      return fmt::format("{} is not there yet; {}", raw.text, expected(valid));
    }
    const std::string meant = closest_name(raw.text, spellings);
    if (meant.empty()) return expected(valid);
    return fmt::format("did you mean '{}'? {}", meant, expected(valid));
  };
  option.get = [get = std::move(get)] { return text_value(get()); };
}

void OptionSet::alias(std::string_view name) {
  RINGMAX_CHECK(!options_.empty() && find(name) == nullptr);
  options_.back().aliases.emplace_back(name);
}

const Option* OptionSet::find(std::string_view name) const {
  for (const Option& option : options_) {
    if (option.name == name ||
        std::find(option.aliases.begin(), option.aliases.end(), name) !=
            option.aliases.end()) {
      return &option;
    }
  }
  return nullptr;
}

}  // namespace ringmax
