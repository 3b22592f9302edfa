// Settings as they are given, file by file and word by word, and their way
// into option structs. It knows descriptors, not rooms: `ringmax train` and
// `ringmax attention` read different settings by the same rules.
#ifndef RINGMAX_CONFIG_SETTINGS_H_
#define RINGMAX_CONFIG_SETTINGS_H_

#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ringmax/base/option.h"
#include "ringmax/base/option_value.h"
#include "ringmax/base/problems.h"

namespace ringmax::config {

// Where a value came from; a later one wins over an earlier one.
enum class SourceKind {
  kDefault,      // base.yml of the installation, or built in
  kBaseFile,     // a base.yml that the command names
  kPreset,       // the preset of model_name
  kFile,         // another file that the command names
  kCommandLine,  // key=value
  kDerived,      // follows from other settings
};

struct Source {
  SourceKind kind = SourceKind::kDefault;
  std::string where = "default";  // "my.yml:3:1", "command line", ...
};

struct Assignment {
  std::string key;  // as written
  RawValue value;
  Source source;
};

// The words of a command line, sorted into files and assignments.
struct Words {
  std::vector<std::string> files;
  std::vector<Assignment> assignments;
};
// `[FILE.yml ...] key=value ...` in any order. A word that is neither is a
// problem.
Words sort_words(std::span<const std::string> args, Problems& problems);

// The assignments of a file, all from the same kind of source.
std::vector<Assignment> read_assignments(const std::string& path,
                                         SourceKind kind, Problems& problems);

// What `apply` did.
struct Applied {
  std::map<std::string, Source> sources;  // by the option's own name
  std::set<std::string> refused;          // options whose value does not fit
  // Assignments to keys that the set does not have, in order.
  std::vector<Assignment> unknown;
};

// Splits a command's words into those that assign to an option of `set`, by
// name or alias, and all others.
struct SplitWords {
  std::vector<std::string> own, others;
};
SplitWords split_words(const OptionSet& set, std::span<const std::string> args);

// Gives every option the last value assigned to it, by name or alias. Values
// that do not fit, and one file that sets an option under two names, become
// problems; only values that win are judged.
Applied apply(const OptionSet& set, std::span<const Assignment> assignments,
              Problems& problems);

// "my.yml:3:1: unknown key 'stpes'; did you mean 'steps'?".
void add_unknown_key(const Assignment& assignment,
                     const std::vector<std::string>& known, Problems& problems);

// All of the above for a command with settings of its own: reads files and
// words into the options, and throws kInvalidArgument with every problem.
Applied read_settings(const OptionSet& set, std::span<const std::string> args);

}  // namespace ringmax::config

#endif  // RINGMAX_CONFIG_SETTINGS_H_
