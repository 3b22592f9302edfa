// What a user of `ringmax train` can get wrong, end to end: exit code 2, one
// message that names the setting, its value and what would be valid, nothing
// on standard output and nothing written. Messages of settings are checked word
// for word in config/bad_input_test.cc.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "ringmax/base/file.h"
#include "ringmax/base/testing/temp_dir.h"
#include "ringmax/cli/testing/child.h"
#include "ringmax/cli/testing/run.h"

namespace ringmax::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

class BadInputOfTrain : public ::testing::Test {
 protected:
  // Paths under the directory, sorted.
  std::vector<std::string> files() const {
    std::vector<std::string> found;
    for (const auto& entry :
         std::filesystem::recursive_directory_iterator(dir_.path())) {
      found.push_back(entry.path().string());
    }
    std::sort(found.begin(), found.end());
    return found;
  }

  // Standard error of `train` with these words on top of a command that is
  // right; checks all that holds for every refusal.
  std::string refused(std::vector<std::string> words) const {
    std::vector<std::string> command = {"train", "model_name=tiny", "steps=1",
                                        "executable_cache_dir=off",
                                        "base_output_directory=" + out()};
    command.insert(command.end(), words.begin(), words.end());
    const auto before = files();
    const Result result = run(command);
    EXPECT_EQ(result.code, 2) << result.err;
    EXPECT_EQ(result.out, "");
    EXPECT_THAT(result.err, StartsWith("ringmax: "));
    EXPECT_THAT(result.err, Not(HasSubstr("problems")));
    EXPECT_EQ(files(), before) << "something was written";
    return result.err;
  }

  std::string out() const { return dir_.path() + "/out"; }

  const TempDir dir_;
};

TEST_F(BadInputOfTrain, UnknownKey) {
  EXPECT_THAT(refused({"lerning_rate=1"}),
              AllOf(HasSubstr("unknown key 'lerning_rate'"),
                    HasSubstr("did you mean 'learning_rate'?")));
}

TEST_F(BadInputOfTrain, WrongType) {
  EXPECT_THAT(refused({"steps=many"}),
              HasSubstr("steps=many: valid is a whole number >= 1"));
}

TEST_F(BadInputOfTrain, TwoValuesForOneKeyInOneFile) {
  const std::string file = dir_.write("a.yml", "dtype: float32\ndtype: x\n");
  EXPECT_THAT(refused({file}),
              HasSubstr(file + ":2:1: 'dtype' is set twice in this file, first "
                               "on line 1"));
}

TEST_F(BadInputOfTrain, MeshUnlikeTheDevices) {
  EXPECT_THAT(refused({"cpu_device_count=8", "ici_context_parallelism=4",
                       "ici_fsdp_parallelism=1"}),
              AllOf(HasSubstr("ici_context_parallelism=4"),
                    HasSubstr("cpu_device_count=8"),
                    HasSubstr("they must agree, or one axis may be -1")));
}

TEST_F(BadInputOfTrain, SequenceNotDivisibleByContext) {
  EXPECT_THAT(refused({"max_target_length=2999", "ici_context_parallelism=4",
                       "per_device_batch_size=0.25"}),
              AllOf(HasSubstr("max_target_length=2999"),
                    HasSubstr("ici_context_parallelism=4"),
                    HasSubstr("2992 and 3000")));
}

TEST_F(BadInputOfTrain, HeadsNotDivisibleByTensor) {
  EXPECT_THAT(refused({"ici_tensor_parallelism=8"}),
              AllOf(HasSubstr("base_num_kv_heads=4"),
                    HasSubstr("ici_tensor_parallelism=8"),
                    HasSubstr("choose a tensor axis that divides")));
}

TEST_F(BadInputOfTrain, GlobalBatchNotWhole) {
  EXPECT_THAT(
      refused({"per_device_batch_size=0.3", "ici_context_parallelism=8"}),
      AllOf(HasSubstr("per_device_batch_size=0.3"), HasSubstr("2.4 sequences"),
            HasSubstr("nearest valid: 0.25")));
}

