// Programs written field by field: decoding, loops, products, ring sends and
// what hides them, and the walk that estimates a step.
#include "ringmax/analysis/hlo.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ringmax/analysis/hlo_collectives.h"
#include "ringmax/analysis/hlo_cost.h"
#include "ringmax/analysis/step_estimate.h"
#include "ringmax/analysis/testing/hlo_builder.h"
#include "ringmax/base/error.h"

namespace ringmax::analysis {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::kBF16;
using testing::kF32;
using testing::kPred;
using testing::kS32;
using testing::ModuleBuilder;
using testing::shape;
using testing::tuple;

ModuleBuilder::Extra calls(std::vector<std::int64_t> ids) {
  return [ids](ProtoWriter& i) { i.packed(38, ids); };
}

// A loop that counts from 2 to `bound` by 3, where the bound comes in through
// the tuple of an outer loop of 5 passes. The body multiplies
// [16, 32] x [32, 8].
constexpr std::int64_t kInnerBody = 1;
constexpr std::int64_t kInnerCondition = 2;
constexpr std::int64_t kOuterBody = 3;
constexpr std::int64_t kOuterCondition = 4;
constexpr std::int64_t kMain = 9;

std::string nested_loops(std::int64_t bound) {
  const ProtoWriter scalar = shape(kS32, {});
  const ProtoWriter lhs = shape(kF32, {16, 32});
  const ProtoWriter rhs = shape(kF32, {32, 8});
  const ProtoWriter state = tuple({scalar, scalar, lhs, rhs});
  ModuleBuilder m;
  const auto condition = [&](std::int64_t id, const std::string& name,
                             bool carried, std::int64_t limit) {
    m.begin(id, name);
    const std::int64_t p = m.add("parameter", state);
    const std::int64_t counter = m.element(scalar, p, 0);
    const std::int64_t other =
        carried ? m.element(scalar, p, 1) : m.constant(limit);
    m.end(m.add("compare", shape(kPred, {}), {counter, other},
                [](ProtoWriter& i) { i.bytes(63, "LT"); }));
  };
  m.begin(kInnerBody, "inner_body");
  {
    const std::int64_t p = m.add("parameter", state);
    const std::int64_t counter = m.element(scalar, p, 0);
    const std::int64_t limit = m.element(scalar, p, 1);
    const std::int64_t a = m.element(lhs, p, 2);
    const std::int64_t b = m.element(rhs, p, 3);
    m.add("dot", shape(kF32, {16, 8}), {a, b}, [](ProtoWriter& i) {
      ProtoWriter dims;
      dims.packed(1, std::vector<std::int64_t>{1});
      dims.packed(2, std::vector<std::int64_t>{0});
      i.message(30, dims);
    });
    const std::int64_t next = m.add("add", scalar, {counter, m.constant(3)});
    m.end(m.add("tuple", state, {next, limit, a, b}));
  }
  condition(kInnerCondition, "inner_condition", true, 0);
  m.begin(kOuterBody, "outer_body");
  {
    const std::int64_t p = m.add("parameter", state);
    const std::int64_t counter = m.element(scalar, p, 0);
    const std::int64_t limit = m.element(scalar, p, 1);
    const std::int64_t copied = m.add("copy", scalar, {limit});
    const std::int64_t a = m.element(lhs, p, 2);
    const std::int64_t b = m.element(rhs, p, 3);
    const std::int64_t inner =
        m.add("tuple", state, {m.constant(2), copied, a, b});
    m.add("while", state, {inner}, calls({kInnerBody, kInnerCondition}),
          "decoder/attention");
    const std::int64_t next = m.add("add", scalar, {counter, m.constant(1)});
    m.end(m.add("tuple", state, {next, limit, a, b}));
  }
  condition(kOuterCondition, "outer_condition", false, 5);
  m.begin(kMain, "main");
  {
    const std::int64_t a = m.add("parameter", lhs);
    const std::int64_t b = m.add("parameter", rhs);
    const std::int64_t limit =
        bound > 0 ? m.constant(bound) : m.add("parameter", scalar);
    const std::int64_t first =
        m.add("tuple", state, {m.constant(0), limit, a, b});
    m.end(m.add("while", state, {first}, calls({kOuterBody, kOuterCondition})));
  }
  return m.finish();
}

TEST(HloTest, DecodesWhatWasWritten) {
  const HloModule module = decode_hlo(nested_loops(9));
  EXPECT_TRUE(module.scheduled);
  EXPECT_EQ(module.name, "test");
  EXPECT_EQ(module.entry_computation().name, "main");
  const HloComputation& body = module.at(kInnerBody);
  const HloInstruction& root = body.at(body.root);
  EXPECT_EQ(root.opcode, "tuple");
  EXPECT_EQ(body.operand(root, 2).shape.dims, (Dims{16, 32}));
  EXPECT_EQ(root.shape.bytes(), 4 + 4 + 4 * (16 * 32 + 32 * 8));
  const std::string text = hlo_text(module);
  EXPECT_THAT(text, HasSubstr("ENTRY %main {"));
  EXPECT_THAT(text, HasSubstr("f32[16,8] dot(%get-tuple-element"));
  EXPECT_THAT(text, HasSubstr("op_name=\"decoder/attention\""));
}

TEST(HloTest, BytesThatAreNoProgramAreRefused) {
  const std::string whole = nested_loops(9);
  EXPECT_THROW(decode_hlo(""), Error);
  EXPECT_THROW(decode_hlo("not a program at all"), Error);
  for (std::size_t cut = 1; cut < whole.size(); cut += 97) {
    EXPECT_THROW(decode_hlo(std::string_view(whole).substr(0, cut)), Error)
        << cut;
  }
}

TEST(HloCostTest, LoopsTakeTheirTripCountAlsoWhenItIsCarriedAlong) {
  const HloModule module = decode_hlo(nested_loops(9));
  const HloCounts counts(module);
  EXPECT_EQ(counts.executions(kMain), 1);
  EXPECT_EQ(counts.executions(kOuterBody), 5);
  // 2, 5, 8.
  EXPECT_EQ(counts.executions(kInnerBody), 15);
  EXPECT_TRUE(counts.unknown_loops().empty());
  EXPECT_EQ(counts.matmul_flops(), 15.0 * 2 * 16 * 8 * 32);
}

TEST(HloCostTest, LoopsWithoutABoundCountOnceAndAreNamed) {
  const HloModule module = decode_hlo(nested_loops(0));
  const HloCounts counts(module);
  EXPECT_EQ(counts.executions(kInnerBody), 5);
  EXPECT_THAT(counts.unknown_loops(), ElementsAre("decoder/attention"));
}

// The TPU writes batched products as convolutions whose window slides over
// padding; only the positions on data count.
TEST(HloCostTest, ConvolutionsCountPositionsOnDataOnly) {
  ModuleBuilder m;
  m.begin(kMain, "main");
  const std::int64_t x = m.add("parameter", shape(kF32, {8, 64, 32}));
  const std::int64_t w = m.add("parameter", shape(kF32, {8, 32, 16}));
  const std::int64_t out = m.add(
      "convolution", shape(kF32, {8, 64, 16}), {x, w}, [](ProtoWriter& i) {
        ProtoWriter dim;
        dim.varint(1, 8);
        dim.varint(2, 7);  // stride
        dim.varint(3, 0);
        dim.varint(4, 49);
        dim.varint(5, 1);
        dim.varint(6, 8);  // base dilation
        ProtoWriter window;
        window.message(1, dim);
        i.message(15, window);
        ProtoWriter numbers;
        numbers.varint(3, 1);                              // kernel input
        numbers.packed(11, std::vector<std::int64_t>{0});  // input spatial
        numbers.packed(12, std::vector<std::int64_t>{0});  // output spatial
        i.message(16, numbers);
      });
  m.end(out);
  const HloModule module = decode_hlo(m.finish());
  const HloCounts counts(module);
  // By hand: output position o and window position k meet base element
  // (7 o + k) / 8 where that is whole and below 8.
  double valid = 0;
  for (int o = 0; o < 8; ++o) {
    for (int k = 0; k < 8; ++k) {
      valid += (7 * o + k) % 8 == 0 && (7 * o + k) / 8 < 8 ? 1 : 0;
    }
  }
  EXPECT_EQ(counts.matmul_flops(), 2.0 * 64 * 16 * 32 * valid);
}

const hw::Topology kSquare{{2, 2, 1}, {false, false, false}, 1};
// The ring 0, 1, 2, 3 round the square.
const Places kRound = {0, 1, 3, 2};

// Two sends: the first spans a kernel, the second only an addition.
std::string two_sends() {
  const ProtoWriter data = shape(kBF16, {1024, 512});
  ModuleBuilder m;
  m.begin(kMain, "main");
  const std::int64_t x = m.add("parameter", data);
  const auto send = [&](const std::string& op_name) {
    return m.add(
        "collective-permute-start", tuple({data, data}), {x},
        [](ProtoWriter& i) {
          for (int d = 0; d < 4; ++d) {
            ProtoWriter pair;
            pair.varint(1, d);
            pair.varint(2, (d + 1) % 4);
            i.message(52, pair);
          }
        },
        op_name);
  };
  const std::int64_t first = send("decoder/attention/ring_send");
  const std::int64_t kernel = m.add(
      "custom-call", data, {x},
      [](ProtoWriter& i) {
        i.bytes(28, "tpu_custom_call");
        i.bytes(
            43,
            R"({"custom_call_config":{"cost_estimate":{"flops":"459000000000","bytes_accessed":"1000"}}})");
      },
      "decoder/attention/splash_forward");
  const std::int64_t got = m.add("collective-permute-done", data, {first});
  const std::int64_t second = send("decoder/attention/ring_send");
  const std::int64_t sum =
      m.add("add", data, {got, kernel}, [](ProtoWriter& i) {
        i.bytes(43, R"({"window_config":{"estimated_cycles":"1750"}})");
      });
  const std::int64_t last = m.add("collective-permute-done", data, {second});
  const std::int64_t gathered =
      m.add("all-gather", shape(kBF16, {4096, 512}), {sum}, [](ProtoWriter& i) {
        ProtoWriter group;
        group.packed(1, std::vector<std::int64_t>{0, 1, 2, 3});
        i.message(49, group);
      });
  m.end(m.add("tuple", tuple({data, data}), {last, gathered}));
  return m.finish();
}

TEST(RotationsTest, ASendIsHiddenWhenAKernelRunsWhileItTravels) {
  const HloModule module = decode_hlo(two_sends());
  const HloCounts counts(module);
  const std::vector<Rotation> found =
      rotations(module, counts, kSquare, kRound);
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].where, "decoder/attention");
  EXPECT_EQ(found[0].hidden_behind, "splash_forward");
  EXPECT_EQ(found[1].hidden_behind, std::nullopt);
  EXPECT_EQ(found[0].bytes, 1024 * 512 * 2);
  EXPECT_EQ(found[0].hops.max, 1);
  EXPECT_EQ(rotations(module, counts, kSquare, {0, 1, 2, 3})[0].hops.max, 2);
  EXPECT_EQ(rotations(module, counts, kSquare, {})[0].hops.max, 0);
}

