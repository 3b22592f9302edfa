// Everything a user can get wrong in settings: the whole message of each, and
// that nothing is written on the way.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>

#include "ringmax/base/error.h"
#include "ringmax/base/testing/temp_dir.h"
#include "ringmax/config/config.h"

namespace ringmax::config {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

std::string message_of(const std::vector<std::string>& args) {
  try {
    load(args);
  } catch (const Error& error) {
    EXPECT_EQ(exit_code_for(error.code()), 2);
    return error.message();
  }
  return "no error";
}

TEST(BadInput, UnknownKey) {
  EXPECT_EQ(message_of({"stpes=3"}),
            "command line: unknown key 'stpes'; did you mean 'steps'?");
  EXPECT_EQ(message_of({"zzz=3"}),
            "command line: unknown key 'zzz'; `ringmax config` lists the "
            "settings");
  const TempDir dir;
  const std::string file = dir.write("a.yml", "steps: 1\n\nlearning_rte: 1\n");
  EXPECT_EQ(message_of({file}), file +
                                    ":3:1: unknown key 'learning_rte'; did you "
                                    "mean 'learning_rate'?");
}

TEST(BadInput, SettingsOfMaxTextThatAreNotThereYet) {
  EXPECT_EQ(message_of({"num_experts=8"}),
            "command line: num_experts=8: this setting is not there yet; valid "
            "is 1");
  EXPECT_EQ(message_of({"num_experts=1"}), "no error");
  EXPECT_EQ(message_of({"mesh_axes=[data]"}),
            "command line: mesh_axes=[data]: this setting is not there yet; "
            "valid is to leave it out");
  EXPECT_EQ(message_of({"enable_tensorboard=False"}), "no error");
  EXPECT_EQ(message_of({"enable_tensorboard=maybe"}),
            "command line: enable_tensorboard=maybe: this setting is not there "
            "yet; valid is true or false");
  EXPECT_EQ(message_of({"gradient_accumulation_steps=4"}),
            "command line: gradient_accumulation_steps=4: this setting is not "
            "there yet; valid is 1");
  // The value that wins is judged, and no other.
  EXPECT_EQ(message_of({"num_experts=8", "num_experts=1"}), "no error");
}

TEST(BadInput, WrongType) {
  const TempDir dir;
  const std::string file = dir.write("a.yml", "steps: many\n");
  EXPECT_EQ(message_of({file}),
            file + ":1:1: steps=many: valid is a whole number >= 1");
  EXPECT_EQ(message_of({"steps=1.5"}),
            "command line: steps=1.5: valid is a whole number >= 1");
  EXPECT_EQ(message_of({"steps="}),
            "command line: steps=\"\": valid is a whole number >= 1");
  EXPECT_EQ(message_of({"steps=99999999999999999999"}),
            "command line: steps=99999999999999999999: valid is a whole number "
            ">= 1");
  EXPECT_EQ(message_of({"packing=yes"}),
            "command line: packing=yes: valid is true or false");
  EXPECT_EQ(message_of({"learning_rate=nan"}),
            "command line: learning_rate=nan: valid is a number >= 0");
  EXPECT_EQ(message_of({"run_name=[a]"}),
            "command line: run_name=[a]: valid is text");
  EXPECT_EQ(message_of({"mlp_activations=silu"}),
            "command line: mlp_activations=silu: valid is a list such as "
            "[a, b]");
}

TEST(BadInput, TwoValuesForOneKeyInOneFile) {
  const TempDir dir;
  const std::string file = dir.write("a.yml", "steps: 1\nsteps: 2\n");
  EXPECT_EQ(message_of({file}),
            file + ":2:1: 'steps' is set twice in this file, first on line 1");
  const std::string names =
      dir.write("b.yml",
                "learning_rate_final_fraction: 0.1\n"
                "cosine_learning_rate_final_fraction: 0.2\n");
  EXPECT_EQ(message_of({names}),
            names +
                ":2:1: 'cosine_learning_rate_final_fraction' is another "
                "name of 'learning_rate_final_fraction', set already at " +
                names + ":1:1");
}

TEST(BadInput, MeshUnlikeTheDevices) {
  EXPECT_EQ(message_of({"cpu_device_count=8", "ici_context_parallelism=4",
                        "ici_fsdp_parallelism=1"}),
            "the mesh axes (ici_context_parallelism=4) multiply to 4 and "
            "cpu_device_count=8; they must agree, or one axis may be -1");
  EXPECT_EQ(message_of({"cpu_device_count=8", "ici_context_parallelism=3",
                        "max_target_length=2049"}),
            "the mesh axes (ici_context_parallelism=3) multiply to 3 and "
            "cpu_device_count=8; the product must divide the devices, "
            "ici_fsdp_parallelism takes what is left over");
  EXPECT_EQ(message_of({"ici_data_parallelism=-1"}),
            "ici_data_parallelism, ici_fsdp_parallelism are all -1; one axis "
            "can take what is left over, set the others");
  EXPECT_EQ(message_of({"ici_context_parallelism=0"}),
            "ici_context_parallelism=0: valid is a whole number >= 1, or -1 "
            "for what is left over");
  EXPECT_EQ(message_of({"ici_expert_parallelism=2"}),
            "ici_expert_parallelism=2: the expert axis is not there yet; valid "
            "is 1");
  EXPECT_EQ(
      message_of({"ici_pipeline_parallelism=2"}),
      "ici_pipeline_parallelism=2: the stage axis is not there yet; valid "
      "is 1");
  EXPECT_EQ(message_of({"dcn_context_parallelism=2"}),
            "dcn_context_parallelism=2: several slices are not there yet; "
            "valid is 1");
  EXPECT_EQ(
      message_of(
          {"ici_data_parallelism=1048576", "ici_tensor_parallelism=1048576",
           "ici_context_parallelism=1048576", "ici_fsdp_parallelism=1048576"}),
      "the mesh axes multiply to more than 2^63 devices");
  EXPECT_EQ(message_of({"ici_data_parallelism=8192"}),
            "the mesh axes (ici_data_parallelism=8192) ask for 8192 virtual "
            "CPU devices; valid is at most 4096");
  EXPECT_EQ(message_of({"hardware=tpu", "cpu_device_count=8"}),
            "cpu_device_count=8: it counts devices of the CPU plugin and "
            "this run is for tpu; valid is 0");
}

TEST(BadInput, SequenceNotDivisible) {
  EXPECT_EQ(message_of({"max_target_length=2999", "ici_context_parallelism=4",
                        "context_parallel_load_balance=false"}),
            "max_target_length=2999: ici_context_parallelism=4 must divide it; "
            "nearest valid lengths: 2996 and 3000");
  EXPECT_EQ(message_of({"max_target_length=2999", "ici_context_parallelism=4"}),
            "max_target_length=2999: ici_context_parallelism=4 in zigzag "
            "layout needs a multiple of 8 "
            "(context_parallel_load_balance=false: of 4); nearest valid "
            "lengths: 2992 and 3000");
  EXPECT_EQ(message_of({"model_name=tiny", "max_target_length=3",
                        "ici_context_parallelism=4",
                        "context_parallel_reorder_strategy=striped"}),
            "max_target_length=3: ici_context_parallelism=4 must divide it; "
            "nearest valid lengths: 4");
  EXPECT_EQ(
      message_of({"max_target_length=100", "ici_context_parallelism=2",
                  "ici_context_usp_ulysses_parallelism=3", "base_emb_dim=96",
                  "base_num_query_heads=6", "base_num_kv_heads=6"}),
      "max_target_length=100: ici_context_parallelism=2 x "
      "ici_context_usp_ulysses_parallelism=3 in zigzag layout needs a "
      "multiple of 12 (context_parallel_load_balance=false: of 6); "
      "nearest valid lengths: 96 and 108");
}

TEST(BadInput, WindowsWithoutTheirAttentionType) {
  EXPECT_EQ(message_of({"attention_type=local_sliding"}),
            "sliding_window_size=0: attention_type=local_sliding needs it; "
            "valid is a whole number >= 1");
  EXPECT_EQ(message_of({"sliding_window_size=8"}),
            "sliding_window_size=8: only attention_type=local_sliding has such "
            "a window; valid is 0, or that attention_type");
  EXPECT_EQ(message_of({"attention_type=chunk", "sliding_window_size=8"}),
            "2 problems:\n  1. sliding_window_size=8: only "
            "attention_type=local_sliding has such a window; valid is 0, or "
            "that attention_type\n  2. chunk_attn_window_size=0: "
            "attention_type=chunk needs it; valid is a whole number >= 1");
  EXPECT_EQ(message_of({"sliding_window_size=-1"}),
            "command line: sliding_window_size=-1: valid is a whole number "
            "from 0 to 2147483647");
  EXPECT_EQ(message_of({"attn_logits_soft_cap=nan"}),
            "command line: attn_logits_soft_cap=nan: valid is a number >= 0 "
            "and <= 1e+30");
}

TEST(BadInput, StrategiesThatDoNotFitTheMesh) {
  EXPECT_EQ(message_of({"ici_context_usp_ulysses_parallelism=2",
                        "context_parallel_strategy=ring"}),
            "ici_context_usp_ulysses_parallelism=2: "
            "context_parallel_strategy=ring has no such axis; valid is 1, or "
            "context_parallel_strategy=usp");
  EXPECT_EQ(
      message_of(
          {"ici_context_parallelism=4", "context_parallel_strategy=usp"}),
      "context_parallel_strategy=usp: a ring times Ulysses needs two axes, and "
      "the mesh has ici_context_parallelism=4 and "
      "ici_context_usp_ulysses_parallelism=1; valid are sizes above 1, or "
      "another strategy");
  EXPECT_EQ(
      message_of({"ici_context_parallelism=16", "ici_tensor_parallelism=2",
                  "context_parallel_strategy=ulysses",
                  "base_num_query_heads=12", "base_num_kv_heads=12"}),
      "ici_context_parallelism=16: context_parallel_strategy=ulysses deals 6 "
      "query heads to as many devices; valid are sizes that divide them: 1, 2, "
      "3, 6");
}

TEST(BadInput, HeadsAndWidthsNotDivisible) {
  EXPECT_EQ(message_of({"model_name=tiny", "ici_tensor_parallelism=8"}),
            "base_num_kv_heads=4: ici_tensor_parallelism=8 must divide it; "
            "choose a tensor axis that divides the heads");
  EXPECT_EQ(
      message_of({"base_emb_dim=36", "ici_fsdp_parallelism=8"}),
      "base_emb_dim=36: 8 shards (fsdp=8) must divide it; valid is 32, 40 "
      "...");
  EXPECT_EQ(message_of({"vocab_size=1001", "ici_tensor_parallelism=2"}),
            "vocab_size=1001: 2 shards (tensor=2) must divide it; valid is "
            "1000, 1002 ...");
  EXPECT_EQ(message_of({"base_num_query_heads=6", "base_num_kv_heads=4"}),
            "base_num_kv_heads=4: it must divide base_num_query_heads=6");
  EXPECT_EQ(message_of({"head_dim=31"}),
            "head_dim=31: valid is an even number (RoPE turns pairs)");
}

TEST(BadInput, GlobalBatchNotWhole) {
  EXPECT_EQ(
      message_of({"per_device_batch_size=0.3", "ici_context_parallelism=8"}),
      "per_device_batch_size=0.3: times 8 devices it is a global batch "
      "of 2.4 sequences, which must be a whole number that the batch "
      "shards (1) divide; nearest valid: 0.25 (2 sequences) and 0.375 (3 "
      "sequences)");
  EXPECT_EQ(message_of({"per_device_batch_size=0.125",
                        "ici_context_parallelism=4", "ici_data_parallelism=2"}),
            "per_device_batch_size=0.125: times 8 devices it is a global batch "
            "of 1 sequences, which must be a whole number that the batch "
            "shards (data=2) divide; nearest valid: 0.25 (2 sequences)");
  EXPECT_EQ(message_of({"per_device_batch_size=0"}),
            "command line: per_device_batch_size=0: valid is a number > 0 and "
            "<= 1048576");
}

TEST(BadInput, Data) {
  const TempDir dir;
  const std::string empty = dir.write("empty.txt", "");
  EXPECT_EQ(message_of({"dataset_type=text"}),
            "dataset_path is empty: dataset_type=text needs a file, a "
            "directory or a glob");
  EXPECT_EQ(message_of({"dataset_type=text", "dataset_path=/nonexistent"}),
            "dataset_path=/nonexistent: no such file; valid is a file, a "
            "directory that holds files, or a glob that matches some");
  EXPECT_EQ(message_of({"dataset_type=text", "dataset_path=" + empty}),
            "dataset_path=" + empty +
                ": the file is empty; valid is text of at least one byte");
  EXPECT_EQ(
      message_of({"dataset_type=text", "dataset_path=" + dir.path() + "/*.md"}),
      "dataset_path=" + dir.path() +
          "/*.md: no such file; valid is a file, a directory that holds "
          "files, or a glob that matches some");
  dir.write("empty2.txt", "");
  EXPECT_EQ(message_of({"dataset_type=text", "dataset_path=" + dir.path()}),
            "dataset_path=" + dir.path() +
                ": all files are empty; valid is text of at least one byte");
  dir.write("sub/full.txt", "text");
  EXPECT_EQ(message_of({"dataset_type=text", "dataset_path=" + dir.path()}),
            "no error");
  EXPECT_EQ(message_of({"dataset_type=tfds"}),
            "command line: dataset_type=tfds: tfds is not there yet; valid is "
            "synthetic, text");
}

TEST(BadInput, VocabularySmallerThanTheBytes) {
  const TempDir dir;
  const std::string path = "dataset_path=" + dir.write("a.txt", "text");
  EXPECT_EQ(message_of({"model_name=tiny", "override_model_config=true",
                        "dataset_type=text", path, "vocab_size=256"}),
            "vocab_size=256: dataset_type=text with tokenizer_type=bytes has "
            "259 tokens; valid is 259 or more");
}

TEST(BadInput, RemoteStorage) {
  EXPECT_EQ(message_of({"base_output_directory=gs://bucket/run"}),
            "command line: base_output_directory=gs://bucket/run: gs:// "
            "storage is not there; valid is a path on this machine");
  EXPECT_EQ(message_of({"dataset_path=s3://bucket/x"}),
            "command line: dataset_path=s3://bucket/x: s3:// storage is not "
            "there; valid is a path on this machine");
}

TEST(BadInput, Plugin) {
  EXPECT_EQ(message_of({"pjrt_plugin=/nonexistent.so"}),
            "pjrt_plugin=/nonexistent.so: there is no such file; valid is the "
            "path of a PJRT plugin (.so), or nothing for the one that set-up "
            "installed");
  EXPECT_EQ(message_of({"compile_xla_flags=--a=1 b=2"}),
            "compile_xla_flags=\"--a=1 b=2\": cannot read 'b=2'; valid is "
            "\"--flag=value --flag=value\"");
}

TEST(BadInput, WhatIsNotThereYetIsNamed) {
  EXPECT_EQ(message_of({"remat_policy=minimal"}),
            "command line: remat_policy=minimal: minimal is not there yet; "
            "valid is full, save_qkv_proj, none");
  EXPECT_EQ(message_of({"dtype=float16"}),
            "command line: dtype=float16: float16 is not there yet; valid is "
            "bfloat16, float32");
  EXPECT_EQ(message_of({"context_sharding=expert"}),
            "command line: context_sharding=expert: the sequence is sharded "
            "over the context axis alone; valid is context");
  EXPECT_EQ(message_of({"mlp_activations=[gelu]"}),
            "mlp_activations=[gelu]: not there yet; valid is [silu, linear]");
}

TEST(BadInput, Presets) {
  EXPECT_EQ(message_of({"model_name=llama3.1-9b"}),
            "command line: model_name=llama3.1-9b: did you mean 'llama3.1-8b'? "
            "valid is default, llama2-7b, llama3.1-8b, llama3.2-1b, "
            "llama3.2-3b, medium, small, tiny");
  EXPECT_EQ(message_of({"model_name=../../etc/passwd"}),
            "command line: model_name=../../etc/passwd: valid is default, "
            "llama2-7b, llama3.1-8b, llama3.2-1b, llama3.2-3b, medium, small, "
            "tiny");
  EXPECT_EQ(message_of({"model_name=tiny", "base_emb_dim=256"}),
            "command line: base_emb_dim=256: the preset tiny sets it to 128; "
            "valid is that, or any value with override_model_config=true");
}

TEST(BadInput, SequenceLongerThanPositionsReach) {
  EXPECT_EQ(message_of({"max_target_length=1073741824"}),
            "command line: max_target_length=1073741824: valid is a whole "
            "number from 2 to 1073741823");
}

TEST(BadInput, DataThatIsNoReadableFile) {
  EXPECT_EQ(message_of({"dataset_type=text", "dataset_path=/dev/null"}),
            "dataset_path=/dev/null: '/dev/null' is not a regular file; valid "
            "are readable files of UTF-8 text");
}

TEST(BadInput, Words) {
  EXPECT_EQ(message_of({"steps"}),
            "command line: cannot read 'steps'; valid is FILE.yml or "
            "key=value");
  EXPECT_EQ(message_of({"=3"}),
            "command line: cannot read '=3'; valid is key=value, the key a "
            "setting's name");
  EXPECT_EQ(message_of({""}),
            "command line: cannot read ''; valid is FILE.yml or key=value");
  EXPECT_EQ(message_of({"missing.yml"}),
            "config file missing.yml: no such file");
  EXPECT_EQ(message_of({"mlp_activations=[silu"}),
            "command line: mlp_activations: cannot read the value [silu; valid "
            "is plain text, \"text\" or a list [a, b]");
}

TEST(BadInput, Schedule) {
  EXPECT_EQ(message_of({"learning_rate_schedule_steps=0"}),
            "learning_rate_schedule_steps=0: valid is a whole number >= 1, or "
            "-1 for steps");
  EXPECT_EQ(message_of({"run_name=../up"}),
            "run_name=../up: valid is the name of one directory");
  EXPECT_EQ(message_of({"adam_b1=1"}),
            "command line: adam_b1=1: valid is a number >= 0 and < 1");
}

TEST(BadInput, AllProblemsAreSaidAtOnce) {
  EXPECT_EQ(message_of({"steps=0", "foo_bar=1", "max_target_length=2999",
                        "ici_context_parallelism=4"}),
            "3 problems:\n"
            "  1. command line: steps=0: valid is a whole number >= 1\n"
            "  2. command line: unknown key 'foo_bar'; `ringmax config` lists "
            "the settings\n"
            "  3. max_target_length=2999: ici_context_parallelism=4 in zigzag "
            "layout needs a multiple of 8 "
            "(context_parallel_load_balance=false: of 4); nearest valid "
            "lengths: 2992 and 3000");
}

TEST(BadInput, OneSlipIsOneProblem) {
  // Nothing is said of a mesh that cannot be known.
  EXPECT_EQ(message_of({"ici_context_parallelism=eight"}),
            "command line: ici_context_parallelism=eight: valid is a whole "
            "number from -1 to 1048576");
  EXPECT_THAT(message_of({"max_target_length=x", "ici_context_parallelism=3",
                          "base_emb_dim=96"}),
              AllOf(StartsWith("command line: max_target_length=x: valid is"),
                    ::testing::Not(HasSubstr("problems"))));
}

TEST(BadInput, ChecksAreFastAndWriteNothing) {
  const TempDir dir;
  const auto start = std::chrono::steady_clock::now();
  message_of({"base_output_directory=" + dir.path() + "/out", "steps=0"});
  load(std::vector<std::string>{"base_output_directory=" + dir.path() + "/out",
                                "model_name=llama3.1-8b"});
  EXPECT_LT(std::chrono::steady_clock::now() - start,
            std::chrono::milliseconds(100));
  EXPECT_TRUE(std::filesystem::is_empty(dir.path()));
}

}  // namespace
}  // namespace ringmax::config
