// Broken and hostile config files end in problems, never in a crash.
#include <gtest/gtest.h>

#include <random>
#include <string>

#include "ringmax/base/error.h"
#include "ringmax/config/config.h"
#include "ringmax/config/yaml_file.h"

namespace ringmax::config {
namespace {

TEST(YamlFuzz, MutatedFilesNeverCrash) {
  const std::string good =
      "# comment\nsteps: 10_000\nname: \"a \\\"b\\\"\"\nlist: [silu, 'x', "
      "{a: 1}]\nblock: |\n  text\n  more\nmap:\n  inner: [1, 2]\n? k\n: v\n";
  const std::string bytes = "[]{}:,-?!&*|>'\"%@`#\n\t \\x00\xff\xc3\xef\xbb~0";
  std::mt19937 random(7);
  for (int round = 0; round < 3000; ++round) {
    std::string text = good;
    const int edits = 1 + static_cast<int>(random() % 6);
    for (int edit = 0; edit < edits; ++edit) {
      const std::size_t at = random() % text.size();
      switch (random() % 3) {
        case 0:
          text[at] = bytes[random() % bytes.size()];
          break;
        case 1:
          text.insert(at, 1, bytes[random() % bytes.size()]);
          break;
        default:
          text.erase(at, 1 + random() % 8);
          break;
      }
      if (text.empty()) text = "a";
    }
    Problems problems;
    for (const YamlEntry& entry : parse_yaml(text, "f", problems)) {
      EXPECT_GE(entry.line, 1);
      EXPECT_FALSE(entry.value.to_string().empty());
    }
  }
}

TEST(YamlFuzz, HostileWordsEndInOneMessage) {
  const std::string many(200000, '=');
  for (const std::string& word :
       {std::string("steps=") + many, many, std::string("\0=1", 3),
        std::string("steps=\xff\xfe"), std::string("run_name=\x1b[31m"),
        std::string("dataset_path=a\0b", 16), std::string("steps=[[[[1]]]]"),
        std::string("mlp_activations=") + std::string(5000, '['),
        std::string("model_name="), std::string("model_name=[tiny]"),
        std::string("model_name=\"tiny\""), std::string("--steps=5"),
        std::string("a.yml=b.yml"), std::string("/")}) {
    try {
      load(std::vector<std::string>{word});
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
      EXPECT_FALSE(error.message().empty());
    }
  }
}

}  // namespace
}  // namespace ringmax::config
