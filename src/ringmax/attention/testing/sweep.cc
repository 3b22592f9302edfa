#include "ringmax/attention/testing/sweep.h"

#include <fmt/format.h>

#include <algorithm>

#include "ringmax/attention/testing/attend_runner.h"

namespace ringmax::attention::testing {
namespace {

constexpr LayoutKind kLayouts[] = {LayoutKind::kContiguous, LayoutKind::kZigzag,
                                   LayoutKind::kStriped};

RunSettings settings_of(std::string_view kernel, Mode mode, std::int64_t ring,
                        LayoutKind layout) {
  RunSettings how;
  how.kernel = kernel;
  how.devices = ring;
  how.layout = layout;
  how.block = 3;
  switch (mode) {
    case Mode::kRing:
      break;
    case Mode::kBothWays:
      how.bidirectional = true;
      // Twice as many steps make long programs; large rings go in a loop.
      how.ring_scan_unroll = ring > 4 ? 1 : 0;
      break;
    case Mode::kInALoop:
      how.ring_scan_unroll = 1;
      break;
    case Mode::kAllGather:
      how.strategy = Strategy::kAllGather;
      break;
    case Mode::kUlysses:
      how.strategy = Strategy::kUlysses;
      break;
    case Mode::kUsp:
      how.strategy = Strategy::kUsp;
      how.ulysses = ring % 2 == 0 ? 2 : ring;
      break;
    case Mode::kInMemory:
      how.ring_transport = RingTransport::kMemory;
      break;
  }
  return how;
}

// What the strategy asks of a case before it takes it: enough heads.
Case fitted(const Case& c, const RunSettings& how) {
  const std::int64_t share = how.strategy == Strategy::kUlysses ? how.devices
                             : how.strategy == Strategy::kUsp   ? how.ulysses
                                                                : 1;
  return c.inputs.query_heads % share == 0 ? c : repeat_heads(c, share);
}

bool possible(const Case& c, const RunSettings& how) {
  const std::int64_t tokens = std::min(c.inputs.queries, c.inputs.keys);
  if (how.devices > tokens) return false;
  return !how.bidirectional || how.devices == 1 || tokens >= 2 * how.devices;
}

// Cases that share programs share their turn.
std::string kind_of(const Case& c) {
  const ReferenceInputs& in = c.inputs;
  return fmt::format("{} {} {} {} {} {} {} {}", c.mask.to_string(), in.batch,
                     in.queries, in.query_heads, in.head_dim,
                     in.query_segments.empty(), in.sinks.empty(),
                     in.soft_cap.value_or(0));
}

// Tries a case if it is possible, and adds what is wrong to `findings`.
bool try_case(AttendRunner& runner, const Case& c, const RunSettings& how,
              std::vector<std::string>& findings) {
  if (!possible(c, how)) return false;
  const Case fit = fitted(c, how);
  for (const std::string& finding : check_case(fit, runner.run(fit, how))) {
    findings.push_back(fmt::format("{}: {}", how.to_string(), finding));
  }
  return true;
}

}  // namespace

bool is_itself(Mode mode, std::int64_t ring) {
  if (mode == Mode::kRing) return true;
  return ring > (mode == Mode::kInALoop ? 3 : 1);
}

std::vector<std::string> sweep_in_turn(std::string_view kernel,
                                       std::span<const Mode> modes) {
  std::vector<std::string> findings;
  AttendRunner runner;
  std::vector<std::string> kinds;
  for (const Case& c : attend_cases()) {
    const auto found = std::find(kinds.begin(), kinds.end(), kind_of(c));
    std::size_t turn = static_cast<std::size_t>(found - kinds.begin());
    const Mode mode = modes[turn % modes.size()];
    if (found == kinds.end()) kinds.push_back(kind_of(c));
    // Each mode begins elsewhere; a turn that a case is too short for is
    // another's.
    turn += static_cast<std::size_t>(mode) * 2 + 2;
    while (!try_case(
        runner, c,
        settings_of(kernel, mode, kRingSizes[turn % std::size(kRingSizes)],
                    kLayouts[turn % std::size(kLayouts)]),
        findings)) {
      ++turn;
    }
  }
  return findings;
}

std::vector<std::string> sweep_ring(std::string_view kernel, Mode mode,
                                    std::int64_t ring) {
  std::vector<std::string> findings;
  const std::vector<Case> cases = attend_cases();
  for (const LayoutKind layout : kLayouts) {
    AttendRunner runner;  // the next layout has other programs
    for (const Case& c : cases) {
      try_case(runner, c, settings_of(kernel, mode, ring, layout), findings);
    }
  }
  return findings;
}

}  // namespace ringmax::attention::testing
