// Known cases through attend() under strategies, ring sizes and layouts: to
// hold a kernel to all of them.
#ifndef RINGMAX_ATTENTION_TESTING_SWEEP_H_
#define RINGMAX_ATTENTION_TESTING_SWEEP_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ringmax::attention::testing {

enum class Mode { kRing, kBothWays, kInALoop, kAllGather, kUlysses, kUsp };

inline constexpr std::int64_t kRingSizes[] = {1, 2, 3, 4, 5, 6, 8};

// Both answer all findings, with case and setting; empty if all is right.
// `kernel` as the setting spells it. Programs are dropped when nothing uses
// them any more.

// Every case once; ring sizes and the layouts take turns from one kind of
// program to the next.
std::vector<std::string> sweep_in_turn(std::string_view kernel, Mode mode);

// Every case on a ring of that size, in every layout.
std::vector<std::string> sweep_ring(std::string_view kernel, Mode mode,
                                    std::int64_t ring);

}  // namespace ringmax::attention::testing

#endif  // RINGMAX_ATTENTION_TESTING_SWEEP_H_
