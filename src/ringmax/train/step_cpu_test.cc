#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "ringmax/analysis/collective_order.h"
#include "ringmax/analysis/hlo.h"
#include "ringmax/attention/layout.h"
#include "ringmax/data/dataset.h"
#include "ringmax/data/reorder.h"
#include "ringmax/mesh/axis_rules.h"
#include "ringmax/model/testing/small_options.h"
#include "ringmax/testing/run_graph.h"
#include "ringmax/train/step.h"

namespace ringmax::train {
namespace {

using attention::ContextStrategy;
using attention::LayoutKind;

// Reordered float32 sums over a step: losses of 20 steps drift by less.
constexpr double kLossTolerance = 2e-5;
// Sums of one step in another order, relative.
constexpr double kOneStepTolerance = 2e-6;
constexpr int kSteps = 20;
constexpr std::int64_t kBatch = 2;
constexpr std::int64_t kLength = 64;

model::ModelOptions tiny() {
  model::ModelOptions o = model::small_options();
  o.base_emb_dim = 128;
  o.base_num_query_heads = 8;
  o.base_num_kv_heads = 4;
  o.head_dim = 32;
  o.base_mlp_dim = 512;
  o.vocab_size = 1024;
  return o;
}

class Fixed : public data::Dataset {
 public:
  explicit Fixed(const data::Batch& batch) : batch_(batch) {}
  data::Batch batch(std::int64_t, data::RowRange) const override {
    return {batch_.tokens.clone(), batch_.targets.clone(),
            batch_.positions.clone(), batch_.segment_ids.clone(),
            batch_.weights.clone()};
  }
  std::int64_t vocab_size() const override { return 1024; }
  std::string describe() const override { return ""; }

 private:
  const data::Batch& batch_;
};

// One document of a row: where it stands, and which text it has.
struct Document {
  std::int64_t row, begin, size;
  int text;
  bool counts = true;  // in the loss
};

// Documents in rows of padding. A document of n tokens has n - 1 pairs.
data::Batch documents(const std::vector<Document>& all) {
  data::Batch batch = data::make_empty_batch(kBatch, kLength);
  std::int32_t segment = 0;
  for (const Document& d : all) {
    ++segment;
    const auto token = [&](std::int64_t i) {
      return static_cast<std::int32_t>((d.text * 389 + i * 7919) % 1024);
    };
    for (std::int64_t i = 0; i < d.size; ++i) {
      const auto at = static_cast<std::size_t>(d.row * kLength + d.begin + i);
      batch.tokens.data<std::int32_t>()[at] = token(i);
      batch.targets.data<std::int32_t>()[at] = token(i + 1);
      batch.positions.data<std::int32_t>()[at] = static_cast<std::int32_t>(i);
      batch.segment_ids.data<std::int32_t>()[at] = segment;
      batch.weights.data<float>()[at] = d.counts && i + 1 < d.size ? 1 : 0;
    }
  }
  return batch;
}

data::Batch whole_rows() {
  return documents({{0, 0, kLength, 0}, {1, 0, kLength, 1}});
}
data::Batch packed_rows() {
  return documents({{0, 0, 20, 0},
                    {0, 20, 13, 1},
                    {0, 33, 25, 2},
                    {1, 0, 41, 3},
                    {1, 41, 23, 4}});
}

struct Case {
  mesh::Mesh mesh = mesh::make_mesh({});
  ContextStrategy strategy = ContextStrategy::kRing;
  LayoutKind layout = LayoutKind::kContiguous;
  bool packed = false;
  std::function<void(model::ModelOptions&)> change = [](auto&) {};
  bool record_max_logits = false;
  DType grad_dtype = DType::kF32;
  // Auto: in memory.
  attention::RingTransport transport = attention::RingTransport::kAuto;
};

struct Trained {
  std::vector<float> losses, norms;
  std::vector<std::vector<float>> max_logits;  // [step][layer]
  std::vector<HostArray> state;                // at the end
};

bool same_bits(const std::vector<HostArray>& a,
               const std::vector<HostArray>& b) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const auto x = a[i].bytes();
    const auto y = b[i].bytes();
    if (!std::equal(x.begin(), x.end(), y.begin(), y.end())) return false;
  }
  return true;
}

std::vector<HostArray> initial_state_on(const mesh::Mesh& mesh,
                                        const model::ModelOptions& model) {
  const attention::AttentionOptions attention;
  const TrainOptions options;
  return testing::run_graph(
      *init_program({model, attention, options, mesh, kBatch, kLength}), {});
}

