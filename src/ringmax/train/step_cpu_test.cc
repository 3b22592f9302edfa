#include <gtest/gtest.h>

#include <cmath>

#include "ringmax/mesh/axis_rules.h"
#include "ringmax/model/testing/small_options.h"
#include "ringmax/testing/run_graph.h"
#include "ringmax/train/step.h"

namespace ringmax::train {
namespace {

// Reordered float32 sums over a step: losses of 20 steps drift by less.
constexpr double kLossTolerance = 2e-5;
constexpr int kSteps = 20;

struct Trained {
  std::vector<HostArray> initial;
  std::vector<float> losses;
  std::vector<float> norms;
};

Trained train(const mesh::Mesh& mesh, attention::ContextStrategy strategy,
              model::RematPolicy remat = model::RematPolicy::kFull) {
  constexpr std::int64_t kBatch = 2;
  constexpr std::int64_t kLength = 64;
  model::ModelOptions model = model::small_options();
  model.base_emb_dim = 128;
  model.base_num_query_heads = 8;
  model.base_num_kv_heads = 4;
  model.head_dim = 32;
  model.base_mlp_dim = 512;
  model.vocab_size = 1024;
  model.remat_policy = remat;
  attention::AttentionOptions attention;
  attention.context_parallel_strategy = strategy;
  attention.sa_block_q = 16;
  attention.sa_block_kv = 16;
  TrainOptions options;
  const StepSettings settings{model, attention, options, mesh, kBatch, kLength};
  Trained run;
  std::vector<HostArray> state =
      testing::run_graph(*init_program(settings), {});
  run.initial = state;
  HostArray tokens(Shape(DType::kI32, {kBatch, kLength}));
  HostArray targets = tokens.clone();
  HostArray positions = tokens.clone();
  HostArray weights(Shape(DType::kF32, {kBatch, kLength}));
  for (std::size_t i = 0; i < kBatch * kLength; ++i) {
    tokens.data<std::int32_t>()[i] = static_cast<int>(i * 7919 % 1024);
    targets.data<std::int32_t>()[i] = static_cast<int>((i + 1) * 7919 % 1024);
    positions.data<std::int32_t>()[i] = static_cast<int>(i % kLength);
    weights.data<float>()[i] = i % kLength == kLength - 1 ? 0.0f : 1.0f;
  }
  const auto graph = step_program(settings);
  const testing::CompiledGraph program(*graph);
  for (int t = 1; t <= kSteps; ++t) {
    std::vector<HostArray> in = state;
    for (const HostArray& a : {tokens, targets, positions, weights}) {
      in.push_back(a);
    }
    const float scalars[] = {1e-3f, 1 - static_cast<float>(std::pow(0.9, t)),
                             1 - static_cast<float>(std::pow(0.95, t))};
    for (const float& s : scalars) {
      in.push_back(HostArray::from<float>({}, std::span<const float>(&s, 1)));
    }
    std::vector<HostArray> out = program.run(in);
    EXPECT_EQ(out[out.size() - 1].data<float>()[0], kBatch * (kLength - 1));
    run.norms.push_back(out[out.size() - 2].data<float>()[0]);
    run.losses.push_back(out[out.size() - 3].data<float>()[0]);
    out.resize(out.size() - 3);
    state = std::move(out);
  }
  return run;
}

const Trained& one_device() {
  static const Trained& run = *new Trained(
      train(mesh::make_mesh({}), attention::ContextStrategy::kRing));
  return run;
}

void expect_like_one_device(const Trained& run) {
  const Trained& one = one_device();
  for (std::size_t i = 0; i < one.initial.size(); ++i) {
    const auto a = one.initial[i].bytes();
    const auto b = run.initial[i].bytes();
    EXPECT_TRUE(std::equal(a.begin(), a.end(), b.begin(), b.end()))
        << "initial state " << i;
  }
  for (std::size_t t = 0; t < one.losses.size(); ++t) {
    EXPECT_NEAR(run.losses[t], one.losses[t], kLossTolerance * one.losses[t])
        << "step " << t;
  }
}

TEST(TrainStep, LossStartsNearUniformAndFalls) {
  const Trained& run = one_device();
  EXPECT_NEAR(run.losses[0], std::log(1024.0), 1.0);
  EXPECT_LT(run.losses.back(), run.losses[0] - 0.5);
  EXPECT_GT(run.norms[0], 0);
}

TEST(TrainStep, RingAgreesWithOneDevice) {
  for (const std::int64_t r : {2, 4, 8}) {
    SCOPED_TRACE(r);
    expect_like_one_device(train(mesh::make_mesh({{"context", r}}),
                                 attention::ContextStrategy::kRing));
  }
}

TEST(TrainStep, AllGatherAgreesWithOneDevice) {
  expect_like_one_device(train(mesh::make_mesh({{"context", 8}}),
                               attention::ContextStrategy::kAllGather));
}

TEST(TrainStep, DataContextTensorAgreesWithOneDevice) {
  expect_like_one_device(
      train(mesh::make_mesh({{"data", 2}, {"context", 2}, {"tensor", 2}}),
            attention::ContextStrategy::kRing));
}

TEST(TrainStep, RematPoliciesAgree) {
  for (const auto policy :
       {model::RematPolicy::kNone, model::RematPolicy::kSaveQkvProj}) {
    const Trained run = train(mesh::make_mesh({{"context", 2}}),
                              attention::ContextStrategy::kRing, policy);
    expect_like_one_device(run);
  }
}

TEST(TrainStep, IsBitEqualWhenRunTwice) {
  const mesh::Mesh mesh = mesh::make_mesh({{"context", 4}});
  const Trained a = train(mesh, attention::ContextStrategy::kRing);
  const Trained b = train(mesh, attention::ContextStrategy::kRing);
  EXPECT_EQ(a.losses, b.losses);
  EXPECT_EQ(a.norms, b.norms);
}

}  // namespace
}  // namespace ringmax::train
