// For tests: ring attention on 8 devices of which one is late.
#ifndef RINGMAX_ATTENTION_TESTING_LATE_DEVICE_H_
#define RINGMAX_ATTENTION_TESTING_LATE_DEVICE_H_

#include <string>

#include "ringmax/attention/options.h"

namespace ringmax::attention::testing {

// Runs forward and backward with the native kernel while device 3 sleeps, and
// says what is wrong with the result; empty if it is right.
std::string late_device_finding(double seconds, RingTransport transport);

}  // namespace ringmax::attention::testing

#endif  // RINGMAX_ATTENTION_TESTING_LATE_DEVICE_H_
