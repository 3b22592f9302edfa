// `ringmax doctor` with the plugin that set-up installed, and without one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ringmax/cli/testing/run.h"

namespace ringmax::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(Doctor, NamesThePluginAndItsVersion) {
  const Result result = run({"doctor"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out,
              AllOf(HasSubstr("pjrt_c_api_cpu_plugin.so"),
                    HasSubstr("PJRT API         0."),
                    HasSubstr("status           ready: the plugin loads")));
}

TEST(Doctor, SaysWhatIsWrongWithAPlugin) {
  const Result missing = run({"doctor", "pjrt_plugin=/nonexistent.so"});
  EXPECT_EQ(missing.code, 2);
  EXPECT_THAT(missing.out, HasSubstr("no plugin that can be used"));
  EXPECT_THAT(missing.err, HasSubstr("/nonexistent.so"));
  const Result no_plugin = run({"doctor", "pjrt_plugin=/bin/true"});
  EXPECT_EQ(no_plugin.code, 2);
  const Result other = run({"doctor", "steps=3"});
  EXPECT_EQ(other.code, 2);
  EXPECT_EQ(other.out, "");
}

}  // namespace
}  // namespace ringmax::cli
