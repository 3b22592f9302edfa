// Attention of 500 random cases against the float64 reference: shapes, masks,
// features, strategies, layouts and blocks drawn together. 125 programs, each
// with four sets of values and documents. A failure names its seed.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <numeric>
#include <random>

#include "ringmax/attention/testing/attend_runner.h"
#include "ringmax/base/error.h"

namespace ringmax::attention {
namespace {

using testing::AttendRunner;
using testing::Case;
using testing::normal_values;
using testing::RunSettings;

// See attend_cpu_test.cc.
constexpr double kForwardTolerance = 2e-5;
constexpr double kGradientTolerance = 5e-5;

constexpr int kShards = 5;
constexpr int kProgramsAShard = 25;
constexpr int kValuesAProgram = 4;

class Draw {
 public:
  explicit Draw(std::uint64_t seed) : engine_(seed) {}
  // Both included.
  std::int64_t between(std::int64_t low, std::int64_t high) {
    // Not a distribution of the library: those differ between libraries.
    return low + static_cast<std::int64_t>(
                     engine_() % static_cast<std::uint64_t>(high - low + 1));
  }
  bool chance(std::int64_t percent) { return between(1, 100) <= percent; }
  template <typename T>
  T one_of(std::initializer_list<T> values) {
    return *(values.begin() +
             between(0, static_cast<std::int64_t>(values.size()) - 1));
  }

