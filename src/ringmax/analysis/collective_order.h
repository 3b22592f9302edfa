// Whether a program's collectives come in one order on all devices, on a
// backend whose collectives block the thread that they are met in (XLA's CPU).
//
// There, collectives of one sequence follow each other. But a loop counts as
// met once it has begun: a collective after it that needs nothing of it may
// overtake those in the loop, on one device and not on another. Devices then
// wait for each other in different collectives, for ever.
//
// Source: xla/runtime/execution_graph.cc (scheduling edges),
// xla/backends/cpu/runtime/{thunk_executor,while_thunk}.cc.
#ifndef RINGMAX_ANALYSIS_COLLECTIVE_ORDER_H_
#define RINGMAX_ANALYSIS_COLLECTIVE_ORDER_H_

#include <string>
#include <vector>

#include "ringmax/analysis/hlo.h"

namespace ringmax::analysis {

// "all-reduce.40 may overtake while.19" for every collective, or loop with
// collectives, that depends on no result of an earlier loop with collectives in
// its computation. `module` is scheduled. Empty: one order for all.
std::vector<std::string> overtaking_collectives(const HloModule& module);

}  // namespace ringmax::analysis

#endif  // RINGMAX_ANALYSIS_COLLECTIVE_ORDER_H_
