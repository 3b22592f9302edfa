#include <string>
#include <vector>

#include "ringmax/base/heap.h"
#include "ringmax/cli/commands.h"
#include "ringmax/cli/process.h"

int main(int argc, char** argv) {
  ringmax::cli::prepare_process();
  ringmax::keep_freed_memory();
  // argc is 0 when a program starts us with no name at all.
  const std::vector<std::string> args(argv + (argc > 0 ? 1 : 0), argv + argc);
  return ringmax::cli::run_cli(args);
}
