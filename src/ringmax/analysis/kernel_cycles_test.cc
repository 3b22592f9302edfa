#include "ringmax/analysis/kernel_cycles.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "ringmax/base/error.h"
#include "ringmax/base/file.h"
#include "ringmax/base/testing/temp_dir.h"

namespace ringmax::analysis {
namespace {

using attention::splash::KernelSpec;
using attention::splash::KernelWork;

std::string table(const std::vector<std::pair<int, std::string>>& rows) {
  std::string text =
      "== CAPACITY:\nMATMUL, MATPUSH, XLU, VALU, VPOP, EUP, VLOAD, "
      "VLOAD:FILL, VSTORE, VSTORE:SPILL, SALU\n"
      "    4     4     3     4     2     1     3     3     1     1     2\n"
      "== UTILIZATION:\n";
  for (const auto& [times, row] : rows) {
    for (int i = 0; i < times; ++i) text += row + "\n";
  }
  return text;
}

constexpr char kScalar[] = "0 0 0 0 0 0 0 0 0 0 1";
constexpr char kMatrix[] = "4 1 0 0 0 0 0 1 0 2 0";
constexpr char kStore[] = "0 0 0 0 0 0 0 0 1 0 0";

std::string region(int id, const char* kind, int begin, int end) {
  return fmt::format(
      "  $region{}: #{{splash.1}} parent=0 // {}\n    // region range: [{}, "
      "{})\n      %1 = sbr.rel (%p2) target bundleno = 9 (0x9), region = 2\n",
      id, kind, begin, end);
}

// A call of 100 cycles around a grid step of 1,000: 50 where a program begins,
// a loop over the window's blocks (10 cycles beside a full block of 300 in two
// passes, a partial one of 200 in four, a triangular one of 160), 80 where a
// row ends. Waiting for a window is a branch without stores.
std::string code() {
  return table({{60, kScalar},
                {100, kScalar},
                {50, kStore},
                {5, kScalar},
                {300, kMatrix},
                {200, kMatrix},
                {160, kMatrix},
                {5, kScalar},
                {80, kStore},
                {100, kScalar},
                {40, kScalar}});
}
std::string regions() {
  return "  $region0: #{splash.1}\n  // region range: [0, 1100)\n" +
         region(9, "loop_pre_header", 0, 1100) +
         region(1, "loop_body", 60, 1060) + region(2, "pred_region", 60, 100) +
         region(3, "pred_region", 100, 1000) +
         region(4, "pred_region", 160, 210) + region(5, "loop_body", 210, 880) +
         region(6, "pred_region", 215, 515) + region(7, "loop_body", 215, 515) +
         region(8, "pred_region", 515, 715) +
         region(10, "loop_body", 515, 715) +
         region(11, "pred_region", 715, 875) +
         region(12, "pred_region", 880, 960);
}

KernelSpec spec() {
  KernelSpec s;
  s.block_q = s.block_kv = 1024;
  s.window_parts = 4;
  s.keys_unrolled = 512;
  s.keys_at_once = 256;
  return s;
}

TEST(KernelCycles, PiecesAreWhatRunsTogether) {
  const KernelCycles found = parse_kernel_cycles(code(), regions(), spec());
  EXPECT_EQ(found.code, 1100);
  EXPECT_EQ(found.fills, 660);
  EXPECT_EQ(found.spills, 2 * 660);
  ASSERT_TRUE(found.pieces.has_value());
  EXPECT_EQ(found.pieces->call, 100);
  EXPECT_EQ(found.pieces->program, 50);
  EXPECT_EQ(found.pieces->row, 80);
  EXPECT_EQ(found.pieces->step, 1000 - 50 - 80 - 660 + 3 * 10);
  EXPECT_EQ(found.pieces->full, 2 * 300);
  EXPECT_EQ(found.pieces->partial, 4 * 200);
  EXPECT_EQ(found.pieces->triangular, 160);
}

TEST(KernelCycles, UtilisationIsOfVisiblePairsOverAllCycles) {
  KernelPieces pieces;
  pieces.call = 1000;
  pieces.program = 100;
  pieces.row = 10;
  pieces.step = 5;
  pieces.full = 400;
  pieces.partial = 800;
  pieces.triangular = 300;
  KernelWork work;
  work.spec = spec();
  work.calls = 1;
  work.programs = 8;
  work.counts = {16, 32, 64, 4, 2, 0};
  const double cycles = 1000 + 800 + 160 + 160 + 64 * 400 + 3200 + 600;
  EXPECT_DOUBLE_EQ(cycles_of(pieces, work), cycles);
  // Two cores of 50 FLOPs a cycle each.
  hw::Target target;
  target.chip = "v5p";
  target.peak_bf16_flops = 1e5;
  target.clock_hz = 1e3;
  work.flops = 0.5 * cycles * 50;
  EXPECT_DOUBLE_EQ(useful_utilisation(pieces, work, target), 0.5);
}

TEST(KernelCycles, CodeOfAnotherFormHasNoPieces) {
  EXPECT_FALSE(parse_kernel_cycles(code(), "", spec()).pieces.has_value());
  KernelSpec other = spec();
  other.block_q = 512;  // no triangular blocks
  EXPECT_FALSE(parse_kernel_cycles(code(), regions(), other).pieces);
  EXPECT_THROW(parse_kernel_cycles("something else", regions(), spec()), Error);
  EXPECT_THROW(parse_kernel_cycles("", regions(), spec()), Error);
}

TEST(KernelCycles, FilesGoByTheInstructionsName) {
  const TempDir dir;
  const std::string start = dir.path() + "/17-splash_forward.4";
  atomic_write(start + "-02-pre-delay_hlo-static-per-bundle-utilization.txt",
               code());
  EXPECT_FALSE(find_kernel_cycles(dir.path(), "splash_forward.4", spec()));
  atomic_write(start + "-01-post-bundle-packing-post-ra.txt", regions());
  const auto found = find_kernel_cycles(dir.path(), "splash_forward.4", spec());
  ASSERT_TRUE(found.has_value());
  EXPECT_TRUE(found->pieces.has_value());
  EXPECT_FALSE(find_kernel_cycles(dir.path(), "splash_forward", spec()));
  EXPECT_FALSE(find_kernel_cycles(dir.path(), "splash_forward.42", spec()));
}

}  // namespace
}  // namespace ringmax::analysis
