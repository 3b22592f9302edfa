#include "ringmax/base/numerals.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>

namespace ringmax {
namespace {

TEST(Numerals, HaveCommas) {
  EXPECT_EQ(with_commas(std::int64_t{0}), "0");
  EXPECT_EQ(with_commas(std::int64_t{999}), "999");
  EXPECT_EQ(with_commas(std::int64_t{1000}), "1,000");
  EXPECT_EQ(with_commas(std::int64_t{1048576}), "1,048,576");
  EXPECT_EQ(with_commas(std::int64_t{-999}), "-999");
  EXPECT_EQ(with_commas(std::numeric_limits<std::int64_t>::min()),
            "-9,223,372,036,854,775,808");
  EXPECT_EQ(with_commas(17716.4), "17,716");
  EXPECT_EQ(with_commas(-1234.6), "-1,235");
  EXPECT_EQ(with_commas(std::numeric_limits<double>::infinity()), "inf");
  EXPECT_EQ(with_commas(std::numeric_limits<double>::quiet_NaN()), "nan");
}

}  // namespace
}  // namespace ringmax
