// The table of subcommands and what each of them needs to read its words. A
// subcommand is one file, `cli/NAME_command.cc`, and one row of `commands()`.
#ifndef RINGMAX_CLI_COMMANDS_H_
#define RINGMAX_CLI_COMMANDS_H_

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ringmax::cli {

using Args = std::span<const std::string>;

struct Command {
  std::string_view name;
  std::string_view summary;  // one line for `ringmax --help`
  // Gets the words after its name; returns the exit code, 0 when done, or
  // throws ringmax::Error. Results go to standard output.
  int (*run)(Args args);
};

std::span<const Command> commands();

// One per subcommand, each in its own file.
int run_attention(Args args);
int run_compile(Args args);
int run_config(Args args);
int run_generate(Args args);
int run_plan(Args args);
int run_train(Args args);
int run_bench(Args args);
int run_doctor(Args args);

// The whole program: finds the subcommand, turns errors into one message on
// standard error and into exit codes. `args` are without the program's name.
int run_cli(Args args);

}  // namespace ringmax::cli

#endif  // RINGMAX_CLI_COMMANDS_H_
