// The printed forms, and that files made from the descriptors are up to date.
#include "ringmax/config/print.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

namespace ringmax::config {
namespace {

// Compares with a file of the source tree. RINGMAX_UPDATE_GOLDENS=1 writes it
// anew instead.
void expect_file(const std::string& name, const std::string& text) {
  const std::string path = RINGMAX_SOURCE_DIR "/" + name;
  if (std::getenv("RINGMAX_UPDATE_GOLDENS") != nullptr) {
    std::ofstream(path, std::ios::binary) << text;
  }
  std::ifstream stream(path, std::ios::binary);
  ASSERT_TRUE(stream.is_open()) << path;
  const std::string held((std::istreambuf_iterator<char>(stream)),
                         std::istreambuf_iterator<char>());
  EXPECT_EQ(text, held) << "to renew " << name
                        << ": RINGMAX_UPDATE_GOLDENS=1 and run this test again";
}

TEST(Print, BaseFileIsWhatTheDescriptorsSay) {
  expect_file("configs/base.yml", defaults_yaml());
}

TEST(Print, ReferenceIsWhatTheDescriptorsSay) {
  expect_file("docs/config.md", reference_markdown());
}

TEST(Print, TableOfTiny) {
  const Config config = load(std::vector<std::string>{
      "model_name=tiny", "ici_context_parallelism=8",
      "per_device_batch_size=0.125", "context_parallel_strategy=ring"});
  expect_file("src/ringmax/config/golden/config_tiny.txt", to_table(config));
}

TEST(Print, JsonHasTypedValuesAndSources) {
  const Config config =
      load(std::vector<std::string>{"model_name=tiny", "run_name=a\"b\xff"});
  const auto json = nlohmann::json::parse(to_json(config));
  const auto& settings = json.at("settings");
  EXPECT_EQ(settings.size(), config.settings.size());
  EXPECT_EQ(settings.at("steps").at("value"), 10);
  EXPECT_TRUE(settings.at("steps").at("value").is_number_integer());
  EXPECT_EQ(settings.at("learning_rate").at("value"), 3e-5);
  EXPECT_EQ(settings.at("packing").at("value"), true);
  EXPECT_EQ(settings.at("mlp_activations").at("value"),
            nlohmann::json({"silu", "linear"}));
  EXPECT_EQ(settings.at("base_emb_dim").at("source"), "preset tiny");
  EXPECT_EQ(settings.at("num_devices").at("source"), "derived");
  EXPECT_TRUE(json.at("notes").is_array());
}

TEST(Print, EverySettingIsDocumented) {
  Config config;
  const OptionSet set = options_of(config);
  for (const Option& option : set.options()) {
    EXPECT_GE(option.help.size(), 5u) << option.name;
    EXPECT_NE(option.help.back(), '.') << option.name;
    EXPECT_EQ(option.help.find('|'), std::string::npos) << option.name;
    EXPECT_FALSE(option.section.empty()) << option.name;
    EXPECT_FALSE(option.valid.empty()) << option.name;
  }
}

}  // namespace
}  // namespace ringmax::config
