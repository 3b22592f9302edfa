#include "ringmax/config/layers.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <utility>

#include "ringmax/base/suggest.h"
#include "ringmax/config/install.h"
#include "ringmax/config/known_keys.h"
#include "ringmax/config/yaml_file.h"

namespace ringmax::config {
namespace {

namespace fs = std::filesystem;

constexpr int kDeepestBase = 8;

bool names_base_file(const std::string& path) {
  return fs::path(path).filename() == "base.yml";
}

RawValue value_of(std::string_view text) {
  RawValue value;
  Problems none;
  parse_inline_value(std::string(text), "", value, none);
  return value;
}

class Collector {
 public:
  Collector(std::vector<std::string>& notes, Problems& problems)
      : notes_(notes), problems_(problems) {}

  std::vector<Assignment> run(std::span<const std::string> args) {
    const std::string own = own_base();
    for (Assignment& each :
         read_assignments(own, SourceKind::kDefault, problems_)) {
      all_.push_back(std::move(each));
    }
    Words words = sort_words(args, problems_);
    for (const std::string& file : words.files) add_file(file, 0);
    for (Assignment& each : words.assignments) all_.push_back(std::move(each));
    sort();
    add_preset();
    return std::move(all_);
  }

 private:
  static std::string own_base() { return config_directory() + "/base.yml"; }

  // In the order of SourceKind, else as they came.
  void sort() {
    std::stable_sort(all_.begin(), all_.end(),
                     [](const Assignment& a, const Assignment& b) {
                       return a.source.kind < b.source.kind;
                     });
  }

  const Assignment* last(std::string_view key) const {
    for (auto each = all_.rbegin(); each != all_.rend(); ++each) {
      if (each->key == key) return &*each;
    }
    return nullptr;
  }

  void add_file(const std::string& path, int depth) {
    std::error_code error;
    if (names_base_file(path)) {
      if (!fs::exists(path, error)) {
        notes_.push_back(fmt::format(
            "{} does not exist here; RingMax's own base.yml is used", path));
        return;
      }
      if (fs::equivalent(path, own_base(), error)) return;
      add_base_file(path);
      return;
    }
    std::vector<Assignment> own =
        read_assignments(path, SourceKind::kFile, problems_);
    // MaxText's way for a file to build on another one.
    const auto base = std::find_if(
        own.begin(), own.end(),
        [](const Assignment& each) { return each.key == "base_config"; });
    if (base != own.end()) {
      const std::string named = base->value.text;
      const std::string beside =
          (fs::path(path).parent_path() / named).string();
      if (depth == kDeepestBase) {
        problems_.add(
            "{}: base_config={}: files build on each other more than "
            "{} deep",
            base->source.where, named, kDeepestBase);
      } else if (!named.empty()) {
        const bool is_own =
            names_base_file(named) && !fs::exists(beside, error);
        if (!is_own) add_file(beside, depth + 1);
      }
      own.erase(base);
    }
    for (Assignment& each : own) all_.push_back(std::move(each));
  }

  // A base.yml that is not ours: most often MaxText's. Where it only repeats
  // MaxText's default and RingMax has another, nobody chose it.
  void add_base_file(const std::string& path) {
    std::vector<std::string> kept;
    for (Assignment& each :
         read_assignments(path, SourceKind::kBaseFile, problems_)) {
      const KnownKey* other = find_other_default(each.key);
      if (other != nullptr &&
          same_value(each.value, value_of(other->neutral))) {
        kept.push_back(each.key);
      } else {
        all_.push_back(std::move(each));
      }
    }
    if (!kept.empty()) {
      notes_.push_back(
          fmt::format("{} has MaxText's defaults of {}; RingMax's are used",
                      path, fmt::join(kept, ", ")));
    }
  }

