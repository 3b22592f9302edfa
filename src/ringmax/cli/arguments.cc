#include "ringmax/cli/arguments.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <memory>
#include <utility>

#include "ringmax/base/error.h"
#include "ringmax/base/suggest.h"

namespace ringmax::cli {

namespace {

// CLI11 does not know of the words that are settings.
class UsageFormatter : public CLI::Formatter {
 public:
  explicit UsageFormatter(std::string usage) : usage_(std::move(usage)) {}
  std::string make_usage(const CLI::App*, std::string) const override {
    return "Usage: " + usage_ + "\n";
  }

 private:
  std::string usage_;
};

}  // namespace

std::optional<std::string> Arguments::option(const std::string& name) const {
  const auto found = options.find(name);
  if (found == options.end()) return std::nullopt;
  return found->second;
}

Arguments read_arguments(std::string_view command, std::string_view summary,
                         std::string_view settings,
                         const std::vector<ArgumentSpec>& specs, Args args,
                         std::string_view more) {
  CLI::App app{std::string(summary), fmt::format("ringmax {}", command)};
  app.set_help_flag("--help,-h", "print this and exit");
  Arguments result;
  std::map<std::string, bool> flags;
  std::vector<std::string> known = {"--help"};
  for (const ArgumentSpec& spec : specs) {
    const std::string name(spec.name);
    known.push_back(name);
    if (spec.value.empty()) {
      app.add_flag(name, flags[name], std::string(spec.help));
    } else {
      app.add_option(name, result.options[name], std::string(spec.help))
          ->type_name(std::string(spec.value))
          ->required(spec.required);
    }
  }
  // Words that CLI11 must not look into: a value such as [a,b] is ours.
  std::vector<std::string> for_parser;
  for (std::size_t i = 0; i < args.size(); ++i) {
    const std::string& word = args[i];
    if (!word.starts_with("-")) {
      result.settings.push_back(word);
      continue;
    }
    for_parser.push_back(word);
    const auto takes_value =
        std::find_if(specs.begin(), specs.end(), [&](const auto& spec) {
          return spec.name == word && !spec.value.empty();
        });
    if (takes_value != specs.end() && i + 1 < args.size()) {
      for_parser.push_back(args[++i]);
    }
  }
  const std::string usage =
      fmt::format("ringmax {}{}{}{}", command, settings.empty() ? "" : " ",
                  settings, specs.empty() ? "" : " [OPTIONS]");
  app.formatter(std::make_shared<UsageFormatter>(usage));
  std::reverse(for_parser.begin(), for_parser.end());  // CLI11 pops the back
  try {
    app.parse(for_parser);
  } catch (const CLI::CallForHelp&) {
    std::fputs((app.help() + std::string(more)).c_str(), stdout);
    result.helped = true;
    return result;
  } catch (const CLI::ExtrasError&) {
    for (const std::string& word : for_parser) {
      if (!word.starts_with("-")) continue;
      const std::string name = word.substr(0, word.find('='));
      if (std::find(known.begin(), known.end(), name) != known.end()) continue;
      const std::string meant = closest_name(name, known);
      fail_invalid(
          "{}: there is no option {}{}; usage: {}", command, name,
          meant.empty() ? "" : fmt::format(", did you mean {}?", meant), usage);
    }
    fail_invalid("{}: cannot read the options; usage: {}", command, usage);
  } catch (const CLI::ParseError& error) {
    fail_invalid("{}: {}; usage: {}", command, error.what(), usage);
  }
  if (settings.empty() && !result.settings.empty()) {
    fail_invalid("{}: cannot read '{}'; usage: {}", command,
                 result.settings.front(), usage);
  }
  for (const auto& [name, given] : flags) {
    if (given) result.flags.insert(name);
  }
  std::erase_if(result.options, [&](const auto& option) {
    return app.count(option.first) == 0;
  });
  return result;
}

std::string describe_settings(const OptionSet& set) {
  std::string text = "Settings:\n";
  for (const Option& option : set.options()) {
    const std::string value = option.get().to_string();
    // Where the default is more than a value the help says it.
    const bool none = value.empty() || value == "\"\"" ||
                      option.help.find("default") != std::string::npos;
    text += fmt::format(
        "  {:<26}  {}{}\n",
        fmt::format("{}={}", option.name, none ? "" : value), option.help,
        option.kind == OptionKind::kText || option.kind == OptionKind::kPath
            ? ""
            : fmt::format("; {}", option.valid));
  }
  return text;
}

}  // namespace ringmax::cli
