#include "ringmax/train/speed.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace ringmax::train {
namespace {

using model::RematPolicy;
using ::testing::HasSubstr;

constexpr std::int64_t kPlenty = std::int64_t{1} << 40;

config::Config loaded(std::vector<std::string> words) {
  words.insert(words.begin(), {"model_name=tiny", "max_target_length=64"});
  return config::load(words);
}

TEST(Speed, KeepsEverythingAndWritesLayersOutWhereMemoryAllows) {
  config::Config config = loaded({});
  const std::string said = choose_for_speed(config, kPlenty);
  EXPECT_EQ(config.model.remat_policy, RematPolicy::kNone);
  EXPECT_FALSE(config.model.scan_layers);
  EXPECT_THAT(said, HasSubstr("remat_policy=none"));
  EXPECT_THAT(said, HasSubstr("scan_layers=false"));
}

TEST(Speed, ChangesNothingWhereMemoryIsShort) {
  config::Config config = loaded({});
  EXPECT_EQ(choose_for_speed(config, 1 << 20), "");
  EXPECT_EQ(config.model.remat_policy, RematPolicy::kFull);
  EXPECT_TRUE(config.model.scan_layers);
}

TEST(Speed, WhatIsAskedForStays) {
  config::Config full = loaded({"remat_policy=full"});
  EXPECT_EQ(choose_for_speed(full, kPlenty), "");
  EXPECT_EQ(full.model.remat_policy, RematPolicy::kFull);
  EXPECT_TRUE(full.model.scan_layers);

  config::Config loop = loaded({"scan_layers=true"});
  choose_for_speed(loop, kPlenty);
  EXPECT_EQ(loop.model.remat_policy, RematPolicy::kNone);
  EXPECT_TRUE(loop.model.scan_layers);

  config::Config none = loaded({"remat_policy=none"});
  choose_for_speed(none, 1 << 20);
  EXPECT_FALSE(none.model.scan_layers);
}

TEST(Speed, ManyLayersStayALoop) {
  config::Config config =
      loaded({"override_model_config=true", "base_num_decoder_layers=17"});
  choose_for_speed(config, kPlenty);
  EXPECT_EQ(config.model.remat_policy, RematPolicy::kNone);
  EXPECT_TRUE(config.model.scan_layers);
}

TEST(Speed, SeveralDevicesNeedRoomForWholeWeights) {
  const auto ring = [] {
    return loaded({"ici_context_parallelism=8", "per_device_batch_size=0.125"});
  };
  config::Config config = ring();
  choose_for_speed(config, kPlenty);
  EXPECT_EQ(config.model.remat_policy, RematPolicy::kNone);
  EXPECT_FALSE(config.model.scan_layers);
  // 0.9M parameters: 16 bytes each, shared, and 8 whole copies of weights and
  // gradients in bfloat16; half of the memory is to stay free.
  constexpr std::int64_t kOneDevice = 2 * 32'000'000;
  config::Config single = loaded({});
  choose_for_speed(single, kOneDevice);
  EXPECT_FALSE(single.model.scan_layers);
  config = ring();
  EXPECT_EQ(choose_for_speed(config, kOneDevice), "");
  EXPECT_TRUE(config.model.scan_layers);
}

TEST(Speed, OnlyOnTheCpu) {
  config::Config config = loaded({});
  config.platform = "tpu";
  EXPECT_EQ(choose_for_speed(config, kPlenty), "");
  EXPECT_EQ(config.model.remat_policy, RematPolicy::kFull);
}

}  // namespace
}  // namespace ringmax::train
