#include "ringmax/cli/commands.h"

namespace ringmax::cli {
namespace {

constexpr Command kCommands[] = {
    {"train", "trains a model", run_train},
    {"compile", "compiles the training step for a machine that is not here",
     run_compile},
    {"attention", "runs one attention case from a file into a file",
     run_attention},
    {"plan", "draws mask, layout, ring steps and work per device", run_plan},
    {"bench", "measures attention or the training step", run_bench},
    {"generate", "continues a text with what a run has learnt", run_generate},
    {"config", "prints every setting with its value and where it came from",
     run_config},
    {"doctor", "says what of RingMax works on this machine", run_doctor},
};

}  // namespace

std::span<const Command> commands() { return kCommands; }

}  // namespace ringmax::cli