// It does not depend on the mesh, nor on anything but sizes.
const std::vector<HostArray>& initial_state(const model::ModelOptions& model) {
  static auto& made = *new std::map<bool, std::vector<HostArray>>();
  auto found = made.find(model.attention_sink);
  if (found == made.end()) {
    found = made.emplace(model.attention_sink,
                         initial_state_on(mesh::make_mesh({}), model))
                .first;
  }
  return found->second;
}

// A compiled step and its initial state.
class Trainer {
 public:
  explicit Trainer(const Case& c) : case_(c), model_(tiny()) {
    c.change(model_);
    attention_.sa_block_q = attention_.sa_block_q_dkv = 16;
    attention_.sa_block_kv = attention_.sa_block_kv_dkv = 16;
    attention_.record_max_logits = c.record_max_logits;
    attention_.ring_transport = c.transport;
    options_.grad_dtype = c.grad_dtype;
    attention::ContextPlan plan;
    plan.strategy = c.strategy;
    plan.layout = c.layout;
    const StepSettings settings{
        model_, attention_, options_,
        c.mesh, kBatch,     kLength,
        plan,   c.packed,   hw::cpu_target(c.mesh.device_count())};
    initial_ = initial_state(model_);
    graph_ = step_program(settings);
    program_ = std::make_unique<testing::CompiledGraph>(*graph_);
    // Devices that met collectives in different orders would wait for ever.
    EXPECT_THAT(analysis::overtaking_collectives(analysis::decode_hlo(
                    program_->executable().optimized_program().code)),
                ::testing::IsEmpty());
  }

  const std::vector<HostArray>& initial() const { return initial_; }

  Trained run(const data::Batch& in_order, int steps = kSteps) const {
    const attention::Layout layout(case_.layout, kLength,
                                   attention::sequence_shards(case_.mesh));
    const data::Batch batch =
        data::reorder(std::make_shared<Fixed>(in_order), layout.positions())
            ->batch(0, {0, kBatch});
    Trained run;
    run.state = initial_;
    for (int t = 1; t <= steps; ++t) {
      std::vector<HostArray> in = run.state;
      for (const HostArray* a :
           {&batch.tokens, &batch.targets, &batch.positions, &batch.weights}) {
        in.push_back(a->clone());
      }
      if (case_.packed) in.push_back(batch.segment_ids.clone());
      const float scalars[] = {1e-3f, 1 - static_cast<float>(std::pow(0.9, t)),
                               1 - static_cast<float>(std::pow(0.95, t))};
      for (const float& s : scalars) {
        in.push_back(HostArray::from<float>({}, std::span<const float>(&s, 1)));
      }
      std::vector<HostArray> out = program_->run(in);
      const auto take = [&] {
        const auto values = out.back().data<float>();
        std::vector<float> result(values.begin(), values.end());
        out.pop_back();
        return result;
      };
      EXPECT_EQ(take()[0], batch.total_weights());
      run.norms.push_back(take()[0]);
      run.losses.push_back(take()[0]);
      if (case_.record_max_logits) run.max_logits.push_back(take());
      run.state = std::move(out);
    }
    return run;
  }

 private:
  Case case_;
  model::ModelOptions model_;
  attention::AttentionOptions attention_;
  TrainOptions options_;
  std::vector<HostArray> initial_;
  std::unique_ptr<graph::Graph> graph_;
  std::unique_ptr<testing::CompiledGraph> program_;
};

void expect_losses_near(const Trained& run, const Trained& want) {
  ASSERT_EQ(run.losses.size(), want.losses.size());
  for (std::size_t t = 0; t < want.losses.size(); ++t) {
    EXPECT_NEAR(run.losses[t], want.losses[t], kLossTolerance * want.losses[t])
        << "step " << t;
  }
}

mesh::Mesh ring_of(std::int64_t r) { return mesh::make_mesh({{"context", r}}); }
mesh::Mesh usp_mesh() {
  return mesh::make_mesh({{"context", 2}, {"context_usp_ulysses", 2}});
}

const Trained& one_device() {
  static const Trained& run = *new Trained(Trainer({}).run(whole_rows()));
  return run;
}

void expect_like_one_device(const Case& c) {
  const Trainer trainer(c);
  expect_losses_near(trainer.run(whole_rows()), one_device());
}

