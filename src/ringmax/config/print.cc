#include "ringmax/config/print.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "ringmax/config/known_keys.h"

namespace ringmax::config {
namespace {

using nlohmann::ordered_json;

ordered_json json_value(const Setting& setting) {
  const RawValue& value = setting.value;
  switch (setting.kind) {
    case OptionKind::kBool:
      return *parse_bool_text(value.text);
    case OptionKind::kInt:
      return *parse_int_text(value.text);
    case OptionKind::kNumber:
      return *parse_number_text(value.text);
    case OptionKind::kList: {
      ordered_json list = ordered_json::array();
      for (const RawValue& item : value.items) list.push_back(item.text);
      return list;
    }
    case OptionKind::kText:
    case OptionKind::kPath:
    case OptionKind::kChoice:
      break;
  }
  return value.text;
}

}  // namespace

std::string to_table(const Config& config) {
  std::size_t name_width = 0;
  std::size_t value_width = 0;
  for (const Setting& each : config.settings) {
    name_width = std::max(name_width, each.name.size());
    // One long path must not push every source off the screen.
    value_width = std::max(
        value_width, std::min<std::size_t>(each.value.to_string().size(), 24));
  }
  std::string text;
  std::string section;
  for (const Setting& each : config.settings) {
    if (each.section != section) {
      section = each.section;
      text += fmt::format("{}{}\n", text.empty() ? "" : "\n", section);
    }
    text += fmt::format("  {:<{}}  {:<{}}  {}\n", each.name, name_width,
                        each.value.to_string(), value_width, each.source.where);
  }
  if (!config.notes.empty()) text += "\nNotes\n";
  for (const std::string& note : config.notes) text += "  " + note + "\n";
  return text;
}

std::string to_json(const Config& config) {
  ordered_json settings = ordered_json::object();
  for (const Setting& each : config.settings) {
    settings[each.name] = {{"value", json_value(each)},
                           {"source", each.source.where}};
  }
  const ordered_json all = {{"settings", std::move(settings)},
                            {"notes", config.notes}};
  // A path may hold bytes that are not UTF-8; JSON may not.
  return all.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

std::string defaults_yaml() {
  Config config;
  const OptionSet set = options_of(config);
  std::string text =
      "# Every setting of ringmax with its default. Files named on the "
      "command\n"
      "# line and key=value words win over it; docs/config.md says what is\n"
      "# valid. Made by `ringmax config --defaults`.\n";
  std::string section;
  for (const Option& option : set.options()) {
    if (option.section != section) {
      section = option.section;
      text += fmt::format("\n# {}\n", section);
    }
    text += fmt::format("{}: {}  # {}\n", option.name, option.get().to_string(),
                        option.help);
  }
  return text;
}

std::string reference_markdown() {
  Config config;
  const OptionSet set = options_of(config);
  std::string text =
      "# Settings\n\n"
      "`ringmax config [FILE.yml ...] key=value ...` prints every setting with "
      "its value and where it came from. Settings come, later ones winning, "
      "from `configs/base.yml`, the preset of `model_name` "
      "(`configs/models`), the files of the command line and its `key=value` "
      "words. A preset's sizes change only with `override_model_config=true`. "
      "Names and meaning are MaxText's where MaxText has the setting. A "
      "setting of MaxText that is not listed here is accepted at the value "
      "that asks for nothing, and refused by name at any other.\n\n"
      "Made by `ringmax config --reference`.\n";
  std::string section;
  for (const Option& option : set.options()) {
    if (option.section != section) {
      section = option.section;
      text += fmt::format(
          "\n## {}\n\n| setting | default | valid | meaning "
          "|\n|---|---|---|---|\n",
          section);
    }
    std::string names = fmt::format("`{}`", option.name);
    for (const std::string& alias : option.aliases) {
      names += fmt::format(" (also `{}`)", alias);
    }
    std::string meaning = option.help;
    if (const KnownKey* other = find_other_default(option.name)) {
      meaning += fmt::format(" (MaxText's default: `{}`)", other->neutral);
    }
    text += fmt::format("| {} | `{}` | {} | {} |\n", names,
                        option.get().to_string(), option.valid, meaning);
  }
  return text;
}

}  // namespace ringmax::config
