#include "ringmax/analysis/kernel_cycles.h"

#include <gtest/gtest.h>

#include "ringmax/base/error.h"
#include "ringmax/base/file.h"
#include "ringmax/base/testing/temp_dir.h"

namespace ringmax::analysis {
namespace {

std::string table(
    const std::vector<std::pair<int, std::string>>& repeated_rows) {
  std::string text =
      "== CAPACITY:\nMATMUL, MATPUSH, XLU, VALU, VPOP, EUP, VLOAD, "
      "VLOAD:FILL, VSTORE, VSTORE:SPILL, SALU\n"
      "    4     4     3     4     2     1     3     3     1     1     2\n"
      "== UTILIZATION:\n";
  for (const auto& [times, row] : repeated_rows) {
    for (int i = 0; i < times; ++i) text += row + "\n";
  }
  return text;
}

constexpr char kIdle[] = "0 0 0 0 0 0 0 0 0 0 1";
constexpr char kHalf[] = "2 0 0 0 0 0 0 1 0 0 0";
constexpr char kWhole[] = "4 1 0 0 0 0 0 0 0 1 0";

TEST(KernelCyclesTest, TheStretchWithTheMostWorkPaysTheOverheadOfAStep) {
  const KernelCycles found = parse_kernel_cycles(table(
      {{200, kIdle}, {300, kHalf}, {200, kIdle}, {600, kWhole}, {100, kIdle}}));
  EXPECT_EQ(found.cycles, 1400);
  ASSERT_EQ(found.stretches.size(), 2u);
  EXPECT_EQ(found.stretches[0].cycles, 300);
  EXPECT_DOUBLE_EQ(found.stretches[0].busy, 0.5);
  EXPECT_DOUBLE_EQ(found.stretches[1].busy, 1.0);
  EXPECT_EQ(found.overhead, 500);
  EXPECT_DOUBLE_EQ(found.utilisation(), 600.0 / 1100);
  EXPECT_EQ(found.spills, 600);
  EXPECT_EQ(found.fills, 300);
}

TEST(KernelCyclesTest, ShortGapsBelongToAStretch) {
  const KernelCycles found =
      parse_kernel_cycles(table({{200, kWhole}, {100, kIdle}, {200, kWhole}}));
  ASSERT_EQ(found.stretches.size(), 1u);
  EXPECT_EQ(found.stretches[0].cycles, 500);
  EXPECT_DOUBLE_EQ(found.stretches[0].busy, 0.8);
  EXPECT_EQ(found.overhead, 0);
}

TEST(KernelCyclesTest, WithoutMatrixWorkThereIsNoUtilisation) {
  EXPECT_EQ(parse_kernel_cycles(table({{50, kIdle}})).utilisation(), 0);
  EXPECT_THROW(parse_kernel_cycles("something else"), Error);
  EXPECT_THROW(parse_kernel_cycles(""), Error);
}

TEST(KernelCyclesTest, FilesGoByTheInstructionsName) {
  const TempDir dir;
  const std::string end = "-01-pre-delay_hlo-static-per-bundle-utilization.txt";
  atomic_write(dir.path() + "/17-splash_forward.4" + end,
               table({{200, kWhole}}));
  EXPECT_TRUE(find_kernel_cycles(dir.path(), "splash_forward.4").has_value());
  EXPECT_FALSE(find_kernel_cycles(dir.path(), "splash_forward").has_value());
  EXPECT_FALSE(find_kernel_cycles(dir.path(), "splash_forward.42").has_value());
}

}  // namespace
}  // namespace ringmax::analysis
