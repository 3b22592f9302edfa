#include "ringmax/base/utf8.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "ringmax/base/philox.h"

namespace ringmax {
namespace {

// The encoding by its definition, for every scalar value.
std::string encode(std::uint32_t c) {
  const auto byte = [](std::uint32_t x) { return static_cast<char>(x); };
  if (c < 0x80) return {byte(c)};
  if (c < 0x800) return {byte(0xC0 | c >> 6), byte(0x80 | (c & 0x3F))};
  if (c < 0x10000) {
    return {byte(0xE0 | c >> 12), byte(0x80 | (c >> 6 & 0x3F)),
            byte(0x80 | (c & 0x3F))};
  }
  return {byte(0xF0 | c >> 18), byte(0x80 | (c >> 12 & 0x3F)),
          byte(0x80 | (c >> 6 & 0x3F)), byte(0x80 | (c & 0x3F))};
}

TEST(Utf8, EveryScalarValueIsValidAndNoSurrogateIs) {
  for (std::uint32_t c = 0; c < 0x110000; ++c) {
    const bool surrogate = c >= 0xD800 && c < 0xE000;
    ASSERT_EQ(find_invalid_utf8(encode(c)).has_value(), surrogate) << c;
  }
  EXPECT_EQ(find_invalid_utf8(encode(0x110000)), 0u);
}

TEST(Utf8, ExactlyTheScalarValuesAmongThreeByteStrings) {
  // Every string of a lead byte and two more: valid ones must be exactly the
  // three-byte characters, shorter ones with ASCII included.
  int valid = 0;
  for (int a = 0x80; a < 0x100; ++a) {
    for (int b = 0; b < 0x100; ++b) {
      for (int c = 0; c < 0x100; ++c) {
        const char text[] = {static_cast<char>(a), static_cast<char>(b),
                             static_cast<char>(c)};
        valid += !find_invalid_utf8({text, 3}).has_value();
      }
    }
  }
  // Two-byte character + ASCII, or a three-byte character.
  EXPECT_EQ(valid, (0x800 - 0x80) * 128 + (0x10000 - 0x800 - 0x800));
}

TEST(Utf8, OffsetOfTheFirstFaultAnywhere) {
  for (std::size_t length : {1u, 31u, 32u, 33u, 64u, 65u, 200u}) {
    for (std::size_t at = 0; at < length; ++at) {
      std::string text(length, 'a');
      text[at] = '\xFF';
      ASSERT_EQ(find_invalid_utf8(text), at) << length;
    }
  }
}

TEST(Utf8, TellsCutOffFromInvalid) {
  const std::string text = "ab\xF0\x9F\x98\x80";
  EXPECT_EQ(find_invalid_utf8(text), std::nullopt);
  for (std::size_t keep = 3; keep < 6; ++keep) {
    const Utf8Check check = check_utf8(std::string_view(text).substr(0, keep));
    EXPECT_EQ(check.valid_bytes, 2u);
    EXPECT_TRUE(check.cut_off);
  }
  EXPECT_FALSE(check_utf8("ab\xF0z").cut_off);
  EXPECT_FALSE(check_utf8("ab\xF5").cut_off);
  EXPECT_FALSE(check_utf8("\xE0\x80").cut_off);  // overlong already
}

TEST(Utf8, RandomSplitsAgreeWithTheWhole) {
  std::string text;
  for (int i = 0; i < 2000; ++i) {
    std::uint32_t c =
        static_cast<std::uint32_t>(random_below(1, 2, i,
                                                i % 3 == 0   ? 0x110000
                                                : i % 3 == 1 ? 0x800
                                                             : 0x80));
    if (c >= 0xD800 && c < 0xE000) c = 'x';
    text += encode(c);
  }
  ASSERT_EQ(find_invalid_utf8(text), std::nullopt);
  for (std::size_t cut = 0; cut <= text.size(); ++cut) {
    const Utf8Check check = check_utf8(std::string_view(text).substr(0, cut));
    ASSERT_LE(check.valid_bytes, cut);
    ASSERT_GT(check.valid_bytes + 4, cut);
    ASSERT_EQ(check.cut_off, check.valid_bytes < cut);
    ASSERT_EQ(
        find_invalid_utf8(std::string_view(text).substr(check.valid_bytes)),
        std::nullopt);
  }
}

TEST(Utf8, ReplacesWhatIsInvalid) {
  EXPECT_EQ(replace_invalid_utf8("a\xFF\xC3\xA9\xC3"),
            "a\xEF\xBF\xBD\xC3\xA9\xEF\xBF\xBD");
  EXPECT_EQ(replace_invalid_utf8(""), "");
}

TEST(Utf8, PrintableTextHoldsNoControls) {
  constexpr char kRaw[] =
      "a\x1B[31m\x7F\0\r\n\t\xC3\xA9\xC2\x9B\xC2\xA0\xE2\x82";
  const std::string_view raw(kRaw, sizeof(kRaw) - 1);
  EXPECT_EQ(printable(raw, Unprintable::kEscape),
            "a\\x1b[31m\\x7f\\x00\\x0d\n\t\xC3\xA9\\xc2\\x9b\xC2\xA0\\xe2"
            "\\x82");
  const std::string mark = "\xEF\xBF\xBD";
  EXPECT_EQ(printable(raw, Unprintable::kReplace),
            "a" + mark + "[31m" + mark + mark + mark + "\n\t\xC3\xA9" + mark +
                "\xC2\xA0" + mark + mark);
  EXPECT_EQ(printable("", Unprintable::kEscape), "");
}

}  // namespace
}  // namespace ringmax
