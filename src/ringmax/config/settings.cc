#include "ringmax/config/settings.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>
#include <utility>

#include "ringmax/base/suggest.h"
#include "ringmax/config/yaml_file.h"

namespace ringmax::config {
namespace {

bool names_yaml(std::string_view word) {
  return word.ends_with(".yml") || word.ends_with(".yaml");
}

// A key is a name; anything else before `=` belongs to a path or a slip.
bool is_key(std::string_view text) {
  if (text.empty()) return false;
  for (const char c : text) {
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    const bool digit = c >= '0' && c <= '9';
    if (!letter && !digit && c != '_' && c != '-' && c != '.') return false;
  }
  return true;
}

}  // namespace

Words sort_words(std::span<const std::string> args, Problems& problems) {
  const Source command_line = {SourceKind::kCommandLine, "command line"};
  Words words;
  for (const std::string& word : args) {
    const std::size_t equals = word.find('=');
    if (names_yaml(word) &&
        (equals == std::string::npos ||
         !is_key(std::string_view(word).substr(0, equals)))) {
      words.files.push_back(word);
    } else if (equals == std::string::npos) {
      problems.add(
          "command line: cannot read '{}'; valid is FILE.yml or key=value",
          word);
    } else if (const std::string key = word.substr(0, equals); !is_key(key)) {
      problems.add(
          "command line: cannot read '{}'; valid is key=value, the key a "
          "setting's name",
          word);
    } else {
      Assignment assignment{key, {}, command_line};
      if (parse_inline_value(word.substr(equals + 1), "command line: " + key,
                             assignment.value, problems)) {
        words.assignments.push_back(std::move(assignment));
      }
    }
  }
  return words;
}

std::vector<Assignment> read_assignments(const std::string& path,
                                         SourceKind kind, Problems& problems) {
  std::vector<Assignment> assignments;
  for (YamlEntry& entry : read_yaml(path, problems)) {
    assignments.push_back(
        {std::move(entry.key),
         std::move(entry.value),
         {kind, fmt::format("{}:{}:{}", path, entry.line, entry.column)}});
  }
  return assignments;
}

SplitWords split_words(const OptionSet& set,
                       std::span<const std::string> args) {
  SplitWords words;
  for (const std::string& word : args) {
    const std::size_t equal = word.find('=');
    const bool own = equal != std::string::npos &&
                     set.find(word.substr(0, equal)) != nullptr;
    (own ? words.own : words.others).push_back(word);
  }
  return words;
}

Applied apply(const OptionSet& set, std::span<const Assignment> assignments,
              Problems& problems) {
  Applied applied;
  std::map<const Option*, const Assignment*> winners;
  for (const Assignment& assignment : assignments) {
    const Option* option = set.find(assignment.key);
    if (option == nullptr) {
      applied.unknown.push_back(assignment);
      continue;
    }
    const Assignment*& winner = winners[option];
    const auto file_of = [](const Assignment& each) {
      const std::string& where = each.source.where;  // file:line:column
      return where.substr(0, where.rfind(':', where.rfind(':') - 1));
    };
    if (winner != nullptr && winner->key != assignment.key &&
        winner->source.kind != SourceKind::kCommandLine &&
        file_of(*winner) == file_of(assignment)) {
      problems.add("{}: '{}' is another name of '{}', set already at {}",
                   assignment.source.where, assignment.key, winner->key,
                   winner->source.where);
    }
    winner = &assignment;
  }
  // In declared order, so that problems come in an order a reader expects.
  for (const Option& option : set.options()) {
    const auto found = winners.find(&option);
    if (found == winners.end()) continue;
    const Assignment& winner = *found->second;
    const std::string wrong = option.set(winner.value);
    if (!wrong.empty()) {
      problems.add("{}: {}={}: {}", winner.source.where, winner.key,
                   winner.value.to_string(), wrong);
      applied.refused.insert(option.name);
    }
    applied.sources[option.name] = winner.source;
  }
  return applied;
}

void add_unknown_key(const Assignment& assignment,
                     const std::vector<std::string>& known,
                     Problems& problems) {
  constexpr std::size_t kFew = 8;
  const std::string meant = closest_name(assignment.key, known);
  std::string hint = "`ringmax config` lists the settings";
  if (!meant.empty()) {
    hint = fmt::format("did you mean '{}'?", meant);
  } else if (known.size() <= kFew) {
    hint = fmt::format("valid here: {}", fmt::join(known, ", "));
  }
  problems.add("{}: unknown key '{}'; {}", assignment.source.where,
               assignment.key, hint);
}

Applied read_settings(const OptionSet& set, std::span<const std::string> args) {
  Problems problems;
  Words words = sort_words(args, problems);
  std::vector<Assignment> all;
  for (const std::string& file : words.files) {
    for (Assignment& each :
         read_assignments(file, SourceKind::kFile, problems)) {
      all.push_back(std::move(each));
    }
  }
  for (Assignment& each : words.assignments) all.push_back(std::move(each));
  Applied applied = apply(set, all, problems);
  std::vector<std::string> known;
  for (const Option& option : set.options()) known.push_back(option.name);
  for (const Assignment& each : applied.unknown) {
    add_unknown_key(each, known, problems);
  }
  problems.throw_if_any();
  return applied;
}

}  // namespace ringmax::config
