// How settings are layered: what wins, and where it came from.
#include "ringmax/config/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "ringmax/base/error.h"
#include "ringmax/base/testing/temp_dir.h"
#include "ringmax/config/install.h"

namespace ringmax::config {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Config load_words(std::vector<std::string> args) { return load(args); }

std::string where(const Config& config, const char* name) {
  return config.setting(name).source.where;
}

TEST(Config, DefaultsAreBuiltInAndSaySo) {
  const Config config = load_words({});
  EXPECT_EQ(config.train.steps, 10);
  EXPECT_EQ(config.train.learning_rate, 3e-5);
  EXPECT_EQ(config.model.dtype, DType::kBF16);
  EXPECT_EQ(config.device_count, 1);
  EXPECT_EQ(config.global_batch, 1);
  EXPECT_EQ(config.tokens_per_step, 2048);
  EXPECT_EQ(config.run_directory, "runs/default");
  for (const Setting& each : config.settings) {
    EXPECT_EQ(each.source.where,
              each.source.kind == SourceKind::kDerived ? "derived" : "default")
        << each.name;
  }
}

TEST(Config, LaterLayersWinAndAreNamed) {
  const TempDir dir;
  const std::string one =
      dir.write("one.yml", "model_name: tiny\nsteps: 20\nadam_b1: 0.8\n");
  const std::string two = dir.write("two.yml", "# x\n\n steps: 30\n");
  const Config config = load_words({one, two, "steps=40", "dtype=float32"});
  EXPECT_EQ(config.train.steps, 40);
  EXPECT_EQ(where(config, "steps"), "command line");
  EXPECT_EQ(config.train.adam_b1, 0.8);
  EXPECT_EQ(where(config, "adam_b1"), one + ":3:1");
  EXPECT_EQ(config.model.base_emb_dim, 128);
  EXPECT_EQ(where(config, "base_emb_dim"), "preset tiny");
  EXPECT_EQ(where(config, "adam_b2"), "default");
  EXPECT_EQ(load_words({one, two}).train.steps, 30);
  EXPECT_EQ(where(load_words({one, two}), "steps"), two + ":3:2");
  // Words win over files wherever they stand; the last word wins.
  EXPECT_EQ(load_words({"steps=40", one, "steps=41", two}).train.steps, 41);
}

TEST(Config, AliasesAreTheSameSetting) {
  const Config config = load_words({"cosine_learning_rate_final_fraction=0.5"});
  EXPECT_EQ(config.train.learning_rate_final_fraction, 0.5);
  EXPECT_EQ(where(config, "learning_rate_final_fraction"), "command line");
}

TEST(Config, EveryPresetLoads) {
  const std::vector<std::string> names = preset_names(config_directory());
  EXPECT_THAT(names, ElementsAre("llama2-7b", "llama3.1-8b", "llama3.2-1b",
                                 "llama3.2-3b", "medium", "small", "tiny"));
  for (const std::string& name : names) {
    const Config config = load_words({"model_name=" + name});
    EXPECT_EQ(config.model.model_name, name);
    EXPECT_EQ(where(config, "vocab_size"), "preset " + name);
  }
  const Config large = load_words({"model_name=llama3.1-8b-Instruct"});
  EXPECT_EQ(large.model.base_emb_dim, 4096);
  EXPECT_TRUE(large.model.rope_scaling());
  EXPECT_EQ(large.model.rope_llama3_factor, 8);
  const Config tied = load_words({"model_name=llama3.2-1b"});
  EXPECT_TRUE(tied.model.logits_via_embedding);
  EXPECT_EQ(tied.model.rope_llama3_factor, 32);
}

// Parameters of a Llama with these sizes.
std::int64_t parameters(const model::ModelOptions& m) {
  const std::int64_t heads = m.base_num_query_heads * m.head_dim;
  const std::int64_t kv_heads = m.base_num_kv_heads * m.head_dim;
  const std::int64_t layer = m.base_emb_dim * (2 * heads + 2 * kv_heads) +
                             3 * m.base_emb_dim * m.base_mlp_dim +
                             2 * m.base_emb_dim;
  return m.base_num_decoder_layers * layer + m.base_emb_dim +
         m.vocab_size * m.base_emb_dim * (m.logits_via_embedding ? 1 : 2);
}

TEST(Config, PresetsHaveThePublishedParameterCounts) {
  const auto count = [](const char* name) {
    return parameters(load_words({std::string("model_name=") + name}).model);
  };
  EXPECT_EQ(count("llama2-7b"), 6738415616);
  EXPECT_EQ(count("llama3.1-8b"), 8030261248);
  EXPECT_EQ(count("llama3.2-1b"), 1235814400);
  EXPECT_EQ(count("llama3.2-3b"), 3212749824);
  EXPECT_NEAR(static_cast<double>(count("tiny")), 0.9e6, 0.1e6);
  EXPECT_NEAR(static_cast<double>(count("small")), 4.5e6, 0.1e6);
  EXPECT_NEAR(static_cast<double>(count("medium")), 29.4e6, 0.5e6);
}

TEST(Config, PresetSizesChangeOnlyWhenAskedTo) {
  EXPECT_THROW(load_words({"model_name=tiny", "base_emb_dim=256"}), Error);
  const Config config = load_words(
      {"model_name=tiny", "base_emb_dim=256", "override_model_config=True"});
  EXPECT_EQ(config.model.base_emb_dim, 256);
  EXPECT_EQ(where(config, "base_emb_dim"), "command line");
  EXPECT_EQ(config.model.base_mlp_dim, 512);
  // The preset's own value is no change.
  EXPECT_EQ(
      load_words({"model_name=tiny", "base_emb_dim=1_28"}).model.base_emb_dim,
      128);
}

// A command of MaxText's users, word for word.
const std::vector<std::string> kMaxTextCommand = {
    "src/maxtext/configs/base.yml",
    "base_output_directory=OUT",
    "run_name=ring_cp_demo",
    "model_name=llama3.1-8b",
    "steps=10",
    "enable_checkpointing=false",
    "dataset_type=synthetic",
    "max_target_length=65536",
    "per_device_batch_size=0.125",
    "ici_context_parallelism=8",
    "attention=flash",
    "use_tokamax_splash=True",
    "context_parallel_strategy=ring",
    "context_parallel_load_balance=False",
    "packing=False"};

TEST(Config, UnderstandsTheMaxTextCommand) {
  const Config config = load(kMaxTextCommand);
  EXPECT_EQ(config.device_count, 8);
  EXPECT_EQ(config.device_mesh.to_string(), "context=8");
  EXPECT_EQ(config.device_mesh.axes().size(), mesh::kAxes.size());
  EXPECT_EQ(config.global_batch, 1);
  EXPECT_EQ(config.tokens_per_step, 65536);
  EXPECT_EQ(config.run_directory, "OUT/ring_cp_demo");
  EXPECT_EQ(config.attention.context_parallel_strategy,
            attention::ContextStrategy::kRing);
  EXPECT_FALSE(config.train.enable_checkpointing);
  EXPECT_THAT(config.notes,
              ElementsAre("src/maxtext/configs/base.yml does not exist here; "
                          "RingMax's own base.yml is used",
                          "use_tokamax_splash=True: RingMax's own splash "
                          "attention is used"));
}

TEST(Config, UnderstandsTheMaxTextCommandMadeSmall) {
  std::vector<std::string> args = kMaxTextCommand;
  for (const char* word :
       {"override_model_config=True", "base_num_decoder_layers=2",
        "base_emb_dim=256", "base_mlp_dim=1024", "base_num_query_heads=8",
        "base_num_kv_heads=2", "head_dim=32", "vocab_size=4096",
        "max_target_length=8192"}) {
    args.emplace_back(word);
  }
  const Config config = load(args);
  EXPECT_EQ(config.model.base_num_decoder_layers, 2);
  EXPECT_EQ(config.model.rope_type, model::RopeType::kLlama31);
  EXPECT_EQ(config.tokens_per_step, 8192);
}

// Case 16: a ring takes more devices for the same tokens.
TEST(Config, TokensOfAStepAreThoseOfTheBatch) {
  for (const auto& [ring, share] :
       {std::pair{"1", "2"}, std::pair{"2", "1"}, std::pair{"4", "0.5"},
        std::pair{"8", "0.25"}}) {
    const Config config = load(std::vector<std::string>{
        "model_name=tiny", "max_target_length=4096",
        std::string("ici_context_parallelism=") + ring,
        std::string("per_device_batch_size=") + share});
    EXPECT_EQ(config.global_batch, 2) << ring;
    EXPECT_EQ(config.tokens_per_step, 2 * 4096) << ring;
  }
}

TEST(Config, ABaseFileOfMaxTextStandsBelowThePreset) {
  const TempDir dir;
  const std::string base =
      dir.write("configs/base.yml",
                "base_emb_dim: 2048\nsteps: 150_001\ndataset_type: tfds\n"
                "tokenizer_type: sentencepiece\nadam_b1: 0.7\nnum_experts: 1\n"
                "mesh_axes: ['data', 'fsdp']\nquantization: \"\"\n");
  const Config config = load_words({base, "model_name=tiny"});
  EXPECT_EQ(config.model.base_emb_dim, 128);
  EXPECT_EQ(config.train.steps, 10);
  EXPECT_EQ(config.train.adam_b1, 0.7);
  EXPECT_THAT(config.notes,
              Contains(base + " has MaxText's defaults of steps, dataset_type, "
                              "tokenizer_type; RingMax's are used"));
  EXPECT_THAT(config.notes, Contains(HasSubstr("mesh_axes have no effect")));
}

TEST(Config, FilesBuildOnOthersAsInMaxText) {
  const TempDir dir;
  dir.write("sub/middle.yml",
            "base_config: base.yml\nsteps: 5\nadam_b1: 0.5\n");
  const std::string top =
      dir.write("top.yml", "base_config: sub/middle.yml\nsteps: 6\n");
  const Config config = load_words({top});
  EXPECT_EQ(config.train.steps, 6);
  EXPECT_EQ(config.train.adam_b1, 0.5);
  const std::string loop = dir.write("loop.yml", "base_config: loop.yml\n");
  EXPECT_THROW(load_words({loop}), Error);
}

TEST(Config, DevicesFollowTheMesh) {
  const Config all =
      load_words({"cpu_device_count=8", "ici_context_parallelism=2"});
  EXPECT_EQ(all.device_mesh.to_string(), "fsdp=4, context=2");
  EXPECT_EQ(all.device_count, 8);
  EXPECT_EQ(all.global_batch, 8);
  const Config cube =
      load_words({"ici_data_parallelism=2", "ici_context_parallelism=2",
                  "ici_tensor_parallelism=2", "per_device_batch_size=0.25"});
  EXPECT_EQ(cube.device_mesh.to_string(), "data=2, context=2, tensor=2");
  EXPECT_EQ(cube.global_batch, 2);
  // Elsewhere the plugin knows.
  const std::vector<std::string> args = {"hardware=tpu",
                                         "ici_context_parallelism=2"};
  const Config tpu = load(args, {.platform = "tpu", .device_count = 4});
  EXPECT_EQ(tpu.device_mesh.to_string(), "fsdp=2, context=2");
}

TEST(Config, StrategyAndLayoutAreDecided) {
  using attention::ContextStrategy;
  using attention::LayoutKind;
  const auto plan = [](std::vector<std::string> words) {
    words.push_back("per_device_batch_size=0.25");
    words.push_back("model_name=tiny");
    words.push_back("cpu_device_count=4");
    return load_words(words).plan;
  };
  const std::string ring = "ici_context_parallelism=4";
  const auto layout = [&](std::vector<std::string> words) {
    words.push_back(ring);
    words.push_back("context_parallel_strategy=ring");
    return plan(words).layout;
  };
  EXPECT_EQ(layout({}), LayoutKind::kZigzag);
  EXPECT_EQ(layout({"context_parallel_reorder_strategy=dual_chunk_swap"}),
            LayoutKind::kZigzag);
  EXPECT_EQ(layout({"context_parallel_reorder_strategy=striped"}),
            LayoutKind::kStriped);
  EXPECT_EQ(layout({"context_parallel_load_balance=false"}),
            LayoutKind::kContiguous);
  EXPECT_EQ(plan({ring, "context_parallel_strategy=ulysses"}).layout,
            LayoutKind::kContiguous);
  EXPECT_NE(plan({ring}).strategy, ContextStrategy::kAuto);
  EXPECT_EQ(plan({"ici_context_parallelism=2",
                  "ici_context_usp_ulysses_parallelism=2"})
                .strategy,
            ContextStrategy::kUsp);
  EXPECT_FALSE(plan({ring}).summary.empty());
}

TEST(Config, FractionsOfABatchMeetDecimalFractions) {
  const Config config = load_words(
      {"ici_context_parallelism=10", "per_device_batch_size=0.1",
       "max_target_length=1000", "base_emb_dim=160", "vocab_size=1000"});
  EXPECT_EQ(config.global_batch, 1);
}

TEST(Config, NotesSayWhatIsUsedInstead) {
  EXPECT_THAT(load_words({"ici_context_parallelism=2"}).notes, IsEmpty());
  EXPECT_THAT(load_words({"enable_checkpointing=true"}).notes,
              ElementsAre("enable_checkpointing=true: whole checkpoints are "
                          "not there yet; parameters are written at the end"));
  std::vector<std::string> ring = {"ici_context_parallelism=2",
                                   "ring_scan_unroll=1",
                                   "context_parallel_strategy=ring"};
  EXPECT_THAT(
      load_words(ring).notes,
      Contains("ring_scan_unroll=1: no effect, keys are read where they "
               "lie; ring_transport=collective sends them"));
  ring.emplace_back("ring_transport=collective");
  EXPECT_THAT(
      load_words(ring).notes,
      Contains("ring_scan_unroll=1: ring steps are written out on CPUs, whose "
               "collectives may overtake a loop and then stand still"));
  EXPECT_THAT(
      load_words({"context_parallel_reorder_strategy=striped"}).notes,
      Contains("context_parallel_reorder_strategy=striped: no effect, tokens "
               "stay in order (there is nothing to balance)"));
  EXPECT_THAT(load_words({"model_name=tiny", "ici_context_parallelism=3",
                          "max_target_length=96"})
                  .notes,
              Contains("base_emb_dim=128: 3 (context=3) does not divide it, so "
                       "parameters and optimizer state are whole along "
                       "context, which takes more memory"));
  EXPECT_THAT(load_words({"packing=true"}).notes,
              Contains("packing=true has no effect with "
                       "dataset_type=synthetic"));
}

}  // namespace
}  // namespace ringmax::config
