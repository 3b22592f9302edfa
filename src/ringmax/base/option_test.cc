#include "ringmax/base/option.h"

#include <gtest/gtest.h>

namespace ringmax {
namespace {

enum class Color { kRed, kBlue };
constexpr Named<Color> kColors[] = {{Color::kRed, "red"},
                                    {Color::kBlue, "blue"}};

struct Options {
  bool loud = false;
  std::int64_t count = 3;
  double rate = 0.5;
  std::string name;
  std::string where;
  std::vector<std::string> names = {"a", "b"};
  Color color = Color::kRed;
  DType dtype = DType::kF32;
};

class OptionTest : public testing::Test {
 protected:
  OptionTest() {
    set.section("All");
    set.flag("loud", &options.loud, "help");
    set.integer("count", &options.count, "help", {.min = 1, .max = 9});
    set.number("rate", &options.rate, "help",
               {.min = 0, .max = 1, .above_min = true});
    set.text("name", &options.name, "help");
    set.path("where", &options.where, "help");
    set.list("names", &options.names, "help");
    set.choice("color", &options.color, kColors, "help", {"green"});
    set.alias("colour");
    set.dtype("dtype", &options.dtype, {DType::kF32, DType::kBF16}, "help",
              {"float16"});
  }

  std::string assign(const char* name, const char* text, bool quoted = false) {
    return set.find(name)->set(RawValue::scalar(text, quoted));
  }

  Options options;
  OptionSet set;
};

TEST_F(OptionTest, ReadsWhatFits) {
  EXPECT_EQ(assign("loud", "True"), "");
  EXPECT_EQ(assign("count", "9"), "");
  EXPECT_EQ(assign("rate", "1"), "");
  EXPECT_EQ(assign("name", "yes"), "");
  EXPECT_EQ(assign("where", "a b/c"), "");
  EXPECT_EQ(assign("colour", "blue"), "");
  EXPECT_EQ(assign("dtype", "bfloat16"), "");
  EXPECT_TRUE(options.loud);
  EXPECT_EQ(options.count, 9);
  EXPECT_EQ(options.rate, 1);
  EXPECT_EQ(options.name, "yes");
  EXPECT_EQ(options.where, "a b/c");
  EXPECT_EQ(options.color, Color::kBlue);
  EXPECT_EQ(options.dtype, DType::kBF16);
  EXPECT_EQ(assign("name", "null"), "");
  EXPECT_EQ(options.name, "");
  EXPECT_EQ(assign("name", "null", true), "");
  EXPECT_EQ(options.name, "null");
}

TEST_F(OptionTest, RefusesWithWhatIsValidAndChangesNothing) {
  EXPECT_EQ(assign("loud", "yes"), "valid is true or false");
  EXPECT_EQ(assign("loud", "true", true), "valid is true or false");
  EXPECT_EQ(assign("count", "10"), "valid is a whole number from 1 to 9");
  EXPECT_EQ(assign("count", "3.0"), "valid is a whole number from 1 to 9");
  EXPECT_EQ(assign("rate", "0"), "valid is a number > 0 and <= 1");
  EXPECT_EQ(assign("rate", ".nan"), "valid is a number > 0 and <= 1");
  EXPECT_EQ(assign("where", "gs://bucket/x"),
            "gs:// storage is not there; valid is a path on this machine");
  EXPECT_EQ(assign("where", "s3://bucket/x"),
            "s3:// storage is not there; valid is a path on this machine");
  EXPECT_EQ(assign("names", "a"), "valid is a list such as [a, b]");
  EXPECT_EQ(assign("color", "bleu"), "did you mean 'blue'? valid is red, blue");
  EXPECT_EQ(assign("color", "green"),
            "green is not there yet; valid is red, blue");
  EXPECT_EQ(assign("dtype", "float16"),
            "float16 is not there yet; valid is float32, bfloat16");
  EXPECT_EQ(set.find("name")->set(RawValue::list({})), "valid is text");
  EXPECT_FALSE(options.loud);
  EXPECT_EQ(options.count, 3);
  EXPECT_EQ(options.rate, 0.5);
  EXPECT_EQ(options.where, "");
  EXPECT_EQ(options.color, Color::kRed);
}

// The law that printing and reading settings rests on.
TEST_F(OptionTest, SetOfGetChangesNothing) {
  for (const Option& option : set.options()) {
    const RawValue before = option.get();
    EXPECT_EQ(option.set(before), "") << option.name;
    EXPECT_EQ(option.get().to_string(), before.to_string()) << option.name;
  }
}

TEST_F(OptionTest, FindsByNameAndAlias) {
  EXPECT_EQ(set.find("color"), set.find("colour"));
  EXPECT_EQ(set.find("Color"), nullptr);
}

}  // namespace
}  // namespace ringmax
