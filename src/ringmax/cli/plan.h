// What `ringmax plan` computes: mask, layout and strategy in, ring steps, work
// per device and estimates out. Needs no devices; knows no files and no
// command line.
#ifndef RINGMAX_CLI_PLAN_H_
#define RINGMAX_CLI_PLAN_H_

#include <cstdint>
#include <string>
#include <vector>

#include "ringmax/attention/cost_model.h"
#include "ringmax/attention/options.h"
#include "ringmax/attention/ring_schedule.h"
#include "ringmax/hw/target.h"

namespace ringmax::cli {

struct PlanSettings {
  // Mask, lengths, heads, devices, direction; blocks of 0: choose them.
  attention::CostCase what;
  // kAuto: the cheapest.
  attention::Strategy strategy = attention::Strategy::kRing;
  // What training is told; plans show what is sent if it is.
  attention::RingTransport ring_transport = attention::RingTransport::kAuto;
  hw::Target target;
};

struct Plan {
  PlanSettings settings;  // with every choice made
  attention::StrategyChoice costs;
  // Over the ring's devices; one device when there is no ring.
  attention::Layout queries{attention::LayoutKind::kContiguous, 1, 1};
  attention::Layout keys{attention::LayoutKind::kContiguous, 1, 1};
  attention::RingSchedule schedule;
  // Visible pairs that each of all devices computes for each of its heads.
  std::vector<std::int64_t> pairs_per_device;
  double max_over_mean = 1;
  std::int64_t ring_steps_sent = 0;
  // MaskInfo of the busiest device for all ring steps, with the arrays of both
  // walks: the best of a few tries, and what it all occupies. Without the
  // arrays where they would be larger than any kernel takes.
  double mask_info_build_s = 0;
  std::int64_t mask_info_bytes = 0;

  bool is_ring() const;
  // Of the strategy that was taken.
  const attention::StrategyEstimate& estimate() const;
};

// Throws kInvalidArgument when the strategy cannot be had, naming the reason,
// and when lengths do not fit the devices.
Plan make_plan(const PlanSettings& settings);

// The keys that scripts read: pairs_per_device, max_over_mean, steps,
// ring_steps_sent, mask_info_build_s, mask_info_bytes, and what was chosen.
std::string plan_json(const Plan& plan);
std::string plan_text(const Plan& plan);

}  // namespace ringmax::cli

#endif  // RINGMAX_CLI_PLAN_H_
