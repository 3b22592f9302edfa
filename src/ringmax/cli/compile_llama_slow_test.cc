// Llama 3.1 8B with 65,536 tokens over eight v5p chips, whole: what its program
// needs, and what its ring hides. Minutes of the compiler's time.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "ringmax/base/file.h"
#include "ringmax/base/testing/temp_dir.h"
#include "ringmax/cli/testing/child.h"
#include "ringmax/cli/testing/run.h"

namespace ringmax::cli {
namespace {

nlohmann::json report_with(const std::string& gradients) {
  const TempDir dir;
  const std::string path = dir.path() + "/report.json";
  const Result result = run(
      {"compile", "model_name=llama3.1-8b", "compile_topology=v5p-16",
       "max_target_length=65536", "per_device_batch_size=0.125",
       "ici_context_parallelism=8", "attention=flash",
       "context_parallel_strategy=ring", "context_parallel_load_balance=False",
       "packing=False", "dataset_type=synthetic", "enable_checkpointing=false",
       "grad_dtype=" + gradients, "--json", path});
  EXPECT_EQ(result.code, 0) << result.err;
  return nlohmann::json::parse(read_file(path));
}

double peak(const nlohmann::json& report) {
  return report["hbm_bytes"]["peak"].get<double>();
}

TEST(CompileLlamaSlowTest, HidesItsRingAndFitsItsMemory) {
  const nlohmann::json report = report_with("float32");
  EXPECT_LE(peak(report), 20.0e9);
  EXPECT_LE(report["build_time_s"].get<double>(), 2.0);
  // Only dK and dV of a layer on their last way home are waited for.
  int in_sight = 0;
  for (const nlohmann::json& send : report["rotations"]["list"]) {
    EXPECT_EQ(send["hops"], 1);
    if (!send["hidden_behind"].is_null()) continue;
    ++in_sight;
    EXPECT_EQ(send["times"], 32);
    EXPECT_EQ(send["bytes"], 8 * 8192 * 128 * 4);
  }
  EXPECT_LE(in_sight, 2);
}

TEST(CompileLlamaSlowTest, FitsLessWithGradientsInBfloat16) {
  EXPECT_LE(peak(report_with("bfloat16")), 18.0e9);
}

// The same search on a small model and chip.
TEST(CompileLlamaSlowTest, FindsTheLongestSequence) {
  const TempDir dir;
  const std::string path = dir.path() + "/report.json";
  Child child(
      {"compile", "model_name=tiny", "compile_topology=v5e-4",
       "ici_context_parallelism=4", "max_target_length=4096",
       "per_device_batch_size=64", "dataset_type=synthetic",
       "context_parallel_strategy=ring", "context_parallel_load_balance=false",
       "enable_checkpointing=false", "find_max_length=true", "--json", path});
  ASSERT_EQ(child.wait(), 0) << child.output();
  const nlohmann::json report = nlohmann::json::parse(read_file(path));
  const auto length = report["max_target_length"].get<std::int64_t>();
  EXPECT_GE(length, 8192);
  EXPECT_EQ(length % 4096, 0);
  EXPECT_LE(peak(report), report["hbm_bytes"]["available"].get<double>());
}

}  // namespace
}  // namespace ringmax::cli
