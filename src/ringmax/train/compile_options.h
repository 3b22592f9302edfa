// Compiler options of a run's programs, by platform; compile_xla_flags wins.
#ifndef RINGMAX_TRAIN_COMPILE_OPTIONS_H_
#define RINGMAX_TRAIN_COMPILE_OPTIONS_H_

#include <string_view>

#include "ringmax/base/error.h"
#include "ringmax/config/config.h"
#include "ringmax/pjrt/compile_options.h"

namespace ringmax::train {

// `platform` is the client's or topology's name for itself: "cpu", "tpu". The
// device assignment is left to the caller.
pjrt::CompileOptions compile_options(const config::Config& config,
                                     std::string_view platform);

// Of an error of the compiler: throws kInvalidArgument naming compile_xla_flags
// where it does not know one of them.
void blame_flags(const config::Config& config, const Error& error);

}  // namespace ringmax::train

#endif  // RINGMAX_TRAIN_COMPILE_OPTIONS_H_
