#include "ringmax/cli/compile_switches.h"

#include <charconv>
#include <optional>
#include <string_view>

#include "ringmax/base/error.h"

namespace ringmax::cli {
namespace {

std::optional<std::string> take(std::vector<std::string>& settings,
                                std::string_view name) {
  std::optional<std::string> value;
  std::erase_if(settings, [&](const std::string& word) {
    if (!word.starts_with(name) || word.substr(name.size(), 1) != "=") {
      return false;
    }
    value = word.substr(name.size() + 1);
    return true;
  });
  return value;
}

bool take_flag(std::vector<std::string>& settings, std::string_view name,
               bool otherwise) {
  const auto value = take(settings, name);
  if (!value) return otherwise;
  if (*value == "true" || *value == "True") return true;
  if (*value == "false" || *value == "False") return false;
  fail_invalid("{}={}: valid are true and false", name, *value);
}

void take_utilization(std::vector<std::string>& settings,
                      analysis::EstimateSettings& estimate) {
  const auto value = take(settings, "kernel_utilization");
  if (!value) return;
  std::string_view rest = *value;
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
          *value);
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

}  // namespace

CompileSwitches take_switches(std::vector<std::string>& settings) {
  CompileSwitches switches;
  switches.find_max_length = take_flag(settings, "find_max_length", false);
  switches.kernel_cycles = take_flag(settings, "kernel_cycles", false);
  take_utilization(settings, switches.estimate);
  switches.estimate.hidden_sends = take_flag(settings, "hidden_sends", true);
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
