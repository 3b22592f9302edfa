#include "ringmax/cli/compile_switches.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ringmax/base/error.h"

namespace ringmax::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(CompileSwitchesTest, AreTakenOutOfTheSettings) {
  std::vector<std::string> words = {
      "find_max_length=True", "steps=3",
      "kernel_utilization=0.5,splash_forward:0.25", "hidden_sends=false",
      "find_max_length=false"};
  const CompileSwitches switches = take_switches(words);
  EXPECT_THAT(words, ElementsAre("steps=3"));
  EXPECT_FALSE(switches.find_max_length);
  EXPECT_FALSE(switches.kernel_cycles);
  EXPECT_FALSE(switches.estimate.hidden_sends);
  EXPECT_EQ(switches.estimate.kernel_utilisation, 0.5);
  EXPECT_EQ(switches.estimate.given_utilisation.at("splash_forward"), 0.25);

  std::vector<std::string> none = {"find_max_lengths=1"};
  EXPECT_TRUE(take_switches(none).estimate.hidden_sends);
  EXPECT_EQ(none.size(), 1u);
}

TEST(CompileSwitchesTest, RefusesWhatIsNoValue) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{"find_max_length=maybe"},
       "find_max_length=maybe: valid is true or false"},
      {{"hidden_sends="}, "hidden_sends="},
      {{"kernel_utilization="}, "a share of the peak"},
      {{"kernel_utilization=0"}, "a share of the peak"},
      {{"kernel_utilization=75"}, "a share of the peak"},
      {{"kernel_utilization=nan"}, "a share of the peak"},
      {{"kernel_utilization=a:0.5,"}, "a share of the peak"},
      {{"kernel_utilization=:0.5"}, "a share of the peak"},
      {{"kernel_utilization=0.5x"}, "a share of the peak"},
      {{"kernel_cycles=true", "find_max_length=true"}, "one of them"},
      {{"kernel_cycles=true", "kernel_utilization=0.5"}, "one of them"},
  };
  for (const auto& [words, message] : cases) {
    std::vector<std::string> settings = words;
    try {
      take_switches(settings);
      ADD_FAILURE() << words[0];
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
      EXPECT_THAT(error.message(), HasSubstr(message));
    }
  }
}

}  // namespace
}  // namespace ringmax::cli