// In a program with kernels, a loop of attention hides a send only when there
// is a kernel in it.
TEST(RotationsTest, ALoopHidesASendWhenThereIsAKernelInIt) {
  const ProtoWriter data = shape(kBF16, {64, 64});
  const ProtoWriter pair = tuple({data, data});
  for (const bool inside : {true, false}) {
    ModuleBuilder m;
    const auto body = [&](std::int64_t id, bool with_kernel) {
      m.begin(id, "body");
      const std::int64_t p = m.add("parameter", pair);
      const std::int64_t a = m.element(data, p, 0);
      m.add(
          "custom-call", data, {a},
          [&](ProtoWriter& i) {
            i.bytes(28, with_kernel ? "tpu_custom_call" : "Sharding");
          },
          "decoder/attention/splash_forward");
      m.end(m.add("tuple", pair, {a, a}));
    };
    body(1, inside);
    m.begin(2, "condition");
    m.add("parameter", pair);
    m.end(m.constant(1));
    body(3, true);  // elsewhere
    m.begin(kMain, "main");
    const std::int64_t x = m.add("parameter", data);
    const std::int64_t send = m.add("collective-permute-start", pair, {x},
                                    nullptr, "decoder/attention/ring_send");
    const std::int64_t first = m.add("tuple", pair, {x, x});
    m.add("while", pair, {first}, calls({1, 2}), "decoder/attention");
    m.add("call", pair, {first}, calls({3}));
    const std::int64_t done = m.add("collective-permute-done", data, {send});
    m.schedule({x, send, first, first + 1, done, first + 2});
    m.end(done);
    const HloModule module = decode_hlo(m.finish());
    const std::vector<Rotation> found =
        rotations(module, HloCounts(module), kSquare, kRound);
    ASSERT_EQ(found.size(), 1u);
    EXPECT_EQ(
        found[0].hidden_behind,
        inside ? std::optional<std::string>("splash_forward") : std::nullopt);
  }
}

