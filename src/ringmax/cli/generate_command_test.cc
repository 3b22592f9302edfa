// What `ringmax generate` refuses before it loads a plugin.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ringmax/base/safetensors.h"
#include "ringmax/base/testing/temp_dir.h"
#include "ringmax/cli/testing/run.h"
#include "ringmax/model/hugging_face.h"

namespace ringmax::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::string refusal(std::vector<std::string> words) {
  words.insert(words.begin(), "generate");
  const Result result = run(std::move(words));
  EXPECT_EQ(result.code, 2);
  EXPECT_EQ(result.out, "");
  return result.err;
}

TEST(GenerateCommand, SaysAllThatIsMissing) {
  EXPECT_THAT(refusal({}), AllOf(HasSubstr("run= is missing"),
                                 HasSubstr("prompt= is missing")));
}

TEST(GenerateCommand, RefusesValuesThatDoNotFit) {
  const TempDir dir;
  const std::string run = "run=" + dir.path();
  EXPECT_THAT(refusal({run, "prompt=a", "temperature=-1"}),
              HasSubstr("temperature=-1"));
  EXPECT_THAT(refusal({run, "prompt=a", "max_new_tokens=0"}),
              HasSubstr("max_new_tokens=0"));
  EXPECT_THAT(refusal({run, "prompt=a", "tempreature=1"}),
              HasSubstr("did you mean 'temperature'"));
  EXPECT_THAT(refusal({"run=gs://a", "prompt=a"}), HasSubstr("run=gs://a"));
}

TEST(GenerateCommand, RefusesDirectoriesWithoutAModelOfBytes) {
  const TempDir dir;
  const std::string run = "run=" + dir.path();
  EXPECT_THAT(refusal({run, "prompt=a"}), HasSubstr("config.json"));
  model::ModelOptions options;
  options.vocab_size = 258;
  dir.write("config.json", model::hugging_face_config(options));
  EXPECT_THAT(refusal({run, "prompt=a"}), HasSubstr("model.safetensors"));
  write_safetensors(dir.path() + "/model.safetensors", {}, {});
  EXPECT_THAT(refusal({run, "prompt=a"}),
              HasSubstr("has 258 tokens, and text as bytes needs 259"));
  options.vocab_size = 259;
  dir.write("config.json", model::hugging_face_config(options));
  EXPECT_THAT(refusal({run, "prompt=a"}),
              HasSubstr("no tensor 'model.embed_tokens.weight'"));
}

}  // namespace
}  // namespace ringmax::cli
