// The gate: the whole cross product of features is planned or refused, nothing
// that is asked for is left out of a plan, and every refusal names its reason.
#include "ringmax/attention/gate.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <numeric>

#include "ringmax/attention/cost_model.h"
#include "ringmax/base/error.h"
#include "ringmax/mesh/axis_rules.h"

namespace ringmax::attention {
namespace {

using mesh::PartitionSpec;

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr std::int64_t kTokens = 96;

AttendShapes shapes(std::int64_t heads = 8, std::int64_t kv_heads = 2) {
  AttendShapes s;
  s.q = Shape(DType::kF32, {4, kTokens, heads, 16});
  s.k = Shape(DType::kF32, {4, kTokens, kv_heads, 16});
  s.v = s.k;
  return s;
}

AttendSettings settings(std::vector<std::string> sequence = {"context"},
                        std::vector<std::string> heads = {}) {
  AttendSettings s;
  s.q_spec = PartitionSpec{{"data"}, sequence, heads, {}};
  s.kv_spec = s.q_spec;
  return s;
}

mesh::Mesh mesh_of(std::int64_t context, std::int64_t ulysses = 1,
                   std::int64_t tensor = 1, std::int64_t data = 1) {
  return mesh::make_mesh({{"context", context},
                          {"context_usp_ulysses", ulysses},
                          {"tensor", tensor},
                          {"data", data}});
}

std::string refusal(const AttendShapes& s, const AttendSettings& how,
                    const mesh::Mesh& mesh) {
  try {
    plan_attend(s, how, mesh);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    return error.what();
  }
  return "";
}

struct Combination {
  Strategy strategy;
  LayoutKind layout;
  Mask mask;
  bool bidirectional, segments, sinks;
  double soft_cap;
  std::int64_t context, ulysses, tensor, heads, kv_heads, unroll;
};

void for_each_combination(const std::function<void(const Combination&)>& f) {
  const Mask masks[] = {Mask::full(), Mask::causal(), Mask::local(5, 0),
                        Mask::chunked(16) | Mask::local(0, 2)};
  const std::pair<std::int64_t, std::int64_t> head_counts[] = {{8, 2}, {6, 3}};
  for (const auto& [strategy, name] : kStrategies) {
    for (const LayoutKind layout :
         {LayoutKind::kContiguous, LayoutKind::kZigzag, LayoutKind::kStriped})
      for (const Mask& mask : masks)
        for (const std::int64_t context : {1, 2, 3, 4, 8})
          for (const std::int64_t ulysses : {1, 2})
            for (const std::int64_t tensor : {1, 2})
              for (const auto& [heads, kv_heads] : head_counts)
                for (const std::int64_t unroll : {0, 1})
                  for (int bits = 0; bits < 8; ++bits) {
                    f({strategy, layout, mask, (bits & 1) != 0, (bits & 2) != 0,
                       (bits & 4) != 0, (bits & 4) != 0 ? 3.0 : 0.0, context,
                       ulysses, tensor, heads, kv_heads, unroll});
                  }
  }
}

// Why a combination cannot be computed, written down without the gate.
bool impossible(const Combination& c) {
  const std::int64_t heads = c.heads / c.tensor;
  if (c.heads % c.tensor != 0 || c.kv_heads % c.tensor != 0) return true;
  const std::int64_t devices = c.context * c.ulysses;
  const bool ring = c.strategy == Strategy::kRing ||
                    c.strategy == Strategy::kUsp ||
                    c.strategy == Strategy::kAuto;
  // Two axes above 1 that the strategy has no use for.
  const bool two = c.context > 1 && c.ulysses > 1;
  switch (c.strategy) {
    case Strategy::kSingle:
      return devices > 1 || c.bidirectional;
    case Strategy::kRing:
      return two;
    case Strategy::kUlysses:
      return two || c.bidirectional || heads % devices != 0;
    case Strategy::kUsp:
      return heads % c.ulysses != 0;
    case Strategy::kAllGather:
      return c.bidirectional;
    case Strategy::kAuto:
      // With two axes and heads that do not divide, gathering is left.
      return two && heads % c.ulysses != 0 && c.bidirectional;
  }
  return !ring;
}

TEST(Gate, TheWholeCrossProductIsPlannedOrRefused) {
  std::int64_t planned = 0;
  std::int64_t refused = 0;
  for_each_combination([&](const Combination& c) {
    AttendShapes s = shapes(c.heads, c.kv_heads);
    AttendSettings how =
        settings({"context", "context_usp_ulysses"}, {"tensor"});
    if (c.segments) {
      s.q_segments = s.kv_segments = Shape(DType::kI32, {4, kTokens});
    }
    if (c.sinks) s.sinks = Shape(DType::kF32, {c.heads});
    how.mask = c.mask;
    how.layout = c.layout;
    how.strategy = c.strategy;
    how.bidirectional = c.bidirectional;
    how.soft_cap = c.soft_cap;
    how.ring_scan_unroll = c.unroll;
    const mesh::Mesh mesh = mesh_of(c.context, c.ulysses, c.tensor);
    const std::string why = refusal(s, how, mesh);
    ASSERT_EQ(!why.empty(), impossible(c))
        << name_of(kStrategies, c.strategy) << " context " << c.context
        << " ulysses " << c.ulysses << " tensor " << c.tensor << " heads "
        << c.heads << (c.bidirectional ? " bidirectional" : "") << ": " << why;
    if (!why.empty()) {
      ++refused;
      return;
    }
    ++planned;
    const AttendPlan plan = plan_attend(s, how, mesh);
    // Everything asked for is in the plan, what was chosen has its reasons.
    const auto reasons = std::count_if(
        plan.refused.begin(), plan.refused.end(),
        [](const std::string& why) { return !why.starts_with("kernel "); });
    if (c.strategy != Strategy::kAuto) {
      ASSERT_EQ(plan.strategy, c.strategy);
      ASSERT_EQ(reasons, 0);
    } else {
      ASSERT_EQ(reasons, c.context * c.ulysses > 1 || c.bidirectional ? 4 : 0);
    }
    ASSERT_EQ(plan.q_layout.kind(), c.layout);
    ASSERT_EQ(plan.request.mask, c.mask);
    ASSERT_EQ(plan.request.soft_cap, c.soft_cap);
    ASSERT_EQ(plan.request.segments, c.segments);
    const std::int64_t total =
        c.mask.count(PositionRange{0, kTokens}, PositionRange{0, kTokens});
    const std::int64_t devices = c.context * c.ulysses;
    ASSERT_EQ(plan.pairs_per_device.size(), static_cast<std::size_t>(devices));
    // Devices that share out heads each do all pairs of theirs.
    ASSERT_EQ(std::accumulate(plan.pairs_per_device.begin(),
                              plan.pairs_per_device.end(), std::int64_t{0}),
              total * plan.ulysses_size);
    const bool rings =
        plan.strategy == Strategy::kRing || plan.strategy == Strategy::kUsp;
    if (rings) {
      ASSERT_EQ(plan.schedule.total_pairs(), total);
      ASSERT_EQ(plan.schedule.tracks.size(),
                c.bidirectional && plan.ring_size > 1 ? 2u : 1u);
    }
    if (c.unroll > 0 && rings && plan.ring_size > 1 &&
        plan.ring_scan_unroll == 0) {
      ASSERT_THAT(plan.notes, Not(IsEmpty()));
    }
    ASSERT_EQ(plan.bytes_sent_per_device > 0,
              devices > 1 && (!rings || plan.ring_steps_sent > 0 ||
                              plan.ulysses_size > 1));
    ASSERT_EQ(plan.request.kv_heads * plan.request.groups,
              c.heads / c.tensor / plan.ulysses_size);
  });
  EXPECT_GT(planned, 5000);
  EXPECT_GT(refused, 1000);
}

TEST(Gate, MeshAndShardingsByName) {
  const auto why = [&](const std::function<void(AttendSettings&)>& change,
                       const mesh::Mesh& mesh, std::int64_t heads = 8,
                       std::int64_t kv_heads = 2) {
    AttendSettings how = settings({"context"}, {"tensor"});
    change(how);
    return refusal(shapes(heads, kv_heads), how, mesh);
  };
  const auto nothing = [](AttendSettings&) {};
  EXPECT_EQ(why(nothing, mesh_of(4, 1, 2)), "");
  EXPECT_THAT(why([](auto& s) { s.q_spec.dims[1] = {"contxt"}; }, mesh_of(4)),
              HasSubstr("axis contxt, which the mesh lacks"));
  EXPECT_THAT(why(
                  [](auto& s) {
                    s.kv_spec.dims[3] = {"context"};
                    s.kv_spec.dims[1] = {};
                  },
                  mesh_of(4)),
              HasSubstr("head_dim is sharded over context (4)"));
  EXPECT_THAT(why([](auto& s) { s.q_spec.dims[2] = {"context"}; }, mesh_of(4)),
              HasSubstr("axis context twice"));
  EXPECT_THAT(why([](auto& s) { s.kv_spec.dims[1] = {}; }, mesh_of(4)),
              HasSubstr("sequence of queries is sharded over [context (4)]"));
  EXPECT_THAT(why([](auto& s) { s.kv_spec.dims[2] = {}; }, mesh_of(1, 1, 2)),
              HasSubstr("both must be sharded alike"));
  EXPECT_THAT(why(nothing, mesh_of(1, 1, 2), 8, 1),
              HasSubstr("one kv head cannot be sharded over tensor (2)"));
  EXPECT_THAT(why(nothing, mesh_of(1, 1, 4), 8, 2),
              HasSubstr("2 kv heads do not divide evenly over tensor (4)"));
  EXPECT_THAT(why(nothing, mesh_of(1, 1, 1, 8)),
              HasSubstr("4 sequences of the batch do not divide"));
  EXPECT_THAT(why(nothing, mesh_of(5)), HasSubstr("the array has 96"));
}

TEST(Gate, ShapesAndNumbersAllAtOnce) {
  AttendShapes s = shapes();
  s.q_segments = Shape(DType::kI32, {4, kTokens});
  s.sinks = Shape(DType::kF32, {7});
  AttendSettings how = settings();
  how.scale = std::nan("");
  how.soft_cap = -1;
  const std::string why = refusal(s, how, mesh_of(4));
  for (const char* part :
       {"scale=nan", "logit_soft_cap=-1",
        "segment ids of queries are given without those of keys",
        "sinks is f32[7], must be one number for each of 8 query heads"}) {
    EXPECT_THAT(why, HasSubstr(part));
  }
  s = shapes();
  s.q_segments = Shape(DType::kI64, {4, kTokens});
  s.kv_segments = Shape(DType::kI32, {4, kTokens - 1});
  const std::string segments = refusal(s, settings(), mesh_of(4));
  EXPECT_THAT(segments, HasSubstr("q_segment_ids is i64[4,96]"));
  EXPECT_THAT(segments, HasSubstr("kv_segment_ids is i32[4,95]"));
  how = settings();
  how.queries = 3;
  EXPECT_THAT(refusal(shapes(), how, mesh_of(4)),
              HasSubstr("3 queries cannot be spread over 4 devices"));
  how = settings();
  how.mask = Mask::dense(
      DenseMask::make(2, 3, std::vector<std::uint8_t>{1, 1, 1, 1, 1, 1}));
  EXPECT_THAT(refusal(shapes(), how, mesh_of(4)), HasSubstr("96"));
  how = settings();
  how.kernel = "stablhlo";
  EXPECT_THAT(refusal(shapes(), how, mesh_of(4)),
              HasSubstr("kernel=stablhlo is unknown; valid are auto"));
}

TEST(Gate, SaysHowHeadsAreCopiedAndWhyOthersWereNotTaken) {
  AttendSettings how = settings();
  how.strategy = Strategy::kUlysses;
  const AttendPlan plan = plan_attend(shapes(8, 2), how, mesh_of(8));
  EXPECT_EQ(plan.kv_copies, 4);
  EXPECT_EQ(plan.request.kv_heads, 1);
  EXPECT_EQ(plan.request.groups, 1);
  ASSERT_EQ(plan.notes.size(), 1u);
  EXPECT_THAT(plan.notes[0], HasSubstr("each is sent 4 times"));
  EXPECT_THAT(plan.summary(), HasSubstr("ulysses, heads over context (8)"));
  // Who asks for a strategy knows why not the others.
  EXPECT_THAT(plan.refused, Not(::testing::Contains(HasSubstr("ring:"))));
  how.strategy = Strategy::kAuto;
  EXPECT_THAT(plan_attend(shapes(8, 2), how, mesh_of(8)).refused,
              ::testing::IsSupersetOf(
                  {HasSubstr("single: the sequence is sharded over context"),
                   HasSubstr("possible, estimated at")}));
}

// A user reads the name of the setting that is at hand.
TEST(Gate, CallsSettingsAsItsCallerDoes) {
  AttendSettings how = settings();
  how.strategy = Strategy::kUlysses;
  const mesh::Mesh mesh = mesh_of(3);
  const std::string plain = refusal(shapes(), how, mesh);
  EXPECT_THAT(plain, HasSubstr("strategy=ulysses: 8 query heads"));
  EXPECT_THAT(plain, Not(HasSubstr("context_parallel")));
  how.names = {.strategy = "context_parallel_strategy",
               .kernel = "attention",
               .soft_cap = "attn_logits_soft_cap",
               .block = "sa_block_"};
  EXPECT_THAT(refusal(shapes(), how, mesh),
              HasSubstr("context_parallel_strategy=ulysses: 8 query heads"));
  how.soft_cap = -1;
  how.blocks.block_kv = -3;
  const std::string numbers = refusal(shapes(), how, mesh);
  EXPECT_THAT(numbers, HasSubstr("attn_logits_soft_cap=-1"));
  EXPECT_THAT(numbers, HasSubstr("sa_block_kv=-3"));
  how = settings();
  how.kernel = "nothing";
  how.names.kernel = "attention";
  EXPECT_THAT(refusal(shapes(), how, mesh_of(2)),
              HasSubstr("attention=nothing is unknown"));
}

// Without a word about blocks the cost model picks them, and the plan says so.
TEST(Gate, ChoosesBlocksThatNobodyAsksFor) {
  AttendShapes s = shapes();
  for (Shape* shape : {&s.q, &s.k, &s.v}) shape->dims[1] = 8192;
  for (const char* kernel : {"stablehlo", "mosaic_twin", "native"}) {
    AttendSettings how = settings();
    how.mask = Mask::causal();
    how.strategy = Strategy::kRing;
    how.kernel = kernel;
    how.target = hw::cpu_target(4);
    how.blocks.block_q = how.blocks.block_kv = 0;
    const AttendPlan plan = plan_attend(s, how, mesh_of(4));
    const auto& blocks = plan.request.forward_blocks;
    EXPECT_THAT(plan.notes,
                Contains(HasSubstr(fmt::format(
                    "blocks of {} queries and {} keys: {}", blocks.q, blocks.kv,
                    kernel == std::string_view("native")
                        ? "what kernel native is best with"
                        : "the cheapest by the cost model"))));
    EXPECT_EQ(plan.request.backward_blocks.q, blocks.q);
    EXPECT_LE(blocks.kv_compute, blocks.kv);
    if (kernel != std::string_view("native")) {
      CostCase c;
      c.batch = 4;
      c.queries = c.keys = 8192;
      c.query_heads = 8;
      c.kv_heads = 2;
      c.head_dim = c.value_dim = 16;
      c.dtype = DType::kF32;
      c.devices = 4;
      const BlockSizes cheapest = choose_blocks(c, how.target);
      EXPECT_EQ(blocks.q, cheapest.q);
      EXPECT_EQ(blocks.kv, cheapest.kv);
    }
    // What is asked for stays.
    how.blocks.block_q = 96;
    EXPECT_EQ(plan_attend(s, how, mesh_of(4)).request.forward_blocks.q, 96);
  }
}

TEST(Gate, KernelsAreToldWhatTheBusiestDeviceSees) {
  const auto plan_of = [](LayoutKind layout, Strategy strategy) {
    AttendSettings how = settings();
    how.mask = Mask::causal();
    how.layout = layout;
    how.strategy = strategy;
    return plan_attend(shapes(), how, mesh_of(4));
  };
  // Shards of 24: on the diagonal 25/48 of the pairs, all of them in the
  // three steps after it, where devices 1 to 3, 2 and 3, and 3 have work.
  const AttendPlan ring = plan_of(LayoutKind::kContiguous, Strategy::kRing);
  const double diagonal = 25.0 / 48;
  EXPECT_DOUBLE_EQ(ring.request.visible_share, (diagonal + 3) / 4);
  EXPECT_DOUBLE_EQ(ring.balance, (4 * diagonal + 6) / 4 / (diagonal + 3));
  EXPECT_DOUBLE_EQ(plan_of(LayoutKind::kZigzag, Strategy::kRing).balance, 1);
  // The last device sees all keys but half of its own.
  const AttendPlan gathered =
      plan_of(LayoutKind::kContiguous, Strategy::kAllGather);
  EXPECT_DOUBLE_EQ(gathered.request.visible_share, (diagonal + 3) / 4);
}

TEST(Gate, CountsWhatAWindowSends) {
  AttendShapes s;
  s.q = Shape(DType::kBF16, {1, 65536, 32, 128});
  s.k = s.v = Shape(DType::kBF16, {1, 65536, 8, 128});
  AttendSettings how = settings();
  how.strategy = Strategy::kRing;
  how.mask = Mask::local(4095, 0);
  const std::int64_t shard_bytes = 8192 * 8 * 256 * 2;
  const AttendPlan contiguous = plan_attend(s, how, mesh_of(8));
  EXPECT_EQ(contiguous.ring_steps_sent, 1);
  EXPECT_EQ(contiguous.bytes_sent_per_device, shard_bytes);
  how.layout = LayoutKind::kZigzag;
  const AttendPlan zigzag = plan_attend(s, how, mesh_of(8));
  EXPECT_EQ(zigzag.ring_steps_sent, 2);
  EXPECT_EQ(zigzag.bytes_sent_per_device, 2 * shard_bytes);
}

TEST(Gate, RingsInMemorySendNothing) {
  AttendSettings how = settings();
  how.strategy = Strategy::kRing;
  how.target = hw::cpu_target(4);
  how.ring_transport = RingTransport::kAuto;
  how.ring_scan_unroll = 1;
  const auto plan = [&] { return plan_attend(shapes(), how, mesh_of(4)); };
  const AttendPlan made = plan();
  EXPECT_TRUE(made.in_memory);
  EXPECT_EQ(made.backend->name(), "native");
  EXPECT_EQ(made.ring_steps_sent, 0);
  EXPECT_EQ(made.bytes_sent_per_device, 0);
  EXPECT_EQ(made.ring_scan_unroll, 0);
  EXPECT_THAT(made.summary(), HasSubstr("keys read where they lie"));
  how.ring_transport = RingTransport::kCollective;
  EXPECT_FALSE(plan().in_memory);
  EXPECT_EQ(plan().ring_steps_sent, 3);
  EXPECT_THAT(plan().summary(), Not(HasSubstr("keys read")));

  // What cannot is sent, or refused where memory is asked for.
  const auto cannot = [&](const std::function<void(AttendSettings&)>& change,
                          const char* why) {
    AttendSettings other = how;
    change(other);
    other.ring_transport = RingTransport::kAuto;
    EXPECT_FALSE(plan_attend(shapes(), other, mesh_of(4)).in_memory) << why;
    other.ring_transport = RingTransport::kMemory;
    const std::string said = refusal(shapes(), other, mesh_of(4));
    EXPECT_THAT(said, HasSubstr("ring_transport=memory"));
    EXPECT_THAT(said, HasSubstr(why));
    EXPECT_THAT(said, HasSubstr("collective"));
  };
  cannot([](AttendSettings& s) { s.kernel = "stablehlo"; },
         "kernel stablehlo reads");
  cannot([](AttendSettings& s) { s.bidirectional = true; }, "two ways");
  cannot([](AttendSettings& s) { s.strategy = Strategy::kAllGather; },
         "strategy all_gather is taken");
  cannot(
      [](AttendSettings& s) {
        s.target = hw::tpu_target("v5p-8");
        s.kernel = "stablehlo";
      },
      "platform tpu");
  how.strategy = Strategy::kUsp;
  how.ring_transport = RingTransport::kMemory;
  how.q_spec = how.kv_spec =
      mesh::PartitionSpec{{}, {"context", "context_usp_ulysses"}};
  EXPECT_THAT(
      refusal(shapes(), how,
              mesh::make_mesh({{"context", 2}, {"context_usp_ulysses", 2}})),
      HasSubstr("strategy usp is taken"));
  // One device has nobody to read from.
  how.ring_transport = RingTransport::kMemory;
  EXPECT_FALSE(plan_attend(shapes(), how, mesh_of(1)).in_memory);
}

TEST(Gate, ALoopOfStepsThatNobodyTakesIsSaid) {
  AttendSettings how = settings();
  how.strategy = Strategy::kRing;
  how.target = hw::cpu_target(8);
  how.mask = Mask::local(3, 0);
  how.ring_scan_unroll = 1;
  const auto notes = [&](RingTransport transport) {
    how.ring_transport = transport;
    return plan_attend(shapes(), how, mesh_of(8)).notes;
  };
  EXPECT_THAT(notes(RingTransport::kMemory),
              AllOf(Contains(HasSubstr("ring_scan_unroll=1: no effect")),
                    Not(Contains(HasSubstr("loop")))));
  EXPECT_THAT(notes(RingTransport::kCollective),
              Contains(HasSubstr("too few for a loop")));
}

// Where nothing is sent only what is computed counts.
TEST(Gate, AutoTakesARingInMemoryWhereOthersSend) {
  AttendSettings how = settings();
  how.strategy = Strategy::kAuto;
  how.target = hw::cpu_target(4);
  const auto plan = [&](RingTransport transport) {
    how.ring_transport = transport;
    return plan_attend(shapes(), how, mesh_of(4));
  };
  // Contiguous causal shards have uneven work as a ring that sends.
  EXPECT_NE(plan(RingTransport::kCollective).strategy, Strategy::kRing);
  const AttendPlan made = plan(RingTransport::kAuto);
  EXPECT_TRUE(made.in_memory);
  EXPECT_THAT(made.estimate, HasSubstr("transfers 0.00 us"));
  EXPECT_TRUE(plan(RingTransport::kMemory).in_memory);
  EXPECT_THAT(plan(RingTransport::kMemory).refused,
              Contains("ulysses: ring_transport=memory is for a ring"));
}

}  // namespace
}  // namespace ringmax::attention
