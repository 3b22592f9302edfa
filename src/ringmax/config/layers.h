// All assignments of a run in the order in which they win: base.yml, a base
// file that the command names, the model's preset, other files, the command
// line. Only config::load calls this.
#ifndef RINGMAX_CONFIG_LAYERS_H_
#define RINGMAX_CONFIG_LAYERS_H_

#include <span>
#include <string>
#include <vector>

#include "ringmax/base/option.h"
#include "ringmax/base/problems.h"
#include "ringmax/config/settings.h"

namespace ringmax::config {

// Reads the files, finds the preset, and refuses settings that change what the
// preset sets unless override_model_config is true. Lines a user should read
// go to `notes`.
std::vector<Assignment> collect_layers(std::span<const std::string> args,
                                       std::vector<std::string>& notes,
                                       Problems& problems);

// Sorts out assignments to keys that RingMax does not have: a setting of
// MaxText at a value that asks for nothing is fine, at another one it is a
// problem, as is a key that nobody knows.
void judge_unknown(const OptionSet& set, std::span<const Assignment> unknown,
                   std::vector<std::string>& notes, Problems& problems);

}  // namespace ringmax::config

#endif  // RINGMAX_CONFIG_LAYERS_H_
