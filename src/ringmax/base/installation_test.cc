#include "ringmax/base/installation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>

namespace ringmax {
namespace {

namespace fs = std::filesystem;

class InstallationTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "installation_XXXXXX");
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    root_ = fs::canonical(name);
  }
  void TearDown() override { fs::remove_all(root_); }

  fs::path root_;
};

TEST_F(InstallationTest, ExecutableIsThisTest) {
  EXPECT_TRUE(fs::is_regular_file(executable_path()));
  EXPECT_THAT(executable_path().filename().string(),
              testing::HasSubstr("tests"));
}

TEST_F(InstallationTest, InstalledFoldersComeFirst) {
  const fs::path configs = root_ / "share" / "ringmax" / "configs";
  const fs::path plugins = root_ / "lib" / "ringmax";
  fs::create_directories(root_ / "bin");
  fs::create_directories(configs);
  fs::create_directories(plugins);
  fs::create_directories(root_ / "configs");
  const fs::path executable = root_ / "bin" / "ringmax";
  ASSERT_FALSE(config_directories(executable).empty());
  EXPECT_EQ(config_directories(executable).front(), configs);
  ASSERT_FALSE(plugin_directories(executable).empty());
  EXPECT_EQ(plugin_directories(executable).front(), plugins);
}

TEST_F(InstallationTest, BuildTreeUsesItsOwnSource) {
  fs::create_directories(root_ / "build");
  fs::create_directories(root_ / "configs");
  fs::create_directories(root_ / ".deps" / "plugins");
  const fs::path executable = root_ / "build" / "ringmax";
  EXPECT_EQ(config_directories(executable).front(), root_ / "configs");
  EXPECT_EQ(plugin_directories(executable).front(),
            root_ / ".deps" / "plugins");
}

TEST_F(InstallationTest, AFolderIsNamedOnce) {
  for (const auto& found : {config_directories(), plugin_directories()}) {
    for (size_t i = 0; i < found.size(); ++i) {
      for (size_t j = 0; j < i; ++j) EXPECT_NE(found[i], found[j]);
    }
  }
}

TEST_F(InstallationTest, SetUpsPluginsAreFound) {
  ASSERT_FALSE(plugin_directories().empty());
  EXPECT_TRUE(
      fs::exists(plugin_directories().front() / "pjrt_c_api_cpu_plugin.so"));
}

}  // namespace
}  // namespace ringmax
