// What takes its time: a device that sleeps longer than XLA's own patience.
#include <gtest/gtest.h>

#include "ringmax/attention/testing/late_device.h"

namespace ringmax::attention {
namespace {

TEST(NativeSlowTest, ADeviceThatSleepsNinetySecondsIsWaitedFor) {
  for (const auto transport :
       {RingTransport::kCollective, RingTransport::kMemory}) {
    EXPECT_EQ(testing::late_device_finding(90, transport), "");
  }
}

}  // namespace
}  // namespace ringmax::attention
