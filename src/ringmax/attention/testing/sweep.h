// Known cases through attend() under strategies, ring sizes and layouts: to
// hold a kernel to all of them.
#ifndef RINGMAX_ATTENTION_TESTING_SWEEP_H_
#define RINGMAX_ATTENTION_TESTING_SWEEP_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ringmax::attention::testing {

enum class Mode {
  kRing,
  kBothWays,
  kInALoop,
  kAllGather,
  kUlysses,
  kUsp,
  kInMemory,  // for kernels that work together
};

// Those of all kernels.
inline constexpr Mode kModes[] = {Mode::kRing,    Mode::kBothWays,
                                  Mode::kInALoop, Mode::kAllGather,
                                  Mode::kUlysses, Mode::kUsp};
inline constexpr std::int64_t kRingSizes[] = {1, 2, 3, 4, 5, 6, 8};

// Whether the mode differs from a plain ring at that size: one device is alone
// in every mode, and short rings take no loop.
bool is_itself(Mode mode, std::int64_t ring);

// Both answer all findings, with case and setting; empty if all is right.
// `kernel` as the setting spells it. Programs are dropped when nothing uses
// them any more.

// Every case once; ring sizes and the layouts take turns from one kind of
// program to the next, and so do the modes where several are given.
std::vector<std::string> sweep_in_turn(std::string_view kernel,
                                       std::span<const Mode> modes);

// Every case on a ring of that size, in every layout.
std::vector<std::string> sweep_ring(std::string_view kernel, Mode mode,
                                    std::int64_t ring);

}  // namespace ringmax::attention::testing

#endif  // RINGMAX_ATTENTION_TESTING_SWEEP_H_
