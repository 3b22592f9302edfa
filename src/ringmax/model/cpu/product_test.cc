// Products of operands in parts against float64, on every instruction set of
// this machine.
#include "ringmax/model/cpu/product.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "ringmax/attention/cpu/testing/run_kernel.h"

namespace ringmax::model::cpu {
namespace {

namespace instructions = attention::cpu::testing;

class ProductTest
    : public ::testing::TestWithParam<instructions::InstructionSet> {
 protected:
  instructions::UseInstructionSet use_{GetParam()};
};

INSTANTIATE_TEST_SUITE_P(EveryInstructionSet, ProductTest,
                         ::testing::ValuesIn(instructions::instruction_sets()),
                         [](const auto& info) { return info.param.name(); });

using Floats = std::vector<float>;

Floats random_floats(std::int64_t count, unsigned seed) {
  std::mt19937 bits(seed);
  std::uniform_real_distribution<float> uniform(-1, 1);
  Floats all(static_cast<std::size_t>(count));
  for (float& x : all) x = uniform(bits);
  return all;
}

// A product of parts, each A_p [rows, depth_p], B_p [depth_p, columns].
struct Case {
  std::int64_t rows, columns;
  std::vector<std::int64_t> depths;
  std::string describe() const {
    std::string text =
        std::to_string(rows) + " x " + std::to_string(columns) + " over";
    for (const std::int64_t d : depths) text += " " + std::to_string(d);
    return text;
  }
};

const Case kCases[] = {
    {1, 1, {1}},          {6, 64, {16}},         {37, 83, {16, 16, 16}},
    {12, 16, {5, 9}},     {13, 17, {600, 3}},    {25, 48, {512}},
    {23, 33, {511, 513}}, {11, 100, {1, 2, 40}}, {50, 31, {1030}},
};

struct Operands {
  std::vector<Floats> a, b;
  explicit Operands(const Case& c) {
    unsigned seed = 1;
    for (const std::int64_t depth : c.depths) {
      a.push_back(random_floats(c.rows * depth, seed++));
      b.push_back(random_floats(depth * c.columns, seed++));
    }
  }
};

// As `multiply` takes them. What lies behind an array is NaN.
struct Packed {
  std::vector<Floats> a, b;
  std::vector<Product::Part> parts;
  std::vector<const float*> groups_of_b;
};

Packed pack(const Case& c, const Operands& o, bool panels, bool turned) {
  Packed p;
  const std::size_t n = c.depths.size();
  for (std::size_t i = 0; i < n; ++i) {
    const std::int64_t depth = c.depths[i];
    if (panels) {
      Floats transposed(o.a[i].size());
      for (std::int64_t r = 0; r < c.rows; ++r) {
        for (std::int64_t k = 0; k < depth; ++k) {
          transposed[k * c.rows + r] = o.a[i][r * depth + k];
        }
      }
      p.a.emplace_back(cpu::panels(c.rows) * panel_floats(depth), NAN);
      to_panels(transposed.data(), depth, c.rows, p.a.back().data());
    } else {
      p.a.push_back(o.a[i]);
    }
    p.b.emplace_back(groups(c.columns) * group_floats(depth), NAN);
    if (turned) {
      Floats transposed(o.b[i].size());
      for (std::int64_t k = 0; k < depth; ++k) {
        for (std::int64_t j = 0; j < c.columns; ++j) {
          transposed[j * depth + k] = o.b[i][k * c.columns + j];
        }
      }
      to_turned_groups(transposed.data(), c.columns, depth, p.b.back().data());
    } else {
      to_groups(o.b[i].data(), depth, c.columns, p.b.back().data());
    }
  }
  for (std::size_t i = 0; i < n; ++i) {
    const std::int64_t depth = c.depths[i];
    p.parts.push_back(
        {p.a[i].data(), panels ? panel_floats(depth) : depth, depth});
    for (std::int64_t g = 0; g < groups(c.columns); ++g) {
      p.groups_of_b.push_back(p.b[i].data() + g * group_floats(depth));
    }
  }
  return p;
}

Floats run(const Case& c, const Packed& p, bool panels,
           const attention::cpu::Workers& workers = {}) {
  constexpr float kUntouched = 12345;
  Floats result(static_cast<std::size_t>(c.rows * c.columns) + 64, kUntouched);
  multiply({.rows = c.rows,
            .columns = c.columns,
            .a = p.parts,
            .a_in_panels = panels,
            .b = p.groups_of_b,
            .c = result.data()},
           workers);
  for (std::size_t i = result.size() - 64; i < result.size(); ++i) {
    EXPECT_EQ(result[i], kUntouched) << "written past the end";
  }
  result.resize(result.size() - 64);
  return result;
}

TEST_P(ProductTest, EqualsTheSumInFloat64) {
  for (const Case& c : kCases) {
    SCOPED_TRACE(c.describe());
    const Operands o(c);
    std::int64_t deep = 0;
    for (const std::int64_t d : c.depths) deep += d;
    // Each of the sum's additions rounds to half an ulp of at most its size,
    // which grows like a random walk's.
    const double tolerance = 1e-7 * std::sqrt(static_cast<double>(deep)) *
                             std::sqrt(static_cast<double>(deep) / 9 + 1) * 4;
    for (const bool panels : {false, true}) {
      for (const bool turned : {false, true}) {
        const Floats got = run(c, pack(c, o, panels, turned), panels);
        for (std::int64_t r = 0; r < c.rows; ++r) {
          for (std::int64_t j = 0; j < c.columns; ++j) {
            double want = 0;
            for (std::size_t p = 0; p < c.depths.size(); ++p) {
              for (std::int64_t k = 0; k < c.depths[p]; ++k) {
                want += double{o.a[p][r * c.depths[p] + k]} *
                        double{o.b[p][k * c.columns + j]};
              }
            }
            ASSERT_NEAR(got[r * c.columns + j], want, tolerance)
                << r << ", " << j << " panels " << panels << " turned "
                << turned;
          }
        }
      }
    }
  }
}

TEST_P(ProductTest, HasTheSameBitsForAnyNumberOfThreads) {
  const Case c = {41, 300, {64, 64, 30}};
  const Packed p = pack(c, Operands(c), true, false);
  const Floats alone = run(c, p, true);
  std::vector<std::thread> threads;
  const attention::cpu::Workers workers(
      3, [&](std::function<void()> f) { threads.emplace_back(std::move(f)); });
  const Floats helped = run(c, p, true, workers);
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(alone, helped);
}

}  // namespace
}  // namespace ringmax::model::cpu
