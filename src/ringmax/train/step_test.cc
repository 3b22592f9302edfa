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

// A window of 4,096 in 65,536 tokens over 8 devices. A layer is in the text
// twice, once forward and once backward; its keys and values are two sends, and
// so are their gradients.
TEST(TrainStep, AWindowIsSentToNeighboursOnly) {
  model::ModelOptions model = model::small_options();
  model.attention_type = model::AttentionType::kLocalSliding;
  model.sliding_window_size = 4096;
  attention::AttentionOptions attention;
  attention.ring_transport = attention::RingTransport::kCollective;
  const TrainOptions options;
  const mesh::Mesh mesh = mesh::make_mesh({{"context", 8}});
  const auto sends = [&](attention::LayoutKind layout,
                         model::RematPolicy remat) {
    model.remat_policy = remat;
    StepSettings settings{model, attention, options, mesh, 1, 65536};
    settings.plan.strategy = attention::ContextStrategy::kRing;
    settings.plan.layout = layout;
    settings.target = hw::cpu_target(8);
    const std::string text = graph::print_stablehlo(*step_program(settings));
    int count = 0;
    for (std::size_t at = 0; (at = text.find("stablehlo.collective_permute",
                                             at)) != std::string::npos;
         ++at) {
      ++count;
    }
    return count;
  };
  using attention::LayoutKind;
  using model::RematPolicy;
  EXPECT_EQ(sends(LayoutKind::kContiguous, RematPolicy::kNone), 2 + 2 + 2);
  // Nothing is kept: the forward pass once more.
  EXPECT_EQ(sends(LayoutKind::kContiguous, RematPolicy::kFull), 2 + 2 + 2 + 2);
  // From the neighbours to both sides.
  EXPECT_EQ(sends(LayoutKind::kZigzag, RematPolicy::kNone), 2 * (2 + 2 + 2));
  // Where devices share a memory nobody needs to send.
  attention.ring_transport = attention::RingTransport::kAuto;
  EXPECT_EQ(sends(LayoutKind::kZigzag, RematPolicy::kNone), 0);
}

// Devices of one process share weights once a step where everything is kept for
// the backward pass, and once a product elsewhere.
TEST(TrainStep, SharesWeightsOnceWhereEverythingIsKept) {
  model::ModelOptions model = model::small_options();
  model.base_emb_dim = 128;
  const attention::AttentionOptions attention;
  const TrainOptions options;
  const mesh::Mesh mesh = mesh::make_mesh({{"context", 8}});
  const auto count = [&](model::RematPolicy remat, const char* what) {
    model.remat_policy = remat;
    StepSettings settings{model, attention, options, mesh, 1, 128};
    settings.target = hw::cpu_target(8);
    const std::string text = graph::print_stablehlo(*step_program(settings));
    int n = 0;
    for (std::size_t at = 0; (at = text.find(what, at)) != std::string::npos;
         ++at) {
      ++n;
    }
    return n;
  };
  using model::RematPolicy;
  // Five groups in two orders.
  EXPECT_EQ(count(RematPolicy::kNone, "@ringmax_share_weights"), 10);
  EXPECT_EQ(count(RematPolicy::kNone, "@ringmax_release"), 1);
  EXPECT_GT(count(RematPolicy::kFull, "@ringmax_share_weights"), 10);
  EXPECT_EQ(count(RematPolicy::kFull, "@ringmax_release"), 0);
}

}  // namespace
}  // namespace ringmax::train