TEST(CollectivesTest, KindsAreCountedWithTheirBytes) {
  const HloModule module = decode_hlo(two_sends());
  const HloCounts counts(module);
  const std::vector<CollectiveRow> rows =
      collectives(module, counts, kSquare, kRound);
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0].kind, "all_gather");
  EXPECT_EQ(rows[0].bytes, 4096 * 512 * 2);
  EXPECT_EQ(rows[1].kind, "collective_permute");
  EXPECT_EQ(rows[1].count, 2);
  EXPECT_EQ(rows[1].bytes, 2 * 1024 * 512 * 2);
  const std::vector<KernelRow> found = kernels(module, counts);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].name, "splash_forward");
  EXPECT_EQ(found[0].flops, 459e9);
}

// Four chips like v5p's, their links rounded.
hw::Target square_of_v5p() {
  hw::Target target;
  target.topology = kSquare;
  target.peak_bf16_flops = 459e12;
  target.hbm_bytes_per_s = 2765e9;
  target.link_bytes_per_s = 100e9;
  target.clock_hz = 1.75e9;
  return target;
}

TEST(StepEstimateTest, WhatIsHiddenCostsNothingWhatIsNotIsWaitedFor) {
  const HloModule module = decode_hlo(two_sends());
  const HloCounts counts(module);
  const hw::Target target = square_of_v5p();
  EstimateSettings settings;
  settings.kernel_utilisation = 0.5;
  const StepEstimate estimate =
      estimate_step(module, counts, target, kRound, settings);
  // Half of the peak: 1 GFLOP takes 2 ms; the send's 1 MiB at 100 GB/s takes
  // 10.5 us and 1 us for the link. The addition hides 1 us of the second send.
  // The square's devices have two links each: 3/4 of 4 MiB at 200 GB/s, and
  // 2 us.
  const double send_s = 1024.0 * 512 * 2 / 100e9 + 1e-6;
  const double gather_s = 0.75 * 4096 * 512 * 2 / 200e9 + 2e-6;
  EXPECT_NEAR(estimate.kernels_s, 2e-3, 1e-9);
  EXPECT_NEAR(estimate.compute_s, 1e-6, 1e-9);
  EXPECT_NEAR(estimate.exposed_s, send_s - 1e-6 + gather_s, 1e-9);
  EXPECT_NEAR(estimate.collectives_s, 2 * send_s + gather_s, 1e-9);
  EXPECT_NEAR(estimate.seconds,
              estimate.kernels_s + estimate.compute_s + estimate.exposed_s,
              1e-12);
  // A measured kernel is believed.
  settings.measured_utilisation["splash_forward"] = 1;
  EXPECT_NEAR(estimate_step(module, counts, target, kRound, settings).kernels_s,
              1e-3, 1e-9);
  // And what is given for it still more.
  settings.given_utilisation = {{"splash_forward", 0.25}, {"splash", 0.5}};
  settings.hidden_sends = false;
  const StepEstimate other =
      estimate_step(module, counts, target, kRound, settings);
  EXPECT_NEAR(other.kernels_s, 4e-3, 1e-9);
  EXPECT_NEAR(other.exposed_s, 2 * send_s + gather_s, 1e-9);
  EXPECT_NEAR(other.collectives_s, estimate.collectives_s, 1e-9);
  EXPECT_THAT(other.assumptions,
              Contains("kernel_utilization=splash:0.5: this program has no "
                       "such kernel"));
  EXPECT_THAT(other.assumptions, Contains(HasSubstr("hidden_sends=false")));
}

