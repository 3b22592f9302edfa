#include "ringmax/config/known_keys.h"

#include <gtest/gtest.h>

#include <string>

#include "ringmax/config/config.h"

namespace ringmax::config {
namespace {

TEST(KnownKeys, AreSortedSoThatEachIsFound) {
  for (const KnownKey& key : known_keys()) {
    EXPECT_EQ(find_known_key(key.name), &key) << key.name;
  }
  EXPECT_EQ(find_known_key("stpes"), nullptr);
  EXPECT_EQ(find_known_key(""), nullptr);
}

TEST(KnownKeys, DoNotRepeatSettingsThatRingMaxHas) {
  Config config;
  const OptionSet set = options_of(config);
  for (const KnownKey& key : known_keys()) {
    EXPECT_EQ(set.find(key.name), nullptr) << key.name;
  }
}

TEST(KnownKeys, OtherDefaultsAreOfSettingsThatRingMaxHas) {
  Config config;
  const OptionSet set = options_of(config);
  int found = 0;
  for (const Option& option : set.options()) {
    if (find_other_default(option.name) != nullptr) ++found;
  }
  EXPECT_EQ(found, 6);
  EXPECT_NE(find_other_default("steps"), nullptr);
}

}  // namespace
}  // namespace ringmax::config
