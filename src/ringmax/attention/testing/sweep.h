// Known cases through attend() under strategies, ring sizes and layouts: one
// call to hold a kernel to all of them.
#ifndef RINGMAX_ATTENTION_TESTING_SWEEP_H_
#define RINGMAX_ATTENTION_TESTING_SWEEP_H_

#include <string>
#include <string_view>
#include <vector>

namespace ringmax::attention::testing {

enum class Mode { kRing, kBothWays, kInALoop, kAllGather, kUlysses, kUsp };

enum class Extent {
  // Every case once; ring sizes 1 to 6 and 8 and the layouts take turns from
  // one kind of program to the next.
  kTakingTurns,
  kWhole,
};

// All findings, with case and setting; empty if all is right. `kernel` as the
// setting spells it.
std::vector<std::string> sweep_known_cases(std::string_view kernel, Mode mode,
                                           Extent extent);

}  // namespace ringmax::attention::testing

#endif  // RINGMAX_ATTENTION_TESTING_SWEEP_H_
