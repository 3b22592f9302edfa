// The outside contract of the binary: exit codes, and what goes where.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdlib>

#include "ringmax/base/error.h"
#include "ringmax/base/file.h"
#include "ringmax/base/testing/temp_dir.h"
#include "ringmax/cli/arguments.h"
#include "ringmax/cli/testing/child.h"
#include "ringmax/cli/testing/run.h"

namespace ringmax::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(Cli, HelpAndVersionAreResults) {
  for (const char* word : {"--help", "-h", "help"}) {
    const Result help = run({word});
    EXPECT_EQ(help.code, 0);
    EXPECT_THAT(help.out, HasSubstr("Usage: ringmax COMMAND"));
    EXPECT_EQ(help.err, "");
  }
  const Result version = run({"--version"});
  EXPECT_EQ(version.code, 0);
  EXPECT_EQ(version.out, "ringmax " RINGMAX_VERSION "\n");
}

TEST(Cli, EveryCommandHasHelp) {
  for (const Command& command : commands()) {
    const Result help = run({std::string(command.name), "--help"});
    EXPECT_EQ(help.code, 0) << command.name;
    EXPECT_THAT(help.out,
                HasSubstr("Usage: ringmax " + std::string(command.name)));
    EXPECT_EQ(help.err, "") << command.name;
    EXPECT_LE(command.summary.size(), 68u) << command.name;
  }
}

TEST(Cli, NoCommandAndUnknownCommands) {
  const Result none = run({});
  EXPECT_EQ(none.code, 2);
  EXPECT_EQ(none.out, "");
  EXPECT_THAT(none.err, HasSubstr("Usage"));
  const Result typo = run({"confg"});
  EXPECT_EQ(typo.code, 2);
  EXPECT_EQ(typo.out, "");
  EXPECT_EQ(typo.err,
            "ringmax: there is no command 'confg', did you mean 'config'?; "
            "`ringmax --help` lists them\n");
}

TEST(Cli, ConfigPrintsOrRefuses) {
  const Result good = run({"config", "model_name=tiny"});
  EXPECT_EQ(good.code, 0);
  EXPECT_THAT(good.out, StartsWith("Model\n"));
  EXPECT_EQ(good.err, "");
  EXPECT_THAT(run({"config", "--json", "model_name=tiny"}).out,
              StartsWith("{\n"));
  const Result bad = run({"config", "stpes=1"});
  EXPECT_EQ(bad.code, 2);
  EXPECT_EQ(bad.out, "");
  EXPECT_EQ(bad.err,
            "ringmax: command line: unknown key 'stpes'; did you mean "
            "'steps'?\n");
  for (const char* word : {"steps=1", "--json", "--reference"}) {
    EXPECT_EQ(run({"config", "--defaults", word}).err,
              "ringmax: config: --defaults and --reference print what is built "
              "in; each goes with no setting and no other option\n");
  }
  EXPECT_EQ(run({"doctor", "steps=1"}).err,
            "ringmax: command line: unknown key 'steps'; valid here: "
            "pjrt_plugin\n");
  EXPECT_EQ(run({"config", "--jsn"}).err,
            "ringmax: config: there is no option --jsn, did you mean --json?; "
            "usage: ringmax config [FILE.yml ...] key=value ... [OPTIONS]\n");
}

TEST(Cli, MessagesHoldNoControlCharacters) {
  EXPECT_EQ(run({"config", "x\x1B[31m\xFF=1"}).err,
            "ringmax: command line: cannot read 'x\\x1b[31m\\xff=1'; valid is "
            "key=value, the key a setting's name\n");
}

