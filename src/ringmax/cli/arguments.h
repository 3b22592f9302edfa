// Words of a subcommand: `--flags`, `--options VALUE`, and everything else,
// which is left for the settings. The only place that knows CLI11.
#ifndef RINGMAX_CLI_ARGUMENTS_H_
#define RINGMAX_CLI_ARGUMENTS_H_

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "ringmax/base/option.h"
#include "ringmax/cli/commands.h"

namespace ringmax::cli {

struct ArgumentSpec {
  std::string_view name;  // "--json"
  std::string_view help;
  std::string_view value;  // "FILE"; empty for a flag
  bool required = false;
};

struct Arguments {
  // True when --help was asked for; it has been printed and nothing is left
  // to do.
  bool helped = false;
  std::set<std::string> flags;                 // those given: "--json"
  std::map<std::string, std::string> options;  // those given
  std::vector<std::string> settings;           // FILE.yml and key=value words

  bool has(const std::string& flag) const { return flags.count(flag) > 0; }
  // nullopt when the option was not given.
  std::optional<std::string> option(const std::string& name) const;
};

// Reads the words after `ringmax COMMAND`. `settings` describes the words that
// are not flags ("[FILE.yml ...] key=value ..."); when it is empty there may
// be none. `more` is printed below the help. Throws kInvalidArgument for a flag
// that is not in `specs`, one without its value, and the like.
Arguments read_arguments(std::string_view command, std::string_view summary,
                         std::string_view settings,
                         const std::vector<ArgumentSpec>& specs, Args args,
                         std::string_view more = "");

// Where the settings of `train` stand: too many for a command's help.
inline constexpr std::string_view kTrainSettingsHelp =
    "Settings: `ringmax config` prints all of them, `ringmax config "
    "--reference`\nwhat each is and what is valid (docs/config.md).\n";

// The settings of a set for a command's help, a line each: name, default, what
// it is and what is valid.
std::string describe_settings(const OptionSet& set);

}  // namespace ringmax::cli

#endif  // RINGMAX_CLI_ARGUMENTS_H_
