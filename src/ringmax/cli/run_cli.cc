#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <iterator>

#include "ringmax/base/error.h"
#include "ringmax/base/suggest.h"
#include "ringmax/base/utf8.h"
#include "ringmax/cli/commands.h"

namespace ringmax::cli {
namespace {

std::string help_text() {
  std::string text =
      "Long-context LLM training on XLA, in C++.\n\n"
      "Usage: ringmax COMMAND [FILE.yml ...] key=value ...\n\nCommands:\n";
  for (const Command& command : commands()) {
    text += fmt::format("  {:<10}  {}\n", command.name, command.summary);
  }
  text +=
      "\n`ringmax COMMAND --help` says more; `ringmax --version` prints the "
      "version.\n"
      "Exit codes: 0 done; 2 the command, the config, an input file or the "
      "machine is\n"
      "at fault and nothing was started; 1 anything else.\n";
  return text;
}

int dispatch(Args args) {
  if (args.empty()) {
    std::fputs(help_text().c_str(), stderr);
    return 2;
  }
  const std::string& name = args.front();
  if (name == "--help" || name == "-h" || name == "help") {
    std::fputs(help_text().c_str(), stdout);
    return 0;
  }
  if (name == "--version") {
    std::fputs("ringmax " RINGMAX_VERSION "\n", stdout);
    return 0;
  }
  std::vector<std::string> names;
  for (const Command& command : commands()) {
    if (command.name == name) return command.run(args.subspan(1));
    names.emplace_back(command.name);
  }
  const std::string meant = closest_name(name, names);
  fail_invalid("there is no command '{}'{}; `ringmax --help` lists them", name,
               meant.empty() ? "" : fmt::format(", did you mean '{}'?", meant));
}

}  // namespace

int run_cli(Args args) {
  const auto say = [](std::string_view message) {
    // A message quotes what it was given, which may be any bytes.
    std::fputs(
        fmt::format("ringmax: {}\n", printable(message, Unprintable::kEscape))
            .c_str(),
        stderr);
  };
  int code = 1;
  try {
    code = dispatch(args);
  } catch (const Error& error) {
    say(error.message());
    code = exit_code_for(error.code());
  } catch (const std::bad_alloc&) {
    say("this process is out of memory");
  } catch (const std::exception& error) {
    say(error.what());
  }
  // A full disk behind standard output is an error, not a result. What was
  // written before the end shows in the stream's state only.
  if ((std::fflush(stdout) != 0 || std::ferror(stdout) != 0) && code == 0) {
    say("standard output cannot be written");
    code = 1;
  }
  return code;
}

}  // namespace ringmax::cli
