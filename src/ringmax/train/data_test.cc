// The data of a run as its steps get it: in the layout's order, nothing lost.
#include <gtest/gtest.h>

#include <map>

#include "ringmax/base/testing/temp_dir.h"
#include "ringmax/config/config.h"
#include "ringmax/train/setup.h"

namespace ringmax::train {
namespace {

// By document and position: what the model reads, what it should say.
using Pairs = std::map<std::tuple<int, int>, std::tuple<int, int, float>>;

Pairs pairs_of(const data::Batch& batch) {
  Pairs pairs;
  for (std::size_t i = 0; i < batch.tokens.data<std::int32_t>().size(); ++i) {
    const int segment = batch.segment_ids.data<std::int32_t>()[i];
    if (segment == 0) continue;
    const auto key =
        std::tuple(segment, batch.positions.data<std::int32_t>()[i]);
    EXPECT_TRUE(
        pairs
            .emplace(key, std::tuple(batch.tokens.data<std::int32_t>()[i],
                                     batch.targets.data<std::int32_t>()[i],
                                     batch.weights.data<float>()[i]))
            .second);
  }
  return pairs;
}

TEST(TrainData, EachPairOnceForEveryRingAndLayout) {
  const TempDir dir;
  dir.write("d/1", std::string(130, 'a') + "bcdefgh");
  dir.write("d/2", "and another, which is shorter");
  const auto batch_of = [&](int r, const std::string& layout) {
    std::vector<std::string> words = {
        "model_name=tiny",
        "override_model_config=true",
        "base_emb_dim=240",
        "dataset_type=text",
        "dataset_path=" + dir.path() + "/d",
        "max_target_length=240",
        "context_parallel_strategy=ring",
        "ici_context_parallelism=" + std::to_string(r),
        "context_parallel_load_balance=" +
            std::string(layout.empty() ? "false" : "true"),
        "context_parallel_reorder_strategy=" +
            (layout.empty() ? "auto" : layout)};
    const config::Config config = config::load(words);
    return make_dataset(config)->batch(0, {0, 1});
  };
  const data::Batch plain = batch_of(1, "");
  const Pairs want = pairs_of(plain);
  EXPECT_EQ(want.size(), 139u + 30u);
  const auto first = plain.tokens.data<std::int32_t>();
  for (const int r : {1, 2, 3, 4, 5, 6, 8}) {
    for (const std::string layout : {"", "dual_chunk_swap", "striped"}) {
      SCOPED_TRACE(layout + " " + std::to_string(r));
      const data::Batch batch = batch_of(r, layout);
      EXPECT_EQ(pairs_of(batch), want);
      const auto tokens = batch.tokens.data<std::int32_t>();
      EXPECT_EQ(std::equal(tokens.begin(), tokens.end(), first.begin()),
                r == 1 || layout.empty());
    }
  }
}

}  // namespace
}  // namespace ringmax::train