  void add_preset() {
    const Assignment* chosen = last("model_name");
    if (chosen == nullptr || chosen->value.kind != RawValue::Kind::kScalar) {
      return;
    }
    std::string name = chosen->value.text;
    // Instruction-tuned models have the sizes of their base.
    constexpr std::string_view kInstruct = "-Instruct";
    if (name.ends_with(kInstruct)) {
      name.resize(name.size() - kInstruct.size());
    }
    if (name == "default") return;
    const std::vector<std::string> names = preset_names(config_directory());
    if (std::find(names.begin(), names.end(), name) == names.end()) {
      const std::string meant = closest_name(name, names);
      problems_.add(
          "{}: model_name={}: {}valid is default, {}", chosen->source.where,
          chosen->value.to_string(),
          meant.empty() ? "" : fmt::format("did you mean '{}'? ", meant),
          fmt::join(names, ", "));
      return;
    }
    std::vector<Assignment> preset = read_assignments(
        fmt::format("{}/models/{}.yml", config_directory(), name),
        SourceKind::kPreset, problems_);
    check_overrides(preset, name);
    for (Assignment& each : preset) {
      each.source.where = "preset " + name;
      all_.push_back(std::move(each));
    }
    sort();
  }

  void check_overrides(const std::vector<Assignment>& preset,
                       const std::string& name) {
    const Assignment* allowed = last("override_model_config");
    if (allowed != nullptr && parse_bool_text(allowed->value.text) == true) {
      return;
    }
    for (const Assignment& each : preset) {
      const Assignment* other = last(each.key);
      if (other == nullptr || other->source.kind < SourceKind::kPreset ||
          same_value(other->value, each.value)) {
        continue;
      }
      problems_.add(
          "{}: {}={}: the preset {} sets it to {}; valid is that, or any value "
          "with override_model_config=true",
          other->source.where, each.key, other->value.to_string(), name,
          each.value.to_string());
    }
  }

  std::vector<std::string>& notes_;
  Problems& problems_;
  std::vector<Assignment> all_;
};

bool is_neutral(const KnownKey& key, const RawValue& value) {
  if (key.neutral == "-") return false;
  if (key.neutral == "true|false") {
    return value.kind == RawValue::Kind::kScalar &&
           parse_bool_text(value.text).has_value();
  }
  return same_value(value, value_of(key.neutral));
}

std::string valid_text(const KnownKey& key) {
  if (key.neutral == "-") return "to leave it out";
  if (key.neutral == "true|false") return "true or false";
  return std::string(key.neutral);
}

}  // namespace

std::vector<Assignment> collect_layers(std::span<const std::string> args,
                                       std::vector<std::string>& notes,
                                       Problems& problems) {
  return Collector(notes, problems).run(args);
}

void judge_unknown(const OptionSet& set, std::span<const Assignment> unknown,
                   std::vector<std::string>& notes, Problems& problems) {
  std::vector<std::string> own;
  for (const Option& option : set.options()) own.push_back(option.name);
  std::map<std::string, const Assignment*> last;
  for (const Assignment& each : unknown) last[each.key] = &each;
  std::vector<std::string> without_effect;
  for (const Assignment& each : unknown) {
    const KnownKey* known = find_known_key(each.key);
    if (known == nullptr) {
      add_unknown_key(each, own, problems);
    } else if (last[each.key] != &each || is_neutral(*known, each.value)) {
      continue;
    } else if (each.source.kind == SourceKind::kBaseFile &&
               each.value.kind != RawValue::Kind::kScalar) {
      // MaxText's own tables of axes and rules; RingMax has its own.
      without_effect.push_back(each.key);
    } else {
      problems.add("{}: {}={}: this setting is not there yet; valid is {}",
                   each.source.where, each.key, each.value.to_string(),
                   valid_text(*known));
    }
  }
  if (!without_effect.empty()) {
    notes.push_back(
        fmt::format("the base file's {} have no effect; RingMax has its own",
                    fmt::join(without_effect, ", ")));
  }
}

}  // namespace ringmax::config
