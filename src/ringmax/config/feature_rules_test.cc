// Every row of the rules of context parallelism, tried with the words that ask
// for it under ring: computed, or refused by name, before anything is loaded.
#include "ringmax/config/feature_rules.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cctype>
#include <chrono>
#include <sstream>

#include "ringmax/base/error.h"
#include "ringmax/config/config.h"

namespace ringmax::config {

void PrintTo(const FeatureRule& rule, std::ostream* os) { *os << rule.feature; }

namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

std::vector<std::string> split(std::string_view words) {
  std::istringstream stream{std::string(words)};
  std::vector<std::string> all;
  for (std::string word; stream >> word;) all.push_back(word);
  return all;
}

// Under ring over four devices; later words win.
std::vector<std::string> under_ring(std::string_view words) {
  std::vector<std::string> args = {
      "model_name=tiny", "ici_context_parallelism=4",
      "context_parallel_strategy=ring", "per_device_batch_size=0.25",
      "override_model_config=true"};
  for (std::string& word : split(words)) args.push_back(std::move(word));
  return args;
}

class RuleTest : public ::testing::TestWithParam<FeatureRule> {};

TEST_P(RuleTest, IsComputedOrRefusedByName) {
  const FeatureRule& rule = GetParam();
  std::string message;
  Config config;
  try {
    config = load(under_ring(rule.example));
  } catch (const Error& error) {
    EXPECT_EQ(exit_code_for(error.code()), 2);
    message = error.message();
  }
  if (rule.verdict != Verdict::kRefused) {
    EXPECT_EQ(message, "");
    if (rule.verdict == Verdict::kNoted) {
      EXPECT_THAT(config.notes, Contains(HasSubstr(std::string(rule.answer))));
    }
    return;
  }
  EXPECT_THAT(message, HasSubstr(std::string(rule.setting) + "="));
  EXPECT_THAT(message, HasSubstr(std::string(rule.answer)));
  EXPECT_THAT(message, HasSubstr("valid is"));
  // One slip is one problem.
  EXPECT_THAT(message, Not(HasSubstr("problems")));
}

INSTANTIATE_TEST_SUITE_P(Rules, RuleTest, ::testing::ValuesIn([] {
                           const auto rules = feature_rules();
                           return std::vector(rules.begin(), rules.end());
                         }()),
                         [](const auto& info) {
                           std::string name;
                           for (const char c : info.param.feature) {
                             const bool plain = std::isalnum(c) != 0;
                             if (plain) name += c;
                           }
                           return name + std::to_string(info.index);
                         });

TEST(FeatureRules, NothingIsAskedForByDefault) {
  for (const FeatureRule& rule : feature_rules()) {
    for (const std::string& note : load(under_ring("")).notes) {
      EXPECT_THAT(note, Not(HasSubstr(std::string(rule.answer))));
    }
  }
}

TEST(FeatureRules, AllRefusalsAreSaidAtOnceAndQuickly) {
  std::string words;
  int refused = 0;
  for (const FeatureRule& rule : feature_rules()) {
    // Two rules look at attention_type, which has one value.
    if (rule.verdict != Verdict::kRefused || rule.feature == "MLA") continue;
    words += std::string(rule.example) + " ";
    ++refused;
  }
  const auto start = std::chrono::steady_clock::now();
  try {
    load(under_ring(words));
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_LT(std::chrono::steady_clock::now() - start,
              std::chrono::milliseconds(100));
    EXPECT_THAT(error.message(),
                HasSubstr(std::to_string(refused) + " problems"));
    for (const FeatureRule& rule : feature_rules()) {
      if (rule.verdict != Verdict::kRefused || rule.feature == "MLA") continue;
      EXPECT_THAT(error.message(), HasSubstr(std::string(rule.answer)));
    }
  }
}

TEST(FeatureRules, AValueOfTheWrongTypeIsNoRequest) {
  try {
    load(under_ring("moba=maybe"));
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.message(),
              "command line: moba=maybe: this setting is not there yet; valid "
              "is false");
  }
}

TEST(FeatureRules, TheValueThatWinsIsJudged) {
  EXPECT_NO_THROW(load(under_ring("moba=True moba=False")));
  EXPECT_NO_THROW(load(under_ring("attention=dot_product attention=flash")));
}

}  // namespace
}  // namespace ringmax::config
