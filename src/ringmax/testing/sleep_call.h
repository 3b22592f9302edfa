// For tests: an operand that arrives late on one device, as when a machine
// stalls.
#ifndef RINGMAX_TESTING_SLEEP_CALL_H_
#define RINGMAX_TESTING_SLEEP_CALL_H_

#include "ringmax/graph/graph.h"

namespace ringmax::testing {

// x, after `seconds` of sleep on the device whose coordinate along `axis` is
// `device`. Inside a manual computation, for programs of cpu_client().
graph::Value sleep_on_device(graph::Value x, std::string_view axis,
                             std::int64_t device, double seconds);

}  // namespace ringmax::testing

#endif  // RINGMAX_TESTING_SLEEP_CALL_H_
