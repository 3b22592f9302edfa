#include "ringmax/cli/memory_probe.h"

#include <gtest/gtest.h>

namespace ringmax::cli {
namespace {

TEST(MemoryProbeTest, ReadsTheDevicesTotal) {
  const std::string report =
      "Memory Space: vmem (color=1)\nTotal bytes: 7 (7B)\n"
      "Memory Space: default (color=0)\nTotal bytes: 92264827680 (85.93GiB)\n"
      "  cumulative_size;       size;\n"
      "Memory Space: smem (color=2)\nTotal bytes: 200 (200B)\n";
  EXPECT_EQ(reported_bytes(report), 92264827680);
  // Half written: no number, or one that may go on.
  const std::size_t end = report.find("92264827680");
  EXPECT_EQ(reported_bytes(report.substr(0, end)), std::nullopt);
  EXPECT_EQ(reported_bytes(report.substr(0, end + 4)), std::nullopt);
  EXPECT_EQ(reported_bytes("something else"), std::nullopt);
}

}  // namespace
}  // namespace ringmax::cli
