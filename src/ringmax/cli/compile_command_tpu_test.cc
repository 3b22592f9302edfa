// `ringmax compile` from the words to the files.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "ringmax/base/file.h"
#include "ringmax/base/testing/temp_dir.h"
#include "ringmax/cli/testing/child.h"
#include "ringmax/cli/testing/run.h"

namespace ringmax::cli {
namespace {

using ::testing::HasSubstr;

// One layer, four devices: libtpu needs a few seconds.
std::vector<std::string> small(std::vector<std::string> more) {
  std::vector<std::string> words = {"compile",
                                    "model_name=tiny",
                                    "override_model_config=true",
                                    "base_num_decoder_layers=3",
                                    "compile_topology=v5p-8",
                                    "ici_context_parallelism=4",
                                    "max_target_length=2048",
                                    "per_device_batch_size=0.25",
                                    "dataset_type=synthetic",
                                    "context_parallel_strategy=ring",
                                    "context_parallel_load_balance=false",
                                    "enable_checkpointing=false"};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

TEST(CompileCommandTest, ReportsAndDumps) {
  const TempDir dir;
  const std::string json_path = dir.path() + "/report.json";
  const Result result =
      run(small({"--json", json_path, "--dump", dir.path() + "/dump"}));
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("v5p:2x2x1"));
  EXPECT_THAT(result.out, HasSubstr("ring sends"));

  const nlohmann::json report = nlohmann::json::parse(read_file(json_path));
  EXPECT_EQ(report["topology"], "v5p-8");
  EXPECT_EQ(report["devices"], 4);
  EXPECT_EQ(report["strategy"], "ring");
  EXPECT_LT(report["build_time_s"], 5.0);
  EXPECT_GT(report["compile_time_s"], 0.0);
  const nlohmann::json& hbm = report["hbm_bytes"];
  EXPECT_NEAR(hbm["available"].get<double>(), 102.79e9, 0.01e9);
  EXPECT_GT(hbm["peak"], hbm["arguments"]);
  EXPECT_GE(hbm["outputs"], hbm["aliased"]);
  // Three rotations forward, backward and in the recomputed forward of the
  // three layers; all of them one link long.
  double sends = 0;
  for (const nlohmann::json& send : report["rotations"]["list"]) {
    EXPECT_EQ(send["hops"], 1);
    EXPECT_GT(send["bytes"], 0);
    sends += send["times"].get<double>();
  }
  EXPECT_GE(sends, 3.0 * 3 * 3);
  // Kernels this small hide all but the ends of the backward ring.
  int in_sight = 0;
  for (const nlohmann::json& send : report["rotations"]["list"]) {
    if (!send["hidden_behind"].is_null()) continue;
    ++in_sight;
    EXPECT_THAT(send["where"].get<std::string>(), HasSubstr("backward"));
  }
  EXPECT_LE(in_sight, 4);
  EXPECT_EQ(report["rotations"]["total"], report["rotations"]["list"].size());
  EXPECT_GT(report["executed_flops_per_step"], 0.0);
  EXPECT_GT(report["estimated_step_s"], 0.0);
  EXPECT_GT(report["estimated_mfu"], 0.0);
  EXPECT_LT(report["estimated_mfu"], 1.0);
  EXPECT_FALSE(report["assumptions"].empty());

  for (const char* name : {"program.mlir", "options.pb", "optimized.hlo.pb",
                           "optimized.hlo.txt", "memory.json"}) {
    EXPECT_GT(file_size(dir.path() + "/dump/" + name), 0) << name;
  }
  EXPECT_THAT(read_file(dir.path() + "/dump/optimized.hlo.txt"),
              HasSubstr("ring_send"));

  // The same program from its file gives the same report, but for what only
  // the compiler knows.
  const Result again = run(small(
      {"--json", json_path, "--read", dir.path() + "/dump/optimized.hlo.pb"}));
  ASSERT_EQ(again.code, 0) << again.err;
  const nlohmann::json reread = nlohmann::json::parse(read_file(json_path));
  for (const char* key : {"collectives", "rotations", "kernels",
                          "executed_flops_per_step", "estimated_step_s"}) {
    EXPECT_EQ(reread[key], report[key]) << key;
  }
}

// In a process of its own: libtpu takes the flags for its dumps once.
TEST(CompileCommandTest, KernelCyclesTellUsefulUtilisation) {
  const TempDir dir;
  const std::string json_path = dir.path() + "/report.json";
  Child child(
      small({"max_target_length=8192", "head_dim=128", "attention=flash",
             "kernel_cycles=true", "--json", json_path}));
  ASSERT_EQ(child.wait(), 0) << child.output();
  EXPECT_THAT(child.output(), HasSubstr("of its static cycles"));
  const nlohmann::json report = nlohmann::json::parse(read_file(json_path));
  ASSERT_EQ(report["kernels"].size(), 2u);
  for (const nlohmann::json& kernel : report["kernels"]) {
    SCOPED_TRACE(kernel["name"].get<std::string>());
    EXPECT_GT(kernel["useful_mxu"], 0.3);
    EXPECT_LT(kernel["useful_mxu"], 1.0);
    EXPECT_GT(kernel["overhead_cycles_per_step"], 100);
    EXPECT_LT(kernel["overhead_cycles_per_step"], 2000);
    EXPECT_GE(kernel["spills"], 0);
    // At 128 wide products 2,048 x 2,048 pairs take 16,384 cycles forward.
    EXPECT_GT(kernel["cycles"]["full_block"], 4000);
    EXPECT_GT(kernel["cycles"]["triangular_block"], 2000);
    EXPECT_LT(kernel["cycles"]["triangular_block"],
              kernel["cycles"]["full_block"]);
  }
}

TEST(CompileCommandTest, RefusesBeforeCompiling) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{"compile_topology=v9-8"}, "v5p-16"},
      {{"compile_topology="}, "v5p-16"},
      {{"pjrt_plugin=/no/such/libtpu.so"}, "there is no such file"},
      {{"compile_topology=v5p-7"}, "there is no such slice"},
      {{"ici_context_parallelism=8", "ici_fsdp_parallelism=1"},
       "there are 4 tpu devices"},
      {{"compile_topology=v5e:3x3"}, "compile_topology=v5e:3x3: the TPU"},
      {{"compile_topology_num_slices=2"}, "several slices"},
      {{"max_target_length=65536", "dtype=float32", "sa_block_q=16384",
        "sa_block_kv=16384"},
       "sa_block_q=16384, sa_block_kv=16384: a forward splash kernel"},
      {{"max_target_length=65536", "sa_block_q_dkv=16384"},
       "a backward splash kernel"},
      {{"--read", "/no/such/program.pb"}, "/no/such/program.pb"},
      {{"--read", "/etc/hostname"}, "HLO"},
      {{"find_max_length=maybe"}, "valid is true or false"},
      {{"kernel_utilization=75"}, "a share of the peak"},
      {{"--json", "/no/such/folder/report.json"}, "/no/such/folder"},
      {{"--json", "/tmp"}, "must name a file"},
      {{"--dump", "/etc/hostname/dump"}, "/etc/hostname is no folder"},
      {{"compile_xla_flags=--xla_tpu_no_such_flag=1"}, "xla_tpu_no_such_flag"},
  };
  for (const auto& [more, message] : cases) {
    const Result result = run(small(more));
    EXPECT_EQ(result.code, 2) << message;
    EXPECT_THAT(result.err, HasSubstr(message));
    EXPECT_EQ(result.out, "");
  }
}

