#include "ringmax/graph/canonical_dot.h"

#include <cstddef>
#include <map>
#include <vector>

namespace ringmax::graph {
namespace {

// Dimensions of one operand that become one dimension of the planned dot.
struct Group {
  Dims members;  // neighbours, in order
  std::int64_t size = 1;
};

// Pairs (lhs dim, rhs dim) that are batched or contracted together.
struct Pair {
  Dims lhs, rhs;
  std::int64_t size = 1;
};

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

bool contains(const Dims& dims, std::int64_t d) {
  for (const std::int64_t other : dims) {
    if (other == d) return true;
  }
  return false;
}

// Whether only dimensions of size 1 lie between d and the next one, so that
// they are neighbours once those are gone.
bool neighbours(const Dims& shape, std::int64_t d, std::int64_t next) {
  if (next <= d) return false;
  for (std::int64_t between = d + 1; between < next; ++between) {
    if (shape[at(between)] != 1) return false;
  }
  return true;
}

std::vector<Pair> pairs_of(const Dims& lhs, const Dims& rhs,
                           const Dims& lhs_dims, const Dims& rhs_dims,
                           bool merge) {
  std::vector<Pair> pairs;
  for (std::size_t i = 0; i < lhs_dims.size(); ++i) {
    const std::int64_t size = lhs[at(lhs_dims[i])];
    if (size == 1) continue;
    if (merge && !pairs.empty() &&
        neighbours(lhs, pairs.back().lhs.back(), lhs_dims[i]) &&
        neighbours(rhs, pairs.back().rhs.back(), rhs_dims[i])) {
      pairs.back().lhs.push_back(lhs_dims[i]);
      pairs.back().rhs.push_back(rhs_dims[i]);
      pairs.back().size *= size;
    } else {
      pairs.push_back({{lhs_dims[i]}, {rhs_dims[i]}, size});
    }
  }
  return pairs;
}

std::vector<Group> free_groups(const Dims& shape, const Dims& batch,
                               const Dims& contract, bool merge) {
  std::vector<Group> groups;
  for (std::int64_t d = 0; d < static_cast<std::int64_t>(shape.size()); ++d) {
    if (shape[at(d)] == 1 || contains(batch, d) || contains(contract, d)) {
      continue;
    }
    if (merge && !groups.empty() &&
        neighbours(shape, groups.back().members.back(), d)) {
      groups.back().members.push_back(d);
      groups.back().size *= shape[at(d)];
    } else {
      groups.push_back({{d}, shape[at(d)]});
    }
  }
  return groups;
}

// The operand's planned shape, and where the group that begins with a given
// dimension went.
struct Operand {
  Dims shape;
  std::map<std::int64_t, std::int64_t> position;
};

Operand lay_out(const std::map<std::int64_t, std::int64_t>& size_by_first) {
  Operand operand;
  for (const auto& [first, size] : size_by_first) {
    operand.position[first] = static_cast<std::int64_t>(operand.shape.size());
    operand.shape.push_back(size);
  }
  return operand;
}

}  // namespace

DotPlan plan_dot(const Dims& lhs, const Dims& rhs, const DotAttr& attr,
                 bool merge) {
  const std::vector<Pair> batch =
      pairs_of(lhs, rhs, attr.lhs_batch, attr.rhs_batch, merge);
  std::vector<Pair> contract =
      pairs_of(lhs, rhs, attr.lhs_contract, attr.rhs_contract, merge);
  if (contract.empty() && !attr.lhs_contract.empty()) {
    // An outer product: keep one contracted dimension, so that it stays a
    // matrix product.
    contract.push_back({{attr.lhs_contract[0]}, {attr.rhs_contract[0]}, 1});
  }
  const std::vector<Group> lhs_free =
      free_groups(lhs, attr.lhs_batch, attr.lhs_contract, merge);
  const std::vector<Group> rhs_free =
      free_groups(rhs, attr.rhs_batch, attr.rhs_contract, merge);

  DotPlan plan;
  plan.attr.precision = attr.precision;
  std::map<std::int64_t, std::int64_t> lhs_sizes, rhs_sizes;
  const auto add_pairs = [&](const std::vector<Pair>& pairs) {
    for (const Pair& pair : pairs) {
      lhs_sizes[pair.lhs[0]] = pair.size;
      rhs_sizes[pair.rhs[0]] = pair.size;
    }
  };
  add_pairs(batch);
  add_pairs(contract);
  for (const Group& group : lhs_free) lhs_sizes[group.members[0]] = group.size;
  for (const Group& group : rhs_free) rhs_sizes[group.members[0]] = group.size;
  const Operand l = lay_out(lhs_sizes);
  const Operand r = lay_out(rhs_sizes);
  plan.lhs = l.shape;
  plan.rhs = r.shape;
  for (const Pair& pair : batch) {
    plan.attr.lhs_batch.push_back(l.position.at(pair.lhs[0]));
    plan.attr.rhs_batch.push_back(r.position.at(pair.rhs[0]));
    plan.result.push_back(pair.size);
  }
  for (const Pair& pair : contract) {
    plan.attr.lhs_contract.push_back(l.position.at(pair.lhs[0]));
    plan.attr.rhs_contract.push_back(r.position.at(pair.rhs[0]));
  }
  for (const Group& group : lhs_free) plan.result.push_back(group.size);
  for (const Group& group : rhs_free) plan.result.push_back(group.size);
  return plan;
}

}  // namespace ringmax::graph