TEST(TrainStep, LossStartsNearUniformAndFalls) {
  const Trained& run = one_device();
  EXPECT_NEAR(run.losses[0], std::log(1024.0), 1.0);
  EXPECT_LT(run.losses.back(), run.losses[0] - 0.5);
  EXPECT_GT(run.norms[0], 0);
}

TEST(TrainStep, InitialValuesAreTheSameBitsOnEveryMesh) {
  for (const mesh::Mesh& mesh :
       {ring_of(8),
        mesh::make_mesh({{"data", 2}, {"context", 2}, {"tensor", 2}})}) {
    EXPECT_TRUE(
        same_bits(initial_state_on(mesh, tiny()), initial_state(tiny())));
  }
}

TEST(TrainStep, AZigzagRingAgreesAndIsBitEqualWhenRunTwice) {
  for (const auto transport : {attention::RingTransport::kMemory,
                               attention::RingTransport::kCollective}) {
    const Trainer trainer({.mesh = ring_of(8),
                           .layout = LayoutKind::kZigzag,
                           .transport = transport});
    const Trained a = trainer.run(whole_rows());
    expect_losses_near(a, one_device());
    const Trained b = trainer.run(whole_rows());
    EXPECT_EQ(a.losses, b.losses);
    EXPECT_EQ(a.norms, b.norms);
    EXPECT_TRUE(same_bits(a.state, b.state));
  }
}

TEST(TrainStep, AStripedRingAgreesAndSoDoesKeepingEverything) {
  expect_like_one_device({.mesh = ring_of(4),
                          .layout = LayoutKind::kStriped,
                          .change =
                              [](model::ModelOptions& o) {
                                o.remat_policy = model::RematPolicy::kNone;
                                o.num_mlp_tiling = 2;
                              },
                          .transport = attention::RingTransport::kCollective});
}

TEST(TrainStep, LayersWrittenOutAgreeWithALoop) {
  expect_like_one_device({.change = [](model::ModelOptions& o) {
    o.remat_policy = model::RematPolicy::kNone;
    o.scan_layers = false;
  }});
  expect_like_one_device({.mesh = ring_of(8),
                          .layout = LayoutKind::kZigzag,
                          .change = [](model::ModelOptions& o) {
                            o.remat_policy = model::RematPolicy::kNone;
                            o.scan_layers = false;
                          }});
  expect_like_one_device(
      {.mesh = ring_of(2),
       .change = [](model::ModelOptions& o) { o.scan_layers = false; },
       .transport = attention::RingTransport::kCollective});
}

TEST(TrainStep, AllGatherAgreesWithOneDevice) {
  expect_like_one_device({.mesh = ring_of(4),
                          .strategy = ContextStrategy::kAllGather,
                          .layout = LayoutKind::kZigzag});
}

TEST(TrainStep, UlyssesAgreesWithOneDevice) {
  expect_like_one_device(
      {.mesh = ring_of(4), .strategy = ContextStrategy::kUlysses});
}

TEST(TrainStep, UspAgreesWithOneDevice) {
  expect_like_one_device({.mesh = usp_mesh(),
                          .strategy = ContextStrategy::kUsp,
                          .layout = LayoutKind::kZigzag});
}

// With the MLP in pieces too.
TEST(TrainStep, DataContextTensorAgreesAndSoDoesKeepingProjections) {
  expect_like_one_device(
      {.mesh = mesh::make_mesh({{"data", 2}, {"context", 2}, {"tensor", 2}}),
       .layout = LayoutKind::kZigzag,
       .change = [](model::ModelOptions& o) {
         o.remat_policy = model::RematPolicy::kSaveQkvProj;
         o.num_mlp_tiling = 4;
       }});
}

TEST(TrainStep, GradientsAreRoundedAsAskedAndTheRestIsFloat32) {
  const Case c = {.mesh = ring_of(2), .grad_dtype = DType::kBF16};
  const Trained run = Trainer(c).run(whole_rows(), 1);
  EXPECT_EQ(run.losses[0],
            Trainer({.mesh = c.mesh}).run(whole_rows(), 1).losses[0]);
  // The first moment after a step is (1 - 0.9) times the clipped gradient.
  const std::size_t parameters = run.state.size() / 3;
  const float scale = 0.1f / std::max(run.norms[0], 1.0f);
  // float32 products, with 0.1 and the norm as the program has them.
  constexpr float kRoundings = 1e-6f;
  std::size_t seen = 0;
  for (std::size_t i = parameters; i < 2 * parameters; ++i) {
    for (const float m : run.state[i].data<float>()) {
      const float gradient = m / scale;
      const auto near = bf16_to_float(float_to_bf16(gradient));
      ASSERT_NEAR(gradient, near, kRoundings * std::abs(near));
      seen += gradient != 0 ? 1 : 0;
    }
  }
  EXPECT_GT(seen, 100000u);
}