// Holds libtpu as another process of it would, if that lets nobody else in.
class LibtpuLock {
 public:
  LibtpuLock() : file_(::open("/tmp/libtpu_lockfile", O_RDWR | O_CREAT, 0666)) {
    EXPECT_EQ(::lockf(file_, F_TLOCK, 0), 0);
  }
  ~LibtpuLock() { ::close(file_); }
  LibtpuLock(const LibtpuLock&) = delete;
  LibtpuLock& operator=(const LibtpuLock&) = delete;

 private:
  int file_;
};

TEST(CompileCommandTest, AHeldLibtpuIsNoHindranceUnlessSomebodyWantsItSo) {
  const LibtpuLock lock;
  // Refused by the compiler, so it was there.
  Child child(small({"compile_xla_flags=--xla_tpu_no_such_flag=1"}));
  EXPECT_EQ(child.wait(), 2);
  EXPECT_THAT(child.output(), HasSubstr("xla_tpu_no_such_flag"));

  ::setenv("ALLOW_MULTIPLE_LIBTPU_LOAD", "0", 1);
  Child alone(small({}));
  ::unsetenv("ALLOW_MULTIPLE_LIBTPU_LOAD");
  EXPECT_EQ(alone.wait(), 2);
  EXPECT_THAT(alone.output(), HasSubstr("another process holds libtpu"));
}

TEST(CompileCommandTest, OneKernelsCyclesAreMeasuredByThemselves) {
  Child child({"bench", "kernel", "compile_topology=v6e-4", "head_dim=128",
               "direction=backward", "seq=1024", "block_q=256", "block_kv=256",
               "block_kv_compute=256"});
  ASSERT_EQ(child.wait(), 0) << child.output();
  const nlohmann::json result = nlohmann::json::parse(child.output());
  EXPECT_EQ(result["chip"], "v6e");
  EXPECT_EQ(result["block_q"], 256);
  EXPECT_GT(result["useful_full"], 0.05);
  EXPECT_LT(result["useful_full"], 0.6);  // half of the unit's width
  EXPECT_GT(result["useful_causal"], 0.05);
  EXPECT_LT(result["useful_causal"], result["useful_full"]);
}

}  // namespace
}  // namespace ringmax::cli
