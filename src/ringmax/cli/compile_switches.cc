#include "ringmax/cli/compile_switches.h"

#include <charconv>
#include <string_view>
#include <utility>

#include "ringmax/base/error.h"
#include "ringmax/base/option.h"
#include "ringmax/cli/arguments.h"
#include "ringmax/config/settings.h"

namespace ringmax::cli {
namespace {

void read_utilization(const std::string& value,
                      analysis::EstimateSettings& estimate) {
  std::string_view rest = value;
  while (true) {
    const std::string_view part = rest.substr(0, rest.find(','));
    const std::size_t colon = part.find(':');
    const std::string_view number =
        colon == std::string_view::npos ? part : part.substr(colon + 1);
    double share = 0;
    const char* last = number.data() + number.size();
    const auto [end, error] = std::from_chars(number.data(), last, share);
    if (error != std::errc() || end != last || !(share > 0 && share <= 1) ||
        colon == 0) {
      fail_invalid(
          "kernel_utilization={}: valid is a share of the peak, above 0 and at "
          "most 1, for all kernels, or such by name, as in "
          "splash_forward:0.9,splash_backward:0.8",
          value);
    }
    if (colon == std::string_view::npos) {
      estimate.kernel_utilisation = share;
      estimate.kernel_utilisation_given = true;
    } else {
      estimate.given_utilisation[std::string(part.substr(0, colon))] = share;
    }
    if (part.size() == rest.size()) return;
    rest.remove_prefix(part.size() + 1);
  }
}

void declare(OptionSet& set, CompileSwitches& switches,
             std::string& utilization) {
  set.flag("find_max_length", &switches.find_max_length,
           "search the longest sequence that fits");
  set.flag("kernel_cycles", &switches.kernel_cycles,
           "look at the static cycles of kernels");
  set.text("kernel_utilization", &utilization,
           "share of the peak that kernels reach, or NAME:SHARE,...");
  set.flag("hidden_sends", &switches.estimate.hidden_sends,
           "ring sends travel behind kernels");
}

}  // namespace

std::string describe_switches() {
  CompileSwitches defaults;
  std::string utilization;
  OptionSet set;
  declare(set, defaults, utilization);
  return describe_settings(set);
}

CompileSwitches take_switches(std::vector<std::string>& settings) {
  CompileSwitches switches;
  std::string utilization;
  OptionSet set;
  declare(set, switches, utilization);
  config::SplitWords words = config::split_words(set, settings);
  const config::Applied given = config::read_settings(set, words.own);
  settings = std::move(words.others);
  if (given.sources.contains("kernel_utilization")) {
    read_utilization(utilization, switches.estimate);
  }
  if (switches.find_max_length && switches.kernel_cycles) {
    fail_invalid(
        "kernel_cycles=true: it looks at one program, and find_max_length=true "
        "compiles several; ask for one of them");
  }
  if (switches.kernel_cycles && switches.estimate.kernel_utilisation_given) {
    fail_invalid(
        "kernel_cycles=true finds out what kernel_utilization= assumes for "
        "all kernels; ask for one of them");
  }
  return switches;
}

}  // namespace ringmax::cli