TEST_F(BadInputOfTrain, DataFileMissing) {
  const std::string path = dir_.path() + "/no.txt";
  EXPECT_THAT(refused({"dataset_type=text", "dataset_path=" + path}),
              AllOf(HasSubstr("dataset_path=" + path + ": no such file"),
                    HasSubstr("valid is")));
}

TEST_F(BadInputOfTrain, DataFileEmpty) {
  const std::string path = dir_.write("empty.txt", "");
  EXPECT_THAT(refused({"dataset_type=text", "dataset_path=" + path}),
              AllOf(HasSubstr("dataset_path=" + path + ": the file is empty"),
                    HasSubstr("valid is")));
}

TEST_F(BadInputOfTrain, DataFileNotUtf8) {
  const std::string path = dir_.write("latin1.txt", "caf\xe9 au lait");
  EXPECT_THAT(refused({"dataset_type=text", "dataset_path=" + path}),
              AllOf(HasSubstr("dataset_path"), HasSubstr(path),
                    HasSubstr("UTF-8"), HasSubstr("offset 3")));
}

TEST_F(BadInputOfTrain, PluginMissing) {
  EXPECT_THAT(refused({"pjrt_plugin=/nonexistent/plugin.so"}),
              AllOf(HasSubstr("pjrt_plugin=/nonexistent/plugin.so"),
                    HasSubstr("no such file"), HasSubstr("valid is")));
}

TEST_F(BadInputOfTrain, PluginThatIsNone) {
  const std::string path = dir_.write("plugin.so", "not a library");
  EXPECT_THAT(refused({"pjrt_plugin=" + path}),
              AllOf(HasSubstr("pjrt_plugin="), HasSubstr("plugin.so"),
                    HasSubstr("not a loadable shared library")));
}

TEST_F(BadInputOfTrain, PluginWhoseEndIsMissing) {
  const std::string whole = read_file(built_file("libringmax_old_plugin.so"));
  const std::string path =
      dir_.write("plugin.so", whole.substr(0, whole.size() / 4));
  EXPECT_THAT(refused({"pjrt_plugin=" + path}),
              AllOf(HasSubstr("pjrt_plugin="), HasSubstr("plugin.so"),
                    HasSubstr("the end of this library is missing")));
}

TEST_F(BadInputOfTrain, PluginOfAnotherMajorVersion) {
  const std::string plugin = built_file("libringmax_old_plugin.so");
  EXPECT_THAT(
      refused({"pjrt_plugin=" + plugin}),
      AllOf(HasSubstr("pjrt_plugin"), HasSubstr(plugin),
            HasSubstr("speaks PJRT API 7.3"), HasSubstr("this build speaks 0."),
            HasSubstr("plugin of API 0.x")));
}

TEST_F(BadInputOfTrain, OutputDirectoryNotWritable) {
  EXPECT_THAT(refused({"base_output_directory=/proc/nonexistent"}),
              AllOf(HasSubstr("base_output_directory"), HasSubstr("/proc"),
                    HasSubstr("cannot be written")));
}

TEST_F(BadInputOfTrain, OutputDirectoryOfSomethingElse) {
  dir_.write("out/photos/one.jpg", "x");
  EXPECT_THAT(
      refused({"run_name=photos"}),
      AllOf(HasSubstr("base_output_directory/run_name"),
            HasSubstr(out() + "/photos holds something else than a run"),
            HasSubstr("choose another run_name")));
}

TEST_F(BadInputOfTrain, MoreThanTheMachineCanHold) {
  // Terabytes, whatever machine this is.
  EXPECT_THAT(
      refused({"model_name=llama3.1-8b", "max_target_length=1048576",
               "ici_context_parallelism=8", "per_device_batch_size=16"}),
      AllOf(HasSubstr("model_name=llama3.1-8b max_target_length=1048576"),
            HasSubstr("the step needs about"), HasSubstr("GB to give"),
            HasSubstr("Train a smaller model")));
}

TEST_F(BadInputOfTrain, RemoteStorage) {
  EXPECT_THAT(refused({"base_output_directory=gs://bucket/runs"}),
              AllOf(HasSubstr("base_output_directory=gs://bucket/runs"),
                    HasSubstr("valid is a path on this machine")));
}

}  // namespace
}  // namespace ringmax::cli