// A program of another framework: no scopes of ours, kernels by other names,
// one without a cost estimate, and instructions without the compiler's cycles.
TEST(StepEstimateTest, ReadsProgramsOfOthers) {
  const ProtoWriter data = shape(kBF16, {1024, 512});
  ModuleBuilder m;
  m.begin(kMain, "main.42");
  const std::int64_t x = m.add("parameter", data);
  const std::int64_t send =
      m.add("collective-permute-start", tuple({data, data}), {x}, nullptr,
            "jit(train_step)/jvp(Transformer)/ring_attention/ppermute");
  const auto kernel = [&](const std::string& name, const std::string& cost) {
    return m.add(
        "custom-call", data, {x},
        [&](ProtoWriter& i) {
          i.bytes(28, "tpu_custom_call");
          i.bytes(43,
                  R"({"custom_call_config":{"body":"TUzvUg==")" + cost + "}}");
        },
        name);
  };
  kernel("jit(train_step)/splash_mqa_fwd_residuals/pallas_call",
         R"(,"cost_estimate":{"flops":"459000000000","bytes_accessed":"1"})");
  kernel("jit(train_step)/splash_mqa_dkv/pallas_call", "");
  const std::int64_t got = m.add("collective-permute-done", data, {send});
  const std::int64_t sum = m.add("add", data, {got, x});
  m.end(sum);
  const HloModule module = decode_hlo(m.finish());
  const HloCounts counts(module);
  const std::vector<KernelRow> found = kernels(module, counts);
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].name, "splash_mqa_dkv");
  EXPECT_EQ(found[1].name, "splash_mqa_fwd_residuals");
  EXPECT_EQ(found[1].flops, 459e9);
  EXPECT_TRUE(rotations(module, counts, kSquare, {}).empty());
  EXPECT_EQ(collectives(module, counts, kSquare, {}).at(0).count, 1);
  const hw::Target target = square_of_v5p();
  EstimateSettings settings;
  settings.kernel_utilisation = 0.5;
  const StepEstimate estimate =
      estimate_step(module, counts, target, {}, settings);
  EXPECT_NEAR(estimate.kernels_s, 2e-3, 1e-9);
  // Three arrays of 1 MiB pass the HBM.
  EXPECT_NEAR(estimate.compute_s, 3.0 * 1024 * 512 * 2 / 2765e9, 1e-9);
  EXPECT_NEAR(estimate.exposed_s, 0, 1e-9);
}

}  // namespace
}  // namespace ringmax::analysis
