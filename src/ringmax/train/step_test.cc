#include "ringmax/train/step.h"

#include <gtest/gtest.h>

#include <string>

#include "ringmax/graph/print.h"
#include "ringmax/mesh/axis_rules.h"
#include "ringmax/model/testing/small_options.h"

namespace ringmax::train {
namespace {

TEST(TrainStep, HasNoArrayOfTokensByVocabulary) {
  constexpr std::int64_t kBatch = 3;
  constexpr std::int64_t kLength = 40;
  model::ModelOptions model = model::small_options();
  model.vocab_size = 1736;  // like no other size
  attention::AttentionOptions attention;
  attention.sa_block_q = 8;
  attention.sa_block_kv = 8;
  const TrainOptions options;
  const mesh::Mesh mesh = mesh::make_mesh({});
  const StepSettings settings{model, attention, options, mesh, kBatch, kLength};
  const std::string text = graph::print_stablehlo(*step_program(settings));
  EXPECT_EQ(text.find("3x40x1736x"), std::string::npos);
  EXPECT_EQ(text.find("120x1736x"), std::string::npos);
  EXPECT_EQ(text.find("3x40x2x868x"), std::string::npos);
  // The logits of one chunk of two are there, so the text is what it says.
  EXPECT_NE(text.find("3x40x868xf32"), std::string::npos);
}

}  // namespace
}  // namespace ringmax::train
