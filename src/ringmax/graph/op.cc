#include "ringmax/graph/op.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "ringmax/base/error.h"

namespace ringmax::graph {
namespace {

constexpr bool kDiff = true;
constexpr bool kNoDiff = false;
constexpr bool kCheap = true;
constexpr bool kCostly = false;

constexpr std::array<OpInfo, static_cast<std::size_t>(Op::kCount)> kOpTable = {{
    {Op::kParameter, "parameter", kNoDiff, kCheap},
    {Op::kConstant, "constant", kNoDiff, kCheap},
    {Op::kIota, "iota", kNoDiff, kCheap},
    {Op::kNegate, "negate", kDiff, kCheap},
    {Op::kAbs, "abs", kDiff, kCheap},
    {Op::kSign, "sign", kNoDiff, kCheap},
    {Op::kExp, "exponential", kDiff, kCostly},
    {Op::kLog, "log", kDiff, kCostly},
    {Op::kLog1p, "log_plus_one", kDiff, kCostly},
    {Op::kSqrt, "sqrt", kDiff, kCostly},
    {Op::kRsqrt, "rsqrt", kDiff, kCostly},
    {Op::kTanh, "tanh", kDiff, kCostly},
    {Op::kLogistic, "logistic", kDiff, kCostly},
    {Op::kSine, "sine", kDiff, kCostly},
    {Op::kCosine, "cosine", kDiff, kCostly},
    {Op::kFloor, "floor", kNoDiff, kCheap},
    {Op::kNot, "not", kNoDiff, kCheap},
    {Op::kIsFinite, "is_finite", kNoDiff, kCheap},
    {Op::kConvert, "convert", kDiff, kCheap},
    {Op::kAdd, "add", kDiff, kCostly},
    {Op::kSubtract, "subtract", kDiff, kCostly},
    {Op::kMultiply, "multiply", kDiff, kCostly},
    {Op::kDivide, "divide", kDiff, kCostly},
    {Op::kMaximum, "maximum", kDiff, kCostly},
    {Op::kMinimum, "minimum", kDiff, kCostly},
    {Op::kPower, "power", kDiff, kCostly},
    {Op::kRemainder, "remainder", kNoDiff, kCheap},
    {Op::kAnd, "and", kNoDiff, kCheap},
    {Op::kOr, "or", kNoDiff, kCheap},
    {Op::kXor, "xor", kNoDiff, kCheap},
    {Op::kShiftLeft, "shift_left", kNoDiff, kCheap},
    {Op::kShiftRightLogical, "shift_right_logical", kNoDiff, kCheap},
    {Op::kCompare, "compare", kNoDiff, kCheap},
    {Op::kSelect, "select", kDiff, kCostly},
    {Op::kDotGeneral, "dot_general", kDiff, kCostly},
    {Op::kReduce, "reduce", kDiff, kCostly},
    {Op::kReshape, "reshape", kDiff, kCheap},
    {Op::kTranspose, "transpose", kDiff, kCheap},
    {Op::kBroadcastInDim, "broadcast_in_dim", kDiff, kCheap},
    {Op::kConcatenate, "concatenate", kDiff, kCheap},
    {Op::kSlice, "slice", kDiff, kCheap},
    {Op::kPad, "pad", kDiff, kCheap},
    {Op::kReverse, "reverse", kDiff, kCheap},
    {Op::kDynamicSlice, "dynamic_slice", kDiff, kCheap},
    {Op::kDynamicUpdateSlice, "dynamic_update_slice", kDiff, kCostly},
    {Op::kTakeRows, "gather", kDiff, kCostly},
    {Op::kScatterAddRows, "scatter", kDiff, kCostly},
    {Op::kScan, "scan", kDiff, kCostly},
    {Op::kWhile, "while", kNoDiff, kCostly},
    {Op::kCond, "cond", kDiff, kCostly},
    {Op::kCustomVjp, "custom_vjp", kDiff, kCostly},
    {Op::kCustomCall, "custom_call", kNoDiff, kCostly},
    {Op::kOptimizationBarrier, "optimization_barrier", kDiff, kCheap},
    {Op::kStopGradient, "stop_gradient", kDiff, kCheap},
    {Op::kCheckpointName, "checkpoint_name", kDiff, kCheap},
    {Op::kShardingConstraint, "sharding_constraint", kDiff, kCheap},
    {Op::kManualComputation, "manual_computation", kNoDiff, kCostly},
    {Op::kPartitionId, "partition_id", kNoDiff, kCheap},
    {Op::kCollectivePermute, "collective_permute", kNoDiff, kCostly},
    {Op::kAllGather, "all_gather", kNoDiff, kCostly},
    {Op::kReduceScatter, "reduce_scatter", kNoDiff, kCostly},
    {Op::kAllReduce, "all_reduce", kNoDiff, kCostly},
    {Op::kAllToAll, "all_to_all", kNoDiff, kCostly},
}};

}  // namespace

const OpInfo& op_info(Op op) {
  const OpInfo& info = kOpTable.at(static_cast<std::size_t>(op));
  RINGMAX_CHECK(info.op == op);
  return info;
}

bool operator==(const ConstantAttr& a, const ConstantAttr& b) {
  if (a.splat != b.splat) return false;
  if (a.splat) {
    // NaN constants compare by being NaN, so that they can be shared too.
    // Zeros of different sign do not: 1 / -0 is not 1 / 0.
    const bool same_number =
        (a.number == b.number &&
         std::signbit(a.number) == std::signbit(b.number)) ||
        (a.number != a.number && b.number != b.number);
    return same_number && a.integer == b.integer;
  }
  const auto x = a.dense.bytes();
  const auto y = b.dense.bytes();
  return a.dense.shape() == b.dense.shape() &&
         std::equal(x.begin(), x.end(), y.begin(), y.end());
}

}  // namespace ringmax::graph
