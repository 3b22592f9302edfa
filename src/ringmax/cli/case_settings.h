// The settings of one attention case, as `ringmax attention` and `ringmax bench
// attention` take them.
#ifndef RINGMAX_CLI_CASE_SETTINGS_H_
#define RINGMAX_CLI_CASE_SETTINGS_H_

#include <functional>
#include <string>
#include <vector>

#include "ringmax/base/option.h"
#include "ringmax/cli/attention_case.h"

namespace ringmax::cli {

struct CaseWords {
  CaseSettings settings;  // all but the mask
  // As written: an array in it is a tensor of the case.
  std::string mask = "full";
};

// Reads key=value words; `more` declares a command's own settings beside them.
// Throws kInvalidArgument with all that is wrong.
CaseWords read_case_settings(const std::vector<std::string>& words,
                             const std::function<void(OptionSet&)>& more = {});

// The same settings for a command's help.
std::string describe_case_settings(
    const std::function<void(OptionSet&)>& more = {});

}  // namespace ringmax::cli

#endif  // RINGMAX_CLI_CASE_SETTINGS_H_
