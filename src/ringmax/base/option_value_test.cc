#include "ringmax/base/option_value.h"

#include <gtest/gtest.h>

#include <limits>

namespace ringmax {
namespace {

TEST(OptionValue, BoolsAreThoseOfYaml12) {
  EXPECT_EQ(parse_bool_text("true"), true);
  EXPECT_EQ(parse_bool_text("False"), false);
  EXPECT_EQ(parse_bool_text("TRUE"), true);
  for (const char* no : {"yes", "no", "on", "off", "y", "1", "0", "", "tRue"}) {
    EXPECT_FALSE(parse_bool_text(no)) << no;
  }
}

TEST(OptionValue, WholeNumbers) {
  EXPECT_EQ(parse_int_text("0"), 0);
  EXPECT_EQ(parse_int_text("-1"), -1);
  EXPECT_EQ(parse_int_text("+7"), 7);
  EXPECT_EQ(parse_int_text("10_000"), 10000);
  EXPECT_EQ(parse_int_text("0x10"), 16);
  EXPECT_EQ(parse_int_text("0o17"), 15);
  EXPECT_EQ(parse_int_text("007"), 7);
  EXPECT_EQ(parse_int_text("9223372036854775807"),
            std::numeric_limits<std::int64_t>::max());
  for (const char* no :
       {"", "-", "+", "+-1", "1.0", "1e3", "_1", "1_", "1__0", "0x", "0x-1",
        "9223372036854775808", " 1", "1 ", "a"}) {
    EXPECT_FALSE(parse_int_text(no)) << no;
  }
}

TEST(OptionValue, NumbersAreFinite) {
  EXPECT_EQ(parse_number_text("3.e-5"), 3e-5);
  EXPECT_EQ(parse_number_text(".5"), 0.5);
  EXPECT_EQ(parse_number_text("-1"), -1);
  EXPECT_EQ(parse_number_text("500_000"), 500000);
  EXPECT_EQ(parse_number_text("+1e3"), 1000);
  for (const char* no : {"", "nan", ".nan", "inf", ".inf", "-.inf", "1e999",
                         "1e", "0x1p3", "one", "1,5", "--1", "."}) {
    EXPECT_FALSE(parse_number_text(no)) << no;
  }
}

TEST(OptionValue, PrintsWhatReadsBack) {
  EXPECT_EQ(RawValue::scalar("8").to_string(), "8");
  EXPECT_EQ(RawValue::scalar("-1").to_string(), "-1");
  EXPECT_EQ(RawValue::scalar("", true).to_string(), "\"\"");
  EXPECT_EQ(RawValue::scalar("a: b").to_string(), "\"a: b\"");
  EXPECT_EQ(RawValue::scalar("null", true).to_string(), "\"null\"");
  EXPECT_EQ(RawValue::scalar("a\"b\n\x01").to_string(), "\"a\\\"b\\n\\x01\"");
  EXPECT_EQ(RawValue::list({RawValue::scalar("silu"), RawValue::scalar("a,b")})
                .to_string(),
            "[silu, \"a,b\"]");
}

TEST(OptionValue, SameValueLooksThroughSpelling) {
  const auto same = [](const char* a, const char* b) {
    return same_value(RawValue::scalar(a), RawValue::scalar(b));
  };
  EXPECT_TRUE(same("True", "true"));
  EXPECT_TRUE(same("1.0", "1"));
  EXPECT_TRUE(same("32_000", "32000"));
  EXPECT_TRUE(same("None", "null"));
  EXPECT_TRUE(same("1e-05", "1.e-5"));
  EXPECT_FALSE(same("true", "1"));
  EXPECT_FALSE(same("a", "b"));
  EXPECT_FALSE(same("null", "0"));
  // A quoted number is text.
  EXPECT_FALSE(
      same_value(RawValue::scalar("1.0", true), RawValue::scalar("1")));
  EXPECT_FALSE(same_value(RawValue::list({}), RawValue::scalar("")));
}

}  // namespace
}  // namespace ringmax
