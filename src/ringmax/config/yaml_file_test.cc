#include "ringmax/config/yaml_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ringmax::config {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::vector<std::string> problems_of(const std::string& text) {
  Problems problems;
  parse_yaml(text, "f.yml", problems);
  return problems.messages();
}

TEST(YamlFile, ReadsKeysWithTheirPlaces) {
  Problems problems;
  const auto entries = parse_yaml(
      "# comment\nsteps: 3\n\n  \nname: 'a b'\nlist: [x, \"1\"]\nnone:\n",
      "f.yml", problems);
  EXPECT_THAT(problems.messages(), IsEmpty());
  ASSERT_EQ(entries.size(), 4u);
  EXPECT_EQ(entries[0].key, "steps");
  EXPECT_EQ(entries[0].value.text, "3");
  EXPECT_FALSE(entries[0].value.quoted);
  EXPECT_EQ(entries[0].line, 2);
  EXPECT_EQ(entries[0].column, 1);
  EXPECT_EQ(entries[1].line, 5);
  EXPECT_TRUE(entries[1].value.quoted);
  EXPECT_EQ(entries[2].value.to_string(), "[x, \"1\"]");
  EXPECT_TRUE(entries[2].value.items[1].quoted);
  EXPECT_TRUE(entries[3].value.is_null());
}

TEST(YamlFile, YesStaysText) {
  Problems problems;
  const auto entries = parse_yaml("a: yes\nb: on\n", "f.yml", problems);
  EXPECT_EQ(entries[0].value.text, "yes");
  EXPECT_EQ(entries[1].value.text, "on");
}

TEST(YamlFile, EmptyFilesSetNothing) {
  EXPECT_THAT(problems_of(""), IsEmpty());
  EXPECT_THAT(problems_of("# only a comment\n"), IsEmpty());
  EXPECT_THAT(problems_of("---\n"), IsEmpty());
}

TEST(YamlFile, TwoValuesForOneKeyNameBothLines) {
  EXPECT_THAT(problems_of("steps: 1\nlr: 2\nsteps: 3\n"),
              ElementsAre("f.yml:3:1: 'steps' is set twice in this file, first "
                          "on line 1"));
}

TEST(YamlFile, WhatIsNotAListOfKeysIsRefused) {
  EXPECT_THAT(problems_of("- a\n- b\n"),
              ElementsAre("f.yml:1:1: valid is a list of `key: value` lines"));
  EXPECT_THAT(problems_of("just text\n"),
              ElementsAre("f.yml:1:1: valid is a list of `key: value` lines"));
  EXPECT_THAT(problems_of("? [a]\n: 1\n"),
              ElementsAre(HasSubstr("a key must be plain text")));
  EXPECT_THAT(problems_of("a: 1\n---\nb: 2\n"),
              ElementsAre("f.yml: holds several YAML documents; valid is one"));
  EXPECT_THAT(problems_of("a: &x 1\nb: *x\n"),
              ElementsAre(HasSubstr("f.yml:2:4: anchors and aliases")));
  EXPECT_THAT(problems_of("a: !!int 1\n"),
              ElementsAre(HasSubstr("f.yml:1:4: the tag")));
}

TEST(YamlFile, BrokenSyntaxNamesThePlace) {
  EXPECT_THAT(problems_of("a: [1, 2\n"),
              ElementsAre(HasSubstr("this is not YAML")));
  EXPECT_THAT(problems_of("a: 1\n b: 2\n"),
              ElementsAre(HasSubstr("f.yml:2:3: this is not YAML")));
  EXPECT_THAT(problems_of("a: \"open\n"),
              ElementsAre(HasSubstr("this is not YAML")));
  // Must not overflow the stack.
  EXPECT_THAT(problems_of("a: " + std::string(100000, '[')),
              ElementsAre(HasSubstr("this is not YAML")));
}

TEST(YamlFile, MissingFilesAndDirectories) {
  Problems problems;
  read_yaml("/nonexistent/x.yml", problems);
  read_yaml("/", problems);
  EXPECT_THAT(problems.messages(),
              ElementsAre("config file /nonexistent/x.yml: no such file",
                          "config file /: is no file"));
}

TEST(InlineValue, TextIsTextToItsLastLetter) {
  Problems problems;
  RawValue value;
  for (const char* text : {"8", "a: b # c", "gs://x", "*glob*", "&", "1,2"}) {
    ASSERT_TRUE(parse_inline_value(text, "here", value, problems)) << text;
    EXPECT_EQ(value.text, text);
    EXPECT_FALSE(value.quoted);
  }
  ASSERT_TRUE(parse_inline_value("", "here", value, problems));
  EXPECT_FALSE(value.is_null());
  ASSERT_TRUE(parse_inline_value("'8'", "here", value, problems));
  EXPECT_TRUE(value.quoted);
  EXPECT_EQ(value.text, "8");
  ASSERT_TRUE(parse_inline_value("[a,[b]]", "here", value, problems));
  EXPECT_EQ(value.to_string(), "[a, [b]]");
  EXPECT_FALSE(parse_inline_value("[a", "here", value, problems));
  EXPECT_THAT(problems.messages(), ElementsAre(HasSubstr("here: cannot read")));
}

}  // namespace
}  // namespace ringmax::config