// `words` of a shell after the binary; returns its exit code.
int in_shell(const std::string& words) {
  const std::string line = "'" + built_file("ringmax") + "' " + words;
  const int status = std::system(line.c_str());
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(Cli, OutputThatCannotBeWrittenIsAnError) {
  const TempDir dir;
  const std::string err = dir.path() + "/err";
  // More and less than the stream's buffer.
  for (const char* words : {"config", "--version"}) {
    for (const char* into : {" >/dev/full", " >&-"}) {
      EXPECT_EQ(in_shell(words + std::string(into) + " 2>" + err), 1)
          << words << into;
      EXPECT_EQ(read_file(err), "ringmax: standard output cannot be written\n");
    }
  }
  EXPECT_EQ(in_shell("config <&- >" + err + " 2>&-"), 0);
  EXPECT_THAT(read_file(err), StartsWith("Model\n"));
}

TEST(Cli, HelpSaysWhatCanBeSet) {
  const std::vector<std::pair<std::string, std::vector<std::string>>> words = {
      {"attention", {"mask=full  ", "bidirectional=false  ", "kernel=auto  "}},
      {"bench", {"mask=full  ", "repeats=5  ", "kv_heads=0  "}},
      {"plan", {"kv_seq=", "topology="}},
      {"generate", {"run=  ", "max_new_tokens=160  ", "temperature=0.7  "}},
      {"compile", {"find_max_length=false  ", "hidden_sends=true  "}},
      {"train", {"ringmax config"}},
      {"config", {"--reference"}}};
  for (const auto& [command, settings] : words) {
    const Result result = run({command, "--help"});
    EXPECT_EQ(result.code, 0);
    for (const std::string& each : settings) {
      EXPECT_THAT(result.out, HasSubstr(each)) << command;
    }
  }
}

TEST(Cli, TrainRefusesADirectoryOfSomethingElse) {
  const TempDir dir;
  dir.write("photos/one.jpg", "x");
  const Result result = run({"train", "model_name=tiny", "run_name=photos",
                             "base_output_directory=" + dir.path()});
  EXPECT_EQ(result.code, 2);
  EXPECT_EQ(result.out, "");
  EXPECT_THAT(result.err, HasSubstr("holds something else than a run"));
}

TEST(Arguments, TakesFlagsOptionsAndSettingsInAnyOrder) {
  const std::vector<std::string> words = {"a=[1,2]", "--json", "out file",
                                          "b.yml",   "--fast", "c=-1"};
  const Arguments arguments = read_arguments(
      "x", "summary", "key=value",
      {{"--json", "help", "FILE"}, {"--fast", "help", ""}, {"--slow", "h", ""}},
      words);
  EXPECT_EQ(arguments.option("--json"), "out file");
  EXPECT_TRUE(arguments.has("--fast"));
  EXPECT_FALSE(arguments.has("--slow"));
  EXPECT_EQ(arguments.option("--dump"), std::nullopt);
  EXPECT_THAT(arguments.settings, ElementsAre("a=[1,2]", "b.yml", "c=-1"));
  const std::vector<std::string> joined = {"--json=x=y"};
  EXPECT_EQ(read_arguments("x", "", "", {{"--json", "h", "FILE"}}, joined)
                .option("--json"),
            "x=y");
}

TEST(Arguments, RefusesWhatItCannotUse) {
  const std::vector<ArgumentSpec> specs = {{"--in", "help", "FILE", true}};
  const auto refused = [&](std::vector<std::string> words,
                           std::string_view settings) {
    try {
      read_arguments("x", "summary", settings, specs, words);
    } catch (const Error& error) {
      EXPECT_EQ(exit_code_for(error.code()), 2);
      return error.message();
    }
    return std::string("no error");
  };
  EXPECT_THAT(refused({}, ""), HasSubstr("--in is required"));
  EXPECT_THAT(refused({"--in"}, ""), HasSubstr("--in"));
  EXPECT_THAT(refused({"--in", "f", "g"}, ""), HasSubstr("cannot read 'g'"));
  EXPECT_THAT(refused({"--in", "f", "--on"}, ""),
              HasSubstr("there is no option --on"));
  EXPECT_EQ(refused({"--in", "f"}, ""), "no error");
}

}  // namespace
}  // namespace ringmax::cli