TEST(TrainStep, AWindowedRingAgreesWithOneDevice) {
  const auto window = [](model::ModelOptions& o) {
    o.attention_type = model::AttentionType::kLocalSliding;
    o.sliding_window_size = 20;
  };
  const Trained want = Trainer({.change = window}).run(whole_rows());
  EXPECT_NE(want.losses, one_device().losses);
  expect_losses_near(
      Trainer({.mesh = ring_of(8),
               .change = window,
               .transport = attention::RingTransport::kCollective})
          .run(whole_rows()),
      want);
}

// Everything at once.
TEST(TrainStep, ChunksSinksCapAndPackingAgreeUnderUsp) {
  Case one;
  one.packed = true;
  one.record_max_logits = true;
  one.change = [](model::ModelOptions& o) {
    o.attention_type = model::AttentionType::kChunk;
    o.chunk_attn_window_size = 24;
    o.attention_sink = true;
    o.attn_logits_soft_cap = 2;
  };
  Case many = one;
  many.mesh = usp_mesh();
  many.strategy = ContextStrategy::kUsp;
  many.layout = LayoutKind::kStriped;
  const Trainer trainer(one);
  const Trained want = trainer.run(packed_rows());
  const Trained run = Trainer(many).run(packed_rows());
  expect_losses_near(run, want);
  ASSERT_EQ(want.max_logits.size(), std::size_t{kSteps});
  for (int t = 0; t < kSteps; ++t) {
    ASSERT_EQ(want.max_logits[t].size(), 2u);
    for (int layer = 0; layer < 2; ++layer) {
      const float logit = want.max_logits[t][layer];
      EXPECT_GT(logit, 0);
      EXPECT_LE(logit, 2);  // the cap
      EXPECT_NEAR(run.max_logits[t][layer], logit, 1e-4 * logit);
    }
  }
  // Sinks learn: they begin at 0 and move.
  const auto infos = [&] {
    model::ModelOptions o = tiny();
    one.change(o);
    return model::parameters(o, one.mesh);
  }();
  const std::size_t sinks =
      model::parameter_index(infos, "layers/self_attention/sinks");
  for (const float s : trainer.initial()[sinks].data<float>()) EXPECT_EQ(s, 0);
  for (const float s : want.state[sinks].data<float>()) EXPECT_NE(s, 0);
}

// A compiled ring over packed rows.
const Trainer& packed_ring() {
  static const Trainer& trainer = *new Trainer(
      {.mesh = ring_of(4), .layout = LayoutKind::kZigzag, .packed = true});
  return trainer;
}

TEST(TrainStep, APackedRingAgreesWithOneDevice) {
  const Trained want = Trainer({.packed = true}).run(packed_rows());
  expect_losses_near(packed_ring().run(packed_rows()), want);
}

TEST(TrainStep, OtherDocumentsCannotBeSeen) {
  const auto with_neighbours = [&](int text) {
    return packed_ring().run(documents({{0, 0, 20, text, false},
                                        {0, 20, 30, 7},
                                        {0, 50, 14, text + 1, false},
                                        {1, 3, 40, text + 2, false}}),
                             3);
  };
  const Trained a = with_neighbours(100);
  const Trained b = with_neighbours(200);
  EXPECT_EQ(a.losses, b.losses);
  EXPECT_EQ(a.norms, b.norms);
  EXPECT_TRUE(same_bits(a.state, b.state));
}

TEST(TrainStep, ADocumentIsTheSameWhereverItStands) {
  const auto at = [&](std::int64_t row, std::int64_t begin) {
    return packed_ring().run(documents({{row, begin, 30, 7}}), 1);
  };
  const Trained first = at(0, 0);
  for (const auto& [row, begin] : {std::pair(0, 11), std::pair(1, 34)}) {
    const Trained moved = at(row, begin);
    EXPECT_NEAR(moved.losses[0], first.losses[0],
                kOneStepTolerance * first.losses[0]);
    // A gradient is a sum of many terms of both signs.
    EXPECT_NEAR(moved.norms[0], first.norms[0], 1e-5 * first.norms[0]);
  }
}

}  // namespace
}  // namespace ringmax::train
