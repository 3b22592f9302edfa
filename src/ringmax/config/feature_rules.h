// The rules of context parallelism: which features of a MaxText config that
// touch attention are computed, and which are refused by name. One row each,
// and nowhere else. They are checked on the words of the settings, before
// anything is derived or loaded; what follows from sizes is derive.h's.
#ifndef RINGMAX_CONFIG_FEATURE_RULES_H_
#define RINGMAX_CONFIG_FEATURE_RULES_H_

#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ringmax/base/problems.h"
#include "ringmax/config/settings.h"

namespace ringmax::config {

enum class Verdict {
  kComputed,
  kNoted,    // computed, with one line that says how
  kRefused,  // exit code 2
};

// The values that win, of every setting that is written down anywhere.
class Asked {
 public:
  explicit Asked(std::span<const Assignment> layers);

  // nullptr when nobody sets it.
  const Assignment* find(std::string_view key) const;
  // The value as one word; "" for a list or when nobody sets it.
  std::string text(std::string_view key) const;
  bool yes(std::string_view key) const;
  // `fallback` when it is no number.
  double number(std::string_view key, double fallback) const;
  // Set by a person: in a file that the command names, or on its line.
  bool chosen(std::string_view key) const;

 private:
  std::span<const Assignment> layers_;
};

struct FeatureRule {
  std::string_view feature;  // "ragged attention"
  Verdict verdict;
  std::string_view setting;  // the setting that asks for it
  std::string_view example;  // words that ask for it
  // Refused: why, and what is valid. Noted: what is done. Computed: how.
  std::string_view answer;
  bool (*asked)(const Asked&);
};

std::span<const FeatureRule> feature_rules();

// Judges the settings in `layers` by the rules: refusals become problems, lines
// to read become notes. Settings that are dealt with here, and by nobody else,
// leave `layers`. Returns the settings that were refused.
std::set<std::string> apply_feature_rules(std::vector<Assignment>& layers,
                                          std::vector<std::string>& notes,
                                          Problems& problems);

}  // namespace ringmax::config

#endif  // RINGMAX_CONFIG_FEATURE_RULES_H_
