// `ringmax bench`: what it measures without a device, and what it refuses.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "ringmax/base/file.h"
#include "ringmax/base/testing/temp_dir.h"
#include "ringmax/cli/testing/run.h"

namespace ringmax::cli {
namespace {

using ::testing::HasSubstr;

TEST(Bench, TheTextOfALargeStepIsSmallAndQuick) {
  const TempDir dir;
  const std::string file = dir.path() + "/text.json";
  const Result result =
      run({"bench", "text", "model_name=llama3.1-8b", "max_target_length=65536",
           "per_device_batch_size=0.125", "ici_context_parallelism=8",
           "context_parallel_strategy=ring", "repeats=3", "--json", file});
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(read_file(file), result.out);
  const auto json = nlohmann::json::parse(result.out);
  EXPECT_LT(json.at("text_bytes").get<std::int64_t>(), 8'000'000);
  EXPECT_LT(json.at("text_s").at("median").get<double>(), 0.5);
}

TEST(Bench, RefusesWhatItCannotMeasure) {
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"bench"},
        std::vector<std::string>{"bench", "stepp"}}) {
    const Result result = run(words);
    EXPECT_EQ(result.code, 2);
    EXPECT_EQ(result.out, "");
    EXPECT_THAT(result.err,
                HasSubstr("valid are attention, step, text and kernel"));
  }
  for (const char* repeats : {"0", "-1", "two", "2.5", ""}) {
    const Result result = run({"bench", "text", "model_name=tiny",
                               std::string("repeats=") + repeats});
    EXPECT_EQ(result.code, 2) << repeats;
    EXPECT_THAT(result.err, HasSubstr("valid is a whole number >= 1"));
  }
  const Result result =
      run({"bench", "attention", "seq=0", "kernel=reference", "maks=full"});
  EXPECT_EQ(result.code, 2);
  EXPECT_THAT(result.err, HasSubstr("maks"));
  EXPECT_THAT(result.err, HasSubstr("seq=0"));
  // A place that cannot be written is told before the work.
  const Result nowhere = run({"bench", "text", "--json", "/no/such/x.json"});
  EXPECT_EQ(nowhere.code, 2);
  EXPECT_EQ(nowhere.out, "");
  EXPECT_THAT(nowhere.err, HasSubstr("--json"));
  EXPECT_THAT(run({"bench", "attention", "kernel=reference"}).err,
              HasSubstr("not to be timed"));
}

}  // namespace
}  // namespace ringmax::cli
