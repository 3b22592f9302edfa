// A whole run of `ringmax train`: text, a ring of 8, and all that it leaves.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "ringmax/base/file.h"
#include "ringmax/base/safetensors.h"
#include "ringmax/base/testing/temp_dir.h"
#include "ringmax/cli/testing/run.h"

namespace ringmax::cli {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::SizeIs;

constexpr int kSteps = 3;
constexpr int kLength = 64;

std::vector<nlohmann::json> metrics_of(const std::string& run) {
  std::istringstream text(read_file(run + "/metrics.jsonl"));
  std::vector<nlohmann::json> steps;
  for (std::string line; std::getline(text, line);) {
    steps.push_back(nlohmann::json::parse(line));
  }
  return steps;
}

TEST(Train, OfTextOnARingLeavesAWholeRun) {
  const TempDir dir;
  std::string text;
  for (int i = 0; i < 200; ++i) text += "Words that come again. ";
  const std::string data = dir.write("data/a.txt", text);
  const auto train = [&](const std::string& name) {
    return run({"train", "model_name=tiny", "dtype=float32",
                "steps=" + std::to_string(kSteps),
                "max_target_length=" + std::to_string(kLength),
                "per_device_batch_size=0.125", "ici_context_parallelism=8",
                "context_parallel_strategy=ring", "dataset_type=text",
                "dataset_path=" + data, "record_max_logits=true",
                "executable_cache_dir=" + dir.path() + "/cache",
                "base_output_directory=" + dir.path(), "run_name=" + name});
  };
  const Result first = train("first");
  ASSERT_EQ(first.code, 0) << first.err;
  EXPECT_THAT(first.out,
              AllOf(ContainsRegex("step 3/3  loss [0-9.]+  grad_norm [0-9.]+  "
                                  "lr [0-9.e-]+  [0-9,]+ ms  [0-9,]+ tok/s  "
                                  "[0-9,]+ tok/s/device  [0-9.e-]+ "
                                  "TFLOP/s/device  MFU n/a\n"),
                    HasSubstr("sample: The "), HasSubstr("/report.html")));
  EXPECT_THAT(
      first.err,
      AllOf(HasSubstr("attention: ring over context (8), layout zigzag"),
            HasSubstr("packed")));
  const auto steps = metrics_of(dir.path() + "/first");
  ASSERT_THAT(steps, SizeIs(kSteps));
  for (int i = 0; i < kSteps; ++i) {
    EXPECT_EQ(steps[i].at("step"), i + 1);
    EXPECT_LE(steps[i].at("total_weights").get<double>(), kLength);
    for (const char* key : {"loss", "grad_norm", "learning_rate", "step_time_s",
                            "tokens_per_s", "tflops_per_device"}) {
      EXPECT_TRUE(steps[i].at(key).is_number()) << key;
    }
    ASSERT_THAT(steps[i].at("max_logits"), SizeIs(2));  // a layer each
    EXPECT_TRUE(steps[i].at("max_logits")[1].is_number());
  }
  const SafetensorsFile weights(dir.path() + "/first/model.safetensors");
  EXPECT_TRUE(weights.contains("model.layers.1.mlp.down_proj.weight"));
  EXPECT_THAT(read_file(dir.path() + "/first/report.html"),
              AllOf(HasSubstr("<svg"), HasSubstr("context=8")));
  EXPECT_EQ(nlohmann::json::parse(read_file(dir.path() + "/first/config.json"))
                .at("model_type"),
            "llama");

  // Generating from what was written goes on as the run's own sample did.
  const auto generate = [&](const std::string& word) {
    return run({"generate", "run=" + dir.path() + "/first", "prompt=The ",
                "executable_cache_dir=" + dir.path() + "/cache", word});
  };
  const Result generated = generate("seed=0");
  ASSERT_EQ(generated.code, 0) << generated.err;
  EXPECT_THAT(first.out, HasSubstr("sample: " + generated.out));
  const Result likeliest = generate("temperature=0");
  EXPECT_EQ(likeliest.code, 0) << likeliest.err;
  EXPECT_NE(likeliest.out, generated.out);
  EXPECT_EQ(generate("temperature=0").out, likeliest.out);

  // The same command again, from the executable cache: the same bits.
  const Result second = train("second");
  ASSERT_EQ(second.code, 0) << second.err;
  EXPECT_THAT(second.err, HasSubstr("loaded from the executable cache"));
  const auto again = metrics_of(dir.path() + "/second");
  ASSERT_THAT(again, SizeIs(kSteps));
  for (int i = 0; i < kSteps; ++i) {
    for (const char* key : {"loss", "grad_norm", "total_weights"}) {
      EXPECT_EQ(again[i].at(key), steps[i].at(key)) << key;
    }
  }
  EXPECT_EQ(read_file(dir.path() + "/second/model.safetensors"),
            read_file(dir.path() + "/first/model.safetensors"));
}

TEST(Train, NamesTheSettingOfAFlagThatTheCompilerDoesNotKnow) {
  const TempDir dir;
  const std::string runs = dir.path() + "/runs";
  const Result result =
      run({"train", "model_name=tiny", "steps=1", "max_target_length=32",
           "compile_xla_flags=--no_such_flag=1", "executable_cache_dir=off",
           "base_output_directory=" + runs});
  EXPECT_EQ(result.code, 2);
  EXPECT_THAT(result.err, HasSubstr("compile_xla_flags=\"--no_such_flag=1\""));
  EXPECT_FALSE(path_exists(runs));
}

}  // namespace
}  // namespace ringmax::cli