 private:
  std::mt19937_64 engine_;
};

Mask random_law(Draw& draw, std::int64_t queries, std::int64_t keys) {
  switch (draw.between(0, 5)) {
    case 0:
      return Mask::full();
    case 1:
      return Mask::causal();
    case 2:
      return Mask::causal(draw.between(-queries, keys));
    case 3:
      return Mask::local(draw.between(0, 9), draw.between(0, 4));
    case 4:
      return Mask::chunked(draw.between(1, 12));
    default: {
      std::vector<std::uint8_t> visible;
      for (std::int64_t i = 0; i < queries * keys; ++i) {
        // A row in eight sees nothing.
        visible.push_back(i / keys % 8 != 3 && draw.chance(60) ? 1 : 0);
      }
      return Mask::dense(DenseMask::make(queries, keys, visible));
    }
  }
}

Mask random_mask(Draw& draw, std::int64_t queries, std::int64_t keys) {
  const Mask a = random_law(draw, queries, keys);
  if (draw.chance(50)) return a;
  // One array at most: that is all a mask may hold.
  Mask b = random_law(draw, queries, keys);
  while (a.find_dense() != nullptr && b.find_dense() != nullptr) {
    b = random_law(draw, queries, keys);
  }
  return draw.chance(50) ? a & b : a | b;
}

struct Drawn {
  Case c;
  RunSettings how;
};

Drawn draw_program(std::uint64_t seed) {
  Draw draw(seed);
  Drawn made;
  ReferenceInputs& in = made.c.inputs;
  in.batch = draw.between(1, 2);
  in.queries = draw.between(1, 26);
  in.keys = draw.chance(50) ? in.queries : draw.between(1, 26);
  in.kv_heads = draw.between(1, 3);
  in.query_heads = in.kv_heads * draw.between(1, 4);
  in.head_dim = draw.one_of<std::int64_t>({1, 4, 8, 12});
  in.value_dim = draw.chance(50) ? in.head_dim : draw.between(1, 10);
  in.scale = draw.one_of({1.0, 0.25, -0.5}) /
             std::sqrt(static_cast<double>(in.head_dim));
  if (draw.chance(30)) in.soft_cap = draw.one_of({1.5, 4.0, 30.0});
  made.c.mask = random_mask(draw, in.queries, in.keys);
  in.mask = [mask = made.c.mask](std::int64_t i, std::int64_t j) {
    return mask.visible(i, j);
  };
  // Filled with values later; their presence is the program's business.
  if (draw.chance(40)) in.query_segments = in.kv_segments = {1};
  if (draw.chance(30)) in.sinks = {0};
  if (draw.chance(80)) in.dout = {0};

  RunSettings& how = made.how;
  how.devices = draw.one_of<std::int64_t>({1, 2, 3, 4, 5, 6, 8});
  how.strategy =
      draw.one_of({Strategy::kAuto, Strategy::kRing, Strategy::kRing,
                   Strategy::kAllGather, Strategy::kUlysses, Strategy::kUsp});
  if (how.strategy == Strategy::kUsp) {
    how.ulysses = how.devices % 2 == 0 ? 2 : 1;
  }
  how.layout = draw.one_of(
      {LayoutKind::kContiguous, LayoutKind::kZigzag, LayoutKind::kStriped});
  how.block = draw.one_of<std::int64_t>({1, 2, 3, 5, 512});
  how.bidirectional = draw.chance(25);
  how.ring_scan_unroll = draw.between(0, 2);
  // The kernel that CPUs take by themselves, in memory where it can.
  if (draw.chance(50)) {
    how.kernel = "native";
    if (draw.chance(70)) how.ring_transport = RingTransport::kAuto;
  }
  return made;
}

std::vector<std::int32_t> random_segments(Draw& draw, std::int64_t batch,
                                          std::int64_t tokens) {
  std::vector<std::int32_t> ids;
  for (std::int64_t b = 0; b < batch; ++b) {
    std::int32_t id = static_cast<std::int32_t>(draw.between(0, 2));
    for (std::int64_t i = 0; i < tokens; ++i) {
      if (draw.chance(20)) {
        id = static_cast<std::int32_t>(draw.between(0, 3));
      }
      ids.push_back(id);
    }
  }
  return ids;
}

void fill(Case& c, std::uint64_t seed) {
  Draw draw(seed);
  ReferenceInputs& in = c.inputs;
  const double deviation = draw.one_of({0.3, 1.0, 3.0});
  const std::int64_t rows = in.batch * in.queries * in.query_heads;
  const std::int64_t key_rows = in.batch * in.keys * in.kv_heads;
  in.q = normal_values(rows * in.head_dim, deviation, seed * 8);
  in.k = normal_values(key_rows * in.head_dim, deviation, seed * 8 + 1);
  in.v = normal_values(key_rows * in.value_dim, deviation, seed * 8 + 2);
  if (!in.dout.empty()) {
    in.dout = normal_values(rows * in.value_dim, 1, seed * 8 + 3);
  }
  if (!in.sinks.empty()) {
    in.sinks = normal_values(in.query_heads, 2, seed * 8 + 4);
  }
  if (!in.query_segments.empty()) {
    in.query_segments = random_segments(draw, in.batch, in.queries);
    in.kv_segments = random_segments(draw, in.batch, in.keys);
  }
}

void expect_right(const ReferenceOutputs& got, const ReferenceOutputs& want) {
  EXPECT_LE(attention_error(got.out, want.out), kForwardTolerance);
  EXPECT_LE(attention_error(got.lse, want.lse), kForwardTolerance);
  EXPECT_LE(attention_error(got.max_logits, want.max_logits),
            kForwardTolerance);
  EXPECT_LE(attention_error(got.dq, want.dq), kGradientTolerance);
  EXPECT_LE(attention_error(got.dk, want.dk), kGradientTolerance);
  EXPECT_LE(attention_error(got.dv, want.dv), kGradientTolerance);
  EXPECT_LE(attention_error(got.dsinks, want.dsinks), kGradientTolerance);
}

// What may be wrong with a draw; anything else would be a refusal too many.
bool refused_for_a_reason(const RunSettings& how, const ReferenceInputs& in) {
  const std::int64_t tokens = std::min(in.queries, in.keys);
  const bool ring = how.strategy == Strategy::kRing ||
                    how.strategy == Strategy::kUsp ||
                    how.strategy == Strategy::kAuto;
  const std::int64_t share =
      how.strategy == Strategy::kUlysses ? how.devices : how.ulysses;
  return how.devices > tokens || in.query_heads % share != 0 ||
         (how.bidirectional &&
          (!ring || tokens < 2 * how.devices / how.ulysses));
}

class RandomCasesCpuTest : public ::testing::TestWithParam<int> {};

TEST_P(RandomCasesCpuTest, AgreeWithTheReference) {
  std::uint64_t seed = static_cast<std::uint64_t>(GetParam()) * 1000000;
  int refused = 0;
  for (int program = 0; program < kProgramsAShard; ++program) {
    Drawn drawn;
    for (;;) {
      drawn = draw_program(++seed);
      try {
        testing::plan_case(drawn.c, drawn.how);
        break;
      } catch (const Error& error) {
        SCOPED_TRACE(fmt::format("seed {}: {}", seed, error.what()));
        EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
        EXPECT_TRUE(refused_for_a_reason(drawn.how, drawn.c.inputs));
        ++refused;
      }
    }
    AttendRunner runner;
    for (int values = 0; values < kValuesAProgram; ++values) {
      fill(drawn.c, seed * 4 + static_cast<std::uint64_t>(values));
      SCOPED_TRACE(fmt::format("seed {} values {}: {}, mask {}", seed, values,
                               drawn.how.to_string(),
                               drawn.c.mask.to_string()));
      expect_right(runner.run(drawn.c, drawn.how),
                   reference_attention(drawn.c.inputs));
    }
  }
  std::printf("%d programs, %d refused on the way, seeds up to %llu\n",
              kProgramsAShard, refused, static_cast<unsigned long long>(seed));
}

INSTANTIATE_TEST_SUITE_P(Shards, RandomCasesCpuTest,
                         ::testing::Range(1, kShards + 1));

}  // namespace
}  // namespace ringmax::attention
