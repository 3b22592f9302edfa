#include "ringmax/cli/compile_memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ringmax::cli {
namespace {

using ::testing::HasSubstr;

// A machine on which a length costs `fixed` and `a_token` each.
std::function<std::int64_t(std::int64_t)> affine(std::int64_t fixed,
                                                 std::int64_t a_token,
                                                 std::int64_t available) {
  return [=](std::int64_t length) {
    const std::int64_t peak = fixed + a_token * length;
    if (peak > available) fail(ErrorCode::kResourceExhausted, "too long");
    return peak;
  };
}

TEST(SearchMaxLengthTest, FindsTheLimitInFewTries) {
  const std::int64_t available = 100'000'000'000;
  for (const std::int64_t first : {8192, 65536, 1 << 20, 1 << 24}) {
    std::vector<LengthTried> tried;
    const std::int64_t found =
        search_max_length(first, 8192, available,
                          affine(18'000'000'000, 52'000, available), tried);
    const double limit = (100e9 - 18e9) / 52e3;
    EXPECT_EQ(found % 8192, 0);
    EXPECT_LE(static_cast<double>(found), limit) << first;
    EXPECT_GE(static_cast<double>(found), limit / 1.02 - 8192) << first;
    EXPECT_LE(tried.size(), 7u) << first;  // from far above it halves
  }
}

// Where the program is larger than the machine, its size may still be known.
TEST(SearchMaxLengthTest, TakesTheLineFromAboveToo) {
  std::vector<LengthTried> tried;
  const auto peak_at = [](std::int64_t length) { return 18'000 + 50 * length; };
  const std::int64_t found =
      search_max_length(8000, 8, 100'000, peak_at, tried);
  EXPECT_LE(peak_at(found), 100'000);
  EXPECT_GE(peak_at(found), 98'000);
  EXPECT_LE(tried.size(), 4u);
  EXPECT_FALSE(tried[0].fits);
}

// Memory need not be even: a jump half-way.
TEST(SearchMaxLengthTest, HoldsWhereMemoryJumps) {
  std::vector<LengthTried> tried;
  const std::int64_t found = search_max_length(
      1024, 1024, 1000,
      [](std::int64_t length) {
        return length <= 40 * 1024 ? length / 1024 : 5000;
      },
      tried);
  EXPECT_EQ(found, 40 * 1024);
  for (const LengthTried& one : tried) {
    EXPECT_EQ(one.fits, one.length <= found) << one.length;
  }
}

TEST(SearchMaxLengthTest, SaysWhenNotEvenTheShortestFits) {
  std::vector<LengthTried> tried;
  EXPECT_THROW(search_max_length(65536, 8192, 10, affine(100, 1, 10), tried),
               Error);
}

TEST(SearchMaxLengthTest, OtherErrorsPass) {
  std::vector<LengthTried> tried;
  try {
    search_max_length(
        8192, 8192, 10,
        [](std::int64_t) -> std::int64_t {
          fail(ErrorCode::kPlugin, "the compiler broke");
        },
        tried);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kPlugin);
  }
}

config::Config tiny() {
  const std::vector<std::string> words = {"model_name=tiny",
                                          "compile_topology=v5p-16"};
  return config::load(words);
}

TEST(OutOfMemoryTest, HbmGivesNumbersLargestBuffersAndWhatHelps) {
  const Error error = out_of_memory(
      "PJRT_Compile: RESOURCE_EXHAUSTED: E1000: CompileTimeHbmOom:\n"
      "XLA:TPU compile permanent error. Ran out of memory in memory space "
      "hbm. Used 120.00G of 95.73G hbm. Exceeded hbm capacity by 24.27G.\n\n"
      "Total hbm usage >= 121G:\n"
      "  Largest program allocations in hbm:\n\n"
      "  1. Size: 60.00G\n     Operator: op_name=\"loss\"\n",
      tiny(), hw::tpu_target("v5p-16"));
  EXPECT_EQ(exit_code_for(error.code()), 2);
  for (const char* part :
       {"max_target_length=", "102.79 GB", "Used 120.00G of 95.73G",
        "Size: 60.00G", "op_name=\"loss\"", "remat_policy=full"}) {
    EXPECT_THAT(error.message(), HasSubstr(part));
  }
}

TEST(OutOfMemoryTest, VmemNamesTheBlocks) {
  const Error error = out_of_memory(
      "PJRT_Compile: RESOURCE_EXHAUSTED: E1001: scoped vmem limit exceeded",
      tiny(), hw::tpu_target("v5p-16"));
  EXPECT_THAT(error.message(), HasSubstr("sa_block_q=512"));
  EXPECT_THAT(error.message(), HasSubstr("E1001"));
}

}  // namespace
}  // namespace ringmax::cli
