// `ringmax config`: every resolved setting, and where it came from.
#include <cstdio>

#include "ringmax/base/error.h"
#include "ringmax/cli/arguments.h"
#include "ringmax/cli/commands.h"
#include "ringmax/config/config.h"
#include "ringmax/config/print.h"

namespace ringmax::cli {

int run_config(Args args) {
  const Arguments arguments = read_arguments(
      "config",
      "Checks settings and prints each with its value and its source. Starts "
      "nothing.",
      "[FILE.yml ...] key=value ...",
      {{"--json", "print JSON instead of a table", ""},
       {"--defaults", "print configs/base.yml: every setting, its default", ""},
       {"--reference", "print docs/config.md: every setting, what is valid",
        ""}},
      args, kTrainSettingsHelp);
  if (arguments.helped) return 0;
  const bool built_in =
      arguments.has("--defaults") || arguments.has("--reference");
  if (built_in && (arguments.flags.size() > 1 || !arguments.settings.empty())) {
    fail_invalid(
        "config: --defaults and --reference print what is built in; each goes "
        "with no setting and no other option");
  }
  std::string text;
  if (arguments.has("--defaults")) {
    text = config::defaults_yaml();
  } else if (arguments.has("--reference")) {
    text = config::reference_markdown();
  } else {
    const config::Config config = config::load(arguments.settings);
    text = arguments.has("--json") ? config::to_json(config)
                                   : config::to_table(config);
  }
  std::fputs(text.c_str(), stdout);
  return 0;
}

}  // namespace ringmax::cli
