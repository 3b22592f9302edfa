#include "ringmax/graph/canonical_dot.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace ringmax::graph {
namespace {

struct Tensor {
  Dims dims;
  std::vector<std::int64_t> values;
};

Tensor counting(Dims dims, std::int64_t seed) {
  Tensor t{std::move(dims), {}};
  for (std::int64_t i = 0; i < element_count(t.dims); ++i) {
    t.values.push_back((i * 7 + seed) % 11 - 5);
  }
  return t;
}

std::size_t offset(const Dims& dims, const Dims& index) {
  std::int64_t at = 0;
  for (std::size_t d = 0; d < dims.size(); ++d) at = at * dims[d] + index[d];
  return static_cast<std::size_t>(at);
}

bool next_index(const Dims& dims, Dims* index) {
  for (std::size_t d = dims.size(); d-- > 0;) {
    if (++(*index)[d] < dims[d]) return true;
    (*index)[d] = 0;
  }
  return false;
}

Dims free_dims(const Dims& shape, const Dims& batch, const Dims& contract) {
  Dims free;
  for (std::int64_t d = 0; d < static_cast<std::int64_t>(shape.size()); ++d) {
    if (std::count(batch.begin(), batch.end(), d) == 0 &&
        std::count(contract.begin(), contract.end(), d) == 0) {
      free.push_back(d);
    }
  }
  return free;
}

// dot_general by its definition.
Tensor dot(const Tensor& a, const Tensor& b, const DotAttr& attr) {
  const Dims a_free = free_dims(a.dims, attr.lhs_batch, attr.lhs_contract);
  const Dims b_free = free_dims(b.dims, attr.rhs_batch, attr.rhs_contract);
  const auto size = [](const Tensor& t, std::int64_t d) {
    return t.dims[static_cast<std::size_t>(d)];
  };
  Tensor out;
  Dims contracted;
  for (const auto d : attr.lhs_batch) out.dims.push_back(size(a, d));
  for (const auto d : a_free) out.dims.push_back(size(a, d));
  for (const auto d : b_free) out.dims.push_back(size(b, d));
  for (const auto d : attr.lhs_contract) contracted.push_back(size(a, d));
  Dims index(out.dims.size(), 0);
  do {
    Dims at_a(a.dims.size(), 0), at_b(b.dims.size(), 0);
    std::size_t n = 0;
    for (std::size_t i = 0; i < attr.lhs_batch.size(); ++i, ++n) {
      at_a[static_cast<std::size_t>(attr.lhs_batch[i])] = index[n];
      at_b[static_cast<std::size_t>(attr.rhs_batch[i])] = index[n];
    }
    for (const auto d : a_free) at_a[static_cast<std::size_t>(d)] = index[n++];
    for (const auto d : b_free) at_b[static_cast<std::size_t>(d)] = index[n++];
    std::int64_t sum = 0;
    Dims inner(contracted.size(), 0);
    do {
      for (std::size_t i = 0; i < inner.size(); ++i) {
        at_a[static_cast<std::size_t>(attr.lhs_contract[i])] = inner[i];
        at_b[static_cast<std::size_t>(attr.rhs_contract[i])] = inner[i];
      }
      sum += a.values[offset(a.dims, at_a)] * b.values[offset(b.dims, at_b)];
    } while (next_index(contracted, &inner));
    out.values.push_back(sum);
  } while (next_index(out.dims, &index));
  return out;
}

struct Case {
  Dims lhs, rhs;
  DotAttr attr;
};

DotAttr attr(Dims lb, Dims rb, Dims lc, Dims rc) {
  return DotAttr{std::move(lb), std::move(rb), std::move(lc), std::move(rc),
                 Precision::kHigh};
}

std::vector<Case> cases() {
  return {
      {{1, 4, 3}, {3, 2, 5}, attr({}, {}, {2}, {0})},
      {{1, 4, 2, 3}, {2, 3, 5}, attr({}, {}, {2, 3}, {0, 1})},
      // Contracted in another order: must not merge.
      {{4, 2, 3}, {3, 2, 5}, attr({}, {}, {1, 2}, {1, 0})},
      {{1, 4, 2, 3}, {1, 5, 2, 3}, attr({0, 2}, {0, 2}, {3}, {3})},
      {{2, 3, 4, 5}, {2, 3, 5, 6}, attr({0, 1}, {0, 1}, {3}, {2})},
      {{2, 3, 4}, {3, 2, 4}, attr({0, 1}, {1, 0}, {2}, {2})},
      // Outer products, of sizes 1 too.
      {{3}, {4}, attr({}, {}, {}, {})},
      {{3, 1}, {1, 4}, attr({}, {}, {1}, {0})},
      {{2, 1, 3}, {1, 4}, attr({}, {}, {1}, {0})},
      {{1, 1}, {1, 1}, attr({}, {}, {1}, {0})},
      {{1}, {1}, attr({0}, {0}, {}, {})},
      // Contracted dimension between two free ones, and first.
      {{2, 3, 4}, {3, 5}, attr({}, {}, {1}, {0})},
      {{3, 2, 4}, {5, 3}, attr({}, {}, {0}, {1})},
      {{2, 1, 3, 1, 4}, {4, 1, 3, 1}, attr({}, {}, {2, 4}, {2, 0})},
      {{2, 1, 3, 4}, {1, 3, 1, 4}, attr({}, {}, {2, 3}, {1, 3})},
      {{6}, {6}, attr({}, {}, {0}, {0})},
  };
}

TEST(CanonicalDot, MeansTheSame) {
  for (const Case& c : cases()) {
    for (const bool merge : {false, true}) {
      const DotPlan plan = plan_dot(c.lhs, c.rhs, c.attr, merge);
      ASSERT_EQ(element_count(plan.lhs), element_count(c.lhs));
      ASSERT_EQ(element_count(plan.rhs), element_count(c.rhs));
      Tensor a = counting(c.lhs, 1), b = counting(c.rhs, 4);
      const Tensor expected = dot(a, b, c.attr);
      a.dims = plan.lhs;
      b.dims = plan.rhs;
      const Tensor got = dot(a, b, plan.attr);
      EXPECT_EQ(got.values, expected.values)
          << dims_string(c.lhs) << " " << dims_string(c.rhs);
      EXPECT_EQ(got.dims, plan.result);
      EXPECT_EQ(plan.attr.precision, Precision::kHigh);
    }
  }
}

TEST(CanonicalDot, IsItsOwnPlan) {
  for (const Case& c : cases()) {
    for (const bool merge : {false, true}) {
      const DotPlan once = plan_dot(c.lhs, c.rhs, c.attr, merge);
      const DotPlan twice = plan_dot(once.lhs, once.rhs, once.attr, merge);
      EXPECT_EQ(twice.lhs, once.lhs);
      EXPECT_EQ(twice.rhs, once.rhs);
      EXPECT_EQ(twice.attr, once.attr);
    }
  }
}

// A projection of batch-1 activations, and its two gradients, reach the
// compiler as plain matrix products.
TEST(CanonicalDot, ProjectionsAreTwoDimensional) {
  const auto expect_matrices = [](const DotPlan& plan) {
    EXPECT_EQ(plan.lhs.size(), 2u);
    EXPECT_EQ(plan.rhs.size(), 2u);
    EXPECT_EQ(plan.result.size(), 2u);
  };
  // [B=1,S,E] x [E,H,D], dy x w over (H,D), x^T dy over (B,S).
  expect_matrices(
      plan_dot({1, 128, 64}, {64, 4, 16}, attr({}, {}, {2}, {0}), true));
  expect_matrices(plan_dot({1, 128, 4, 16}, {64, 4, 16},
                           attr({}, {}, {2, 3}, {1, 2}), true));
  expect_matrices(plan_dot({2, 128, 64}, {2, 128, 4, 16},
                           attr({}, {}, {0, 1}, {0, 1}), true));
}

TEST(CanonicalDot, MergesNothingUnlessAsked) {
  const DotPlan plan =
      plan_dot({2, 3, 4}, {4, 5, 6}, attr({}, {}, {2}, {0}), false);
  EXPECT_EQ(plan.lhs, (Dims{2, 3, 4}));
  EXPECT_EQ(plan.rhs, (Dims{4, 5, 6}));
}

TEST(CanonicalDot, KeepsEmptyDimensions) {
  const DotPlan plan =
      plan_dot({0, 3}, {3, 2, 2}, attr({}, {}, {1}, {0}), true);
  EXPECT_EQ(plan.result, (Dims{0, 4}));
}

}  // namespace
}  // namespace ringmax::graph
