#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "ringmax/base/file.h"
#include "ringmax/base/testing/temp_dir.h"
#include "ringmax/cli/testing/run.h"

namespace ringmax::cli {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

class PlanCommandTest : public ::testing::Test {
 protected:
  std::string path(const std::string& name) {
    return join_path(directory_.path(), name);
  }
  Result plan(const std::string& words, const std::string& out = "plan.svg") {
    std::vector<std::string> args = {"plan", "--out", path(out), "--json",
                                     path("plan.json")};
    std::string word;
    for (const char c : words + " ") {
      if (c != ' ') {
        word += c;
      } else if (!word.empty()) {
        args.push_back(std::exchange(word, ""));
      }
    }
    return run(args);
  }
  nlohmann::json json(const std::string& words) {
    const Result result = plan(words);
    EXPECT_EQ(result.code, 0) << result.err;
    return nlohmann::json::parse(read_file(path("plan.json")), nullptr, false);
  }

  TempDir directory_;
};

// Case 14.
TEST_F(PlanCommandTest, WritesTheWorkOfEachDevice) {
  const std::string words = "mask=causal seq=16 context_parallel=4 layout=";
  EXPECT_THAT(json(words + "contiguous")["pairs_per_device"],
              ElementsAre(10, 26, 42, 58));
  EXPECT_THAT(json(words + "zigzag")["pairs_per_device"],
              ElementsAre(34, 34, 34, 34));
  const nlohmann::json striped = json(words + "striped");
  EXPECT_THAT(striped["pairs_per_device"], ElementsAre(28, 32, 36, 40));
  EXPECT_NEAR(striped["max_over_mean"].get<double>(), 40.0 / 34, 1e-12);
  EXPECT_EQ(striped["ring_steps_sent"], 3);
  EXPECT_EQ(striped["steps"].size(), 4U);
  EXPECT_GT(striped["mask_info_bytes"], 0);
  EXPECT_GE(striped["mask_info_build_s"], 0);
}

TEST_F(PlanCommandTest, CountsWhatAWindowSends) {
  const std::string words = "mask=local:4095,0 seq=65536 context_parallel=8 ";
  const nlohmann::json contiguous = json(words);
  EXPECT_EQ(contiguous["layout"], "contiguous");
  EXPECT_EQ(contiguous["ring_steps_sent"], 1);
  ASSERT_EQ(contiguous["steps"].size(), 2U);
  const nlohmann::json& step = contiguous["steps"][1];
  EXPECT_EQ(step["shift"], 1);
  EXPECT_THAT(step["active_devices"], ElementsAre(1, 2, 3, 4, 5, 6, 7));
  EXPECT_EQ(step["pairs"].size(), 7U);
  EXPECT_EQ(json(words + "layout=zigzag")["ring_steps_sent"], 2);
  EXPECT_EQ(json(words + "layout=zigzag bidirectional=true")["ring_steps_sent"],
            2);
}

// A training's settings.
TEST_F(PlanCommandTest, ReadsTrainingSettings) {
  const nlohmann::json balanced =
      json("max_target_length=65536 ici_context_parallelism=8");
  EXPECT_EQ(balanced["mask"], "causal");
  EXPECT_EQ(balanced["layout"], "zigzag");
  EXPECT_EQ(balanced["devices"], 8);
  EXPECT_LE(balanced["max_over_mean"].get<double>(), 1.01);
  EXPECT_EQ(json("max_target_length=65536 ici_context_parallelism=8 "
                 "context_parallel_load_balance=false")["layout"],
            "contiguous");
  const nlohmann::json window = json(
      "max_target_length=65536 ici_context_parallelism=8 "
      "context_parallel_load_balance=false attention_type=local_sliding "
      "sliding_window_size=4096");
  EXPECT_EQ(window["mask"], "local:4095,0");
  EXPECT_EQ(window["ring_steps_sent"], 1);
  // Words of this command win over the file's and the model's.
  atomic_write(path("my.yml"),
               "max_target_length: 4096\nici_context_parallelism: 4\n");
  const nlohmann::json mixed =
      json(path("my.yml") + " seq=8192 mask=chunked:2048");
  EXPECT_EQ(mixed["queries"], 8192);
  EXPECT_EQ(mixed["devices"], 4);
  EXPECT_EQ(mixed["mask"], "chunked:2048");
}

TEST_F(PlanCommandTest, SaysWhereTrainingSendsNothing) {
  const auto said = [&](const std::string& words) {
    const Result result = plan("seq=64 context_parallel=4 " + words);
    EXPECT_EQ(result.code, 0) << result.err;
    return result.out.find("training on this machine sends nothing") !=
           std::string::npos;
  };
  EXPECT_TRUE(said(""));
  EXPECT_FALSE(said("ring_transport=collective"));
  EXPECT_FALSE(said("strategy=all_gather"));
  EXPECT_FALSE(said("bidirectional=true"));
  EXPECT_FALSE(said("topology=v5p-16"));
}

TEST_F(PlanCommandTest, KnowsEveryStrategy) {
  const std::string words =
      "mask=causal seq=4096 context_parallel=8 heads=16 kv_heads=4 ";
  EXPECT_EQ(json(words + "strategy=all_gather")["ring_steps_sent"], 0);
  const nlohmann::json ulysses = json(words + "strategy=ulysses");
  EXPECT_EQ(ulysses["ring_steps_sent"], 0);
  EXPECT_EQ(ulysses["pairs_per_device"].size(), 8U);
  EXPECT_EQ(ulysses["pairs_per_device"][3], 4096 * 4097 / 2);
  const nlohmann::json usp = json(words + "strategy=usp ulysses_size=2");
  EXPECT_EQ(usp["ring_steps_sent"], 3);
  EXPECT_EQ(usp["pairs_per_device"].size(), 8U);
  EXPECT_EQ(usp["steps"].size(), 4U);
  EXPECT_EQ(usp["estimates"].size(), 5U);
  // With an axis of size 1 it is what is left, as in `ringmax attention`.
  EXPECT_EQ(json(words + "strategy=usp")["strategy"], "ring");
  EXPECT_EQ(json(words +
                 "strategy=usp ulysses_size=8 bidirectional=true")["strategy"],
            "ulysses");
  EXPECT_THAT(
      (std::vector<std::string>{"ring", "all_gather", "ulysses"}),
      ::testing::Contains(
          json(words + "strategy=auto")["strategy"].get<std::string>()));
}

// Of more tokens and devices than any machine has.
TEST_F(PlanCommandTest, NeedsNoDevices) {
  const nlohmann::json million = json(
      "mask=causal seq=1048576 context_parallel=64 layout=zigzag "
      "block_q=1024 block_kv=1024 topology=v5p-128");
  EXPECT_EQ(million["ring_steps_sent"], 63);
  EXPECT_LT(million["mask_info_bytes"], 64 << 20);
  EXPECT_LT(read_file(path("plan.svg")).size(), std::size_t{2} << 20);
  // A billion on one.
  EXPECT_EQ(json("mask=causal seq=1000000000")["pairs_per_device"][0],
            std::int64_t{500'000'000} * 1'000'000'001);
}

TEST_F(PlanCommandTest, DrawsPictures) {
  ASSERT_EQ(plan("mask=causal&local:7,0|chunked:4 seq=50 context_parallel=3 "
                 "layout=zigzag bidirectional=true",
                 "plan.html")
                .code,
            0);
  const std::string html = read_file(path("plan.html"));
  EXPECT_THAT(html, AllOf(HasSubstr("<!doctype html>"), HasSubstr("</svg>"),
                          HasSubstr("causal&amp;local:7,0|chunked:4"),
                          Not(HasSubstr("causal&local")), Not(HasSubstr("nan")),
                          Not(HasSubstr("width=\"-"))));
  // A mask without a visible pair, one token, one device.
  for (const char* words :
       {"mask=causal:-100 seq=64 context_parallel=8",
        "mask=full seq=1 context_parallel=1", "mask=full seq=7 kv_seq=3000"}) {
    ASSERT_EQ(plan(words).code, 0) << words;
    EXPECT_THAT(read_file(path("plan.svg")),
                AllOf(HasSubstr("<svg xmlns"), Not(HasSubstr("var(")),
                      Not(HasSubstr("nan")), Not(HasSubstr("inf")),
                      Not(HasSubstr("width=\"-"))))
        << words;
  }
}

TEST_F(PlanCommandTest, RefusesWhatCannotBe) {
  const std::vector<std::pair<std::string, std::string>> bad = {
      {"seq=8 context_parallel=9", "8 tokens cannot be spread over 9"},
      {"seq=0", "seq"},
      {"seq=99999999999999999999", "seq"},
      {"seq=2000000000", "seq"},
      {"mask=local:-1,0", "local:-1,0"},
      {"mask=chunked:0", "chunked:0"},
      {"mask=causal:99999999999999999999", "out of range"},
      {"mask=dense", "dense"},
      {"mask=causal||full", "mask"},
      {"layout=spiral", "spiral"},
      {"strategy=carousel", "carousel"},
      {"context_parallel=4 ulysses_size=2 strategy=ring", "by usp only"},
      {"context_parallel=8 ulysses_size=3", "3"},
      {"context_parallel=2 ulysses_size=3 strategy=usp bidirectional=true "
       "block_q=8 block_kv=8",
       "3"},
      {"context_parallel=8 heads=12 kv_heads=12 strategy=ulysses", "12"},
      {"heads=4 kv_heads=3", "kv heads"},
      {"block_q=0", "block_q"},
      {"topology=v9-8", "v9-8"},
      {"mask=chunked:1|local:5,0 seq=1000000000", "chunks of 1"},
      {"mask=chunked:100 seq=1000000000", "chunks of 100"},
      {"mask=chunked:100003|local:77,5 seq=1000000000 context_parallel=1024 "
       "layout=striped",
       "100352 is the next"},
      {"block_q=1 block_kv=1 seq=1000000", "block_q=1"},
      {"bidirectional=perhaps", "bidirectional"},
      // As `ringmax attention` has it.
      {"seq=8 context_parallel=8 bidirectional=true",
       "strategy=ring: bidirectional=true halves the keys of a device, and 8 "
       "keys over 8 devices cannot"},
      {"seq=8 context_parallel=8 ulysses_size=2 heads=2 kv_heads=2 "
       "strategy=usp kv_seq=4 bidirectional=true",
       "4 tokens cannot be spread over 8"},
      {"seq=64 context_parallel=8 strategy=all_gather bidirectional=true",
       "asks for a ring"},
      {"seq=64 strategy=single bidirectional=true", "asks for a ring"},
      {"no_such_setting=1", "no_such_setting"},
      {"max_target_length=-5", "max_target_length"},
  };
  for (const auto& [words, message] : bad) {
    const Result result = plan("mask=causal " + words);
    EXPECT_EQ(result.code, 2) << words;
    EXPECT_THAT(result.err, HasSubstr(message)) << words;
    EXPECT_FALSE(path_exists(path("plan.svg"))) << words;
  }
  EXPECT_EQ(plan("seq=64", "plan.png").code, 2);
  EXPECT_EQ(plan("seq=64", "nowhere/plan.svg").code, 2);
  EXPECT_EQ(run({"plan", "seq=64"}).code, 2);
  EXPECT_EQ(run({"plan", "--help"}).code, 0);
}

}  // namespace
}  // namespace ringmax::cli
