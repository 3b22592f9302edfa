#include "ringmax/base/suggest.h"

#include <gtest/gtest.h>

namespace ringmax {
namespace {

TEST(Suggest, CountsEditsAndSwaps) {
  EXPECT_EQ(edit_distance("", ""), 0u);
  EXPECT_EQ(edit_distance("", "abc"), 3u);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3u);
  EXPECT_EQ(edit_distance("steps", "stpes"), 1u);
  EXPECT_EQ(edit_distance("abc", "abc"), 0u);
}

TEST(Suggest, NamesOnlyWhatCouldBeMeant) {
  const std::vector<std::string> known = {"steps", "learning_rate", "dtype"};
  EXPECT_EQ(closest_name("stpes", known), "steps");
  EXPECT_EQ(closest_name("learning_rat", known), "learning_rate");
  EXPECT_EQ(closest_name("STEPS", known), "steps");
  EXPECT_EQ(closest_name("Learning_Rat", known), "learning_rate");
  EXPECT_EQ(closest_name("foo", known), "");
  EXPECT_EQ(closest_name("", known), "");
}

}  // namespace
}  // namespace ringmax
