// The native kernel against the float64 reference, on every instruction set of
// this machine.
#include "ringmax/attention/cpu/kernel.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <thread>

#include "ringmax/attention/cpu/testing/run_kernel.h"
#include "ringmax/attention/testing/cases.h"

namespace ringmax::attention::cpu {
namespace {

using attention::testing::Case;
using attention::testing::random_case;
using ::testing::IsEmpty;
using testing::KernelSettings;
using testing::run_kernel;

// Sums of hundreds of float32 products, exp2 of 2 ulp, logits up to 100.
constexpr double kF32Tolerance = 2e-5;
// Operands rounded to 8 bits; the reference gets the same ones, but weights and
// gradients of weights may be rounded as well.
constexpr double kBf16Tolerance = 1.5e-2;

class KernelTest : public ::testing::TestWithParam<testing::InstructionSet> {
 protected:
  testing::UseInstructionSet use_{GetParam()};
};

INSTANTIATE_TEST_SUITE_P(EveryInstructionSet, KernelTest,
                         ::testing::ValuesIn(testing::instruction_sets()),
                         [](const auto& info) { return info.param.name(); });

void round_to_bf16(ReferenceInputs& in) {
  for (std::vector<double>* x : {&in.q, &in.k, &in.v, &in.dout}) {
    for (double& y : *x) {
      y = bf16_to_float(float_to_bf16(static_cast<float>(y)));
    }
  }
}

// Runs a case and holds everything to the reference.
void expect_right(Case c, const KernelSettings& settings) {
  if (settings.dtype == DType::kBF16) round_to_bf16(c.inputs);
  const auto law = c.inputs.mask;
  if (!settings.tile.empty()) {
    c.inputs.mask = [&](std::int64_t i, std::int64_t j) {
      return law(i, j) && settings.tile[i * c.inputs.keys + j] != 0;
    };
  }
  const ReferenceOutputs want = reference_attention(c.inputs);
  const ReferenceOutputs got = run_kernel(c.mask, c.inputs, settings);
  const double tolerance =
      settings.dtype == DType::kBF16 ? kBf16Tolerance : kF32Tolerance;
  const auto near = [&](const char* what, const std::vector<double>& a,
                        const std::vector<double>& b) {
    EXPECT_LT(attention_error(a, b), tolerance) << c.name << ' ' << what;
  };
  near("out", got.out, want.out);
  near("lse", got.lse, want.lse);
  near("max_logits", got.max_logits, want.max_logits);
  near("dq", got.dq, want.dq);
  near("dk", got.dk, want.dk);
  near("dv", got.dv, want.dv);
}

TEST_P(KernelTest, GivesTheKnownAnswersOnEveryRingAndLayout) {
  EXPECT_EQ(instruction_set(), GetParam().name());
  EXPECT_THAT(attention::testing::run_known_cases(
                  [](const Case& c, std::int64_t ring, LayoutKind layout) {
                    KernelSettings settings;
                    settings.ring_size = ring;
                    settings.layout = layout;
                    return run_kernel(c.mask, c.inputs, settings);
                  }),
              IsEmpty());
}

TEST_P(KernelTest, KnowsEveryMask) {
  const Mask masks[] = {
      Mask::full(),
      Mask::causal(),
      Mask::causal(-40),
      Mask::causal(37),
      Mask::local(50, 0),
      Mask::local(3, 90),
      Mask::chunked(33),
      Mask::causal() & Mask::local(70, 20),
      Mask::chunked(64) | Mask::local(9, 2),
      (Mask::chunked(50) | Mask::local(20, 20)) & Mask::causal(5),
  };
  std::uint64_t seed = 1;
  for (const Mask& mask : masks) {
    for (const LayoutKind layout :
         {LayoutKind::kContiguous, LayoutKind::kZigzag, LayoutKind::kStriped}) {
      KernelSettings settings;
      settings.ring_size = layout == LayoutKind::kContiguous ? 1 : 2;
      settings.layout = layout;
      settings.dtype =
          layout == LayoutKind::kZigzag ? DType::kBF16 : DType::kF32;
      expect_right(
          random_case(mask.to_string(), mask, 1, 211, 190, 2, 1, 16, 1, ++seed),
          settings);
    }
  }
}

TEST_P(KernelTest, TakesEveryShape) {
  struct Sizes {
    std::int64_t batch, queries, keys, heads, kv_heads, d, v;
  };
  const Sizes all[] = {
      {1, 1, 1, 1, 1, 1, 1},       {2, 5, 3, 4, 2, 3, 5},
      {1, 130, 257, 2, 1, 64, 64}, {1, 99, 101, 3, 3, 80, 80},
      {1, 60, 140, 2, 2, 96, 40},  {2, 49, 70, 8, 2, 128, 128},
      {1, 33, 65, 1, 1, 256, 256}, {1, 200, 49, 6, 1, 40, 24},
      {1, 47, 300, 2, 2, 72, 136},
  };
  std::uint64_t seed = 100;
  for (const Sizes& x : all) {
    Case c = random_case("shape", Mask::causal(3), x.batch, x.queries, x.keys,
                         x.heads, x.kv_heads, x.d, 1, ++seed);
    c.name += std::to_string(seed);
    c.inputs.value_dim = x.v;
    c.inputs.v = attention::testing::normal_values(
        x.batch * x.keys * x.kv_heads * x.v, 1, seed + 1000);
    c.inputs.dout = attention::testing::normal_values(
        x.batch * x.queries * x.heads * x.v, 1, seed + 2000);
    for (const DType dtype : {DType::kF32, DType::kBF16}) {
      KernelSettings settings;
      settings.dtype = dtype;
      expect_right(c, settings);
    }
  }
}

TEST_P(KernelTest, KeepsSegmentsApartWhereverTheyMeetBlocks) {
  std::mt19937 random(7);
  for (const LayoutKind layout :
       {LayoutKind::kContiguous, LayoutKind::kZigzag}) {
    Case c =
        random_case("segments", Mask::causal(), 2, 300, 300, 4, 2, 16, 1, 9);
    for (std::int64_t b = 0; b < 2; ++b) {
      std::int32_t id = 1;
      for (std::int64_t i = 0; i < 300; ++i) {
        if (random() % 60 == 0) ++id;
        // Padding inside and at the end.
        const bool padding = i >= 280 || (i > 100 && i < 104);
        c.inputs.query_segments.push_back(padding ? 0 : id);
      }
    }
    c.inputs.kv_segments = c.inputs.query_segments;
    KernelSettings settings;
    settings.layout = layout;
    settings.ring_size = layout == LayoutKind::kZigzag ? 3 : 1;
    expect_right(c, settings);
    settings.dtype = DType::kBF16;
    expect_right(c, settings);
  }
}

TEST_P(KernelTest, SeesWhatATileSaysAndNoMore) {
  Case c = random_case("tile", Mask::causal(100), 1, 150, 260, 2, 1, 24, 1, 11);
  KernelSettings settings;
  std::mt19937 random(5);
  for (std::int64_t i = 0; i < 150; ++i) {
    for (std::int64_t j = 0; j < 260; ++j) {
      // Any value but 0 is true; row 17 and the last keys are empty.
      settings.tile.push_back(
          i == 17 || j > 200 ? 0
                             : static_cast<std::uint8_t>(random() % 3 * 85));
    }
  }
  expect_right(c, settings);
  settings.dtype = DType::kBF16;
  expect_right(c, settings);
}

TEST_P(KernelTest, CapsSoftlyWithItsGradient) {
  for (const double cap : {0.5, 20.0}) {
    for (const DType dtype : {DType::kF32, DType::kBF16}) {
      Case c = random_case("cap", Mask::causal(), 1, 70, 150, 2, 2, 32, 2, 13);
      c.inputs.soft_cap = cap;
      KernelSettings settings;
      settings.dtype = dtype;
      expect_right(c, settings);
    }
  }
}

TEST_P(KernelTest, TakesAnyBlockLengths) {
  const Case c =
      random_case("blocks", Mask::causal(), 1, 210, 330, 4, 2, 16, 1, 17);
  for (const std::int64_t q : {1, 7, 64, 1000}) {
    for (const std::int64_t kv : {1, 30, 1000}) {
      KernelSettings settings;
      settings.block_q = q;
      settings.block_kv = kv;
      settings.dtype = DType::kF32;
      expect_right(c, settings);
      settings.dtype = DType::kBF16;
      expect_right(c, settings);
    }
  }
}

// So many queries read each key that keys are copied first.
TEST_P(KernelTest, ReadsKeysManyTimes) {
  const Case c =
      random_case("reads", Mask::full(), 2, 430, 50, 16, 2, 8, 1, 31);
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    KernelSettings settings;
    settings.dtype = dtype;
    expect_right(c, settings);
  }
}

// A large spread and a maximum that comes last: every block rescales.
TEST_P(KernelTest, RescalesWhenTheLargestLogitComesLast) {
  Case c = random_case("spread", Mask::full(), 1, 90, 700, 1, 1, 16, 3, 19);
  for (std::int64_t j = 0; j < 700; ++j) {
    for (std::int64_t x = 0; x < 16; ++x) {
      c.inputs.k[j * 16 + x] *= static_cast<double>(j) / 200;
    }
  }
  expect_right(c, {});
  KernelSettings bf16;
  bf16.dtype = DType::kBF16;
  expect_right(c, bf16);
}

// Of roots of mean squares over 2,048 keys, normal inputs: 4.1e-7, 1.0e-8 and
// 6.7e-7 are seen where logits and weights are summed in parts; 6.1e-7, 5.3e-8
// and 7.3e-7 at least where each is one long sum.
constexpr double kOutRounding = 5e-7;
constexpr double kLseRounding = 2e-8;
constexpr double kGradientRounding = 7e-7;

double relative_error(const std::vector<double>& x,
                      const std::vector<double>& ref) {
  double off = 0;
  double size = 0;
  for (std::size_t i = 0; i < ref.size(); ++i) {
    off += (x[i] - ref[i]) * (x[i] - ref[i]);
    size += ref[i] * ref[i];
  }
  return std::sqrt(off / size);
}

TEST_P(KernelTest, LongSumsRoundLittle) {
  for (const std::int64_t dim : {64, 128, 256}) {
    Case c =
        random_case("sums", Mask::full(), 1, 48, 2048, 1, 1, dim, 1, 37 + dim);
    for (std::vector<double>* x :
         {&c.inputs.q, &c.inputs.k, &c.inputs.v, &c.inputs.dout}) {
      for (double& y : *x) y = static_cast<float>(y);
    }
    const ReferenceOutputs want = reference_attention(c.inputs);
    const ReferenceOutputs got = run_kernel(c.mask, c.inputs, {});
    EXPECT_LT(relative_error(got.out, want.out), kOutRounding) << dim;
    EXPECT_LT(relative_error(got.lse, want.lse), kLseRounding) << dim;
    EXPECT_LT(relative_error(got.dq, want.dq), kGradientRounding) << dim;
    EXPECT_LT(relative_error(got.dk, want.dk), kGradientRounding) << dim;
    EXPECT_LT(relative_error(got.dv, want.dv), kGradientRounding) << dim;
  }
}

TEST_P(KernelTest, IsExactWhereNothingIsSeen) {
  Case c =
      random_case("empty", Mask::causal(-64), 1, 200, 200, 2, 1, 16, 1, 23);
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    KernelSettings settings;
    settings.dtype = dtype;
    const ReferenceOutputs got = run_kernel(c.mask, c.inputs, settings);
    for (std::int64_t i = 0; i < 64 * 2 * 16; ++i) {
      ASSERT_EQ(got.out[i], 0);
      ASSERT_EQ(got.dq[i], 0);
    }
    for (std::int64_t i = 0; i < 64 * 2; ++i) {
      ASSERT_EQ(got.lse[i], -std::numeric_limits<double>::infinity());
      ASSERT_EQ(got.max_logits[i], -std::numeric_limits<double>::infinity());
    }
    for (std::int64_t i = (200 - 64) * 16; i < 200 * 16; ++i) {
      ASSERT_EQ(got.dk[i], 0);
      ASSERT_EQ(got.dv[i], 0);
    }
  }
}

TEST_P(KernelTest, GivesTheSameBitsForAnyNumberOfThreads) {
  const Case c =
      random_case("threads", Mask::causal(), 1, 1100, 1100, 2, 1, 16, 1, 29);
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    KernelSettings settings;
    settings.dtype = dtype;
    const ReferenceOutputs alone = run_kernel(c.mask, c.inputs, settings);
    for (const std::int64_t helpers : {1, 5}) {
      std::vector<std::thread> threads;
      settings.workers = Workers(helpers, [&](std::function<void()> f) {
        threads.emplace_back(std::move(f));
      });
      const ReferenceOutputs together = run_kernel(c.mask, c.inputs, settings);
      for (std::thread& t : threads) t.join();
      EXPECT_EQ(alone.out, together.out);
      EXPECT_EQ(alone.lse, together.lse);
      EXPECT_EQ(alone.dq, together.dq);
      EXPECT_EQ(alone.dk, together.dk);
      EXPECT_EQ(alone.dv, together.dv);
    }
  }
}

}  // namespace
}  // namespace ringmax::attention::cpu
