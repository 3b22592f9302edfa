// The op set of the graph IR and the attributes an op carries.
//
// One enumerator per op; the table in op.cc says what each is called in
// StableHLO and whether it has a gradient. Attributes are a variant of plain
// structs with value equality, so that common-subexpression elimination can
// compare nodes.
#ifndef RINGMAX_GRAPH_OP_H_
#define RINGMAX_GRAPH_OP_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "ringmax/base/array.h"
#include "ringmax/base/shape.h"
#include "ringmax/mesh/mesh.h"

namespace ringmax::graph {

enum class Op : std::uint8_t {
  // Sources.
  kParameter,
  kConstant,
  kIota,
  // Elementwise, one operand.
  kNegate,
  kAbs,
  kSign,
  kExp,
  kLog,
  kLog1p,
  kSqrt,
  kRsqrt,
  kTanh,
  kLogistic,
  kSine,
  kCosine,
  kFloor,
  kNot,
  kIsFinite,
  kConvert,
  // Elementwise, two operands.
  kAdd,
  kSubtract,
  kMultiply,
  kDivide,
  kMaximum,
  kMinimum,
  kPower,
  kRemainder,
  kAnd,
  kOr,
  kXor,
  kShiftLeft,
  kShiftRightLogical,
  kCompare,
  kSelect,
  // Contractions, reductions, shape.
  kDotGeneral,
  kReduce,
  kReshape,
  kTranspose,
  kBroadcastInDim,
  kConcatenate,
  kSlice,
  kPad,
  kReverse,
  kDynamicSlice,
  kDynamicUpdateSlice,
  kTakeRows,
  kScatterAddRows,
  // Control.
  kScan,
  kWhile,
  kCond,
  kCustomVjp,
  kCustomCall,
  kOptimizationBarrier,
  kStopGradient,
  kCheckpointName,
  // Parallel.
  kShardingConstraint,
  kManualComputation,
  kPartitionId,
  kCollectivePermute,
  kAllGather,
  kReduceScatter,
  kAllReduce,
  kAllToAll,
  kCount,
};

struct OpInfo {
  Op op;
  std::string_view name;  // StableHLO mnemonic where there is one
  bool differentiable;    // has a rule in vjp_rules.cc
  // Cheaper to compute again than to keep for the backward pass.
  bool cheap;
};

const OpInfo& op_info(Op op);
inline std::string_view op_name(Op op) { return op_info(op).name; }

enum class CompareDirection : std::uint8_t { kEq, kNe, kLt, kLe, kGt, kGe };
enum class ReduceKind : std::uint8_t { kSum, kMax, kMin, kAnd, kOr };
// Default: what the platform does fastest (one bfloat16 pass on a TPU's MXU).
enum class Precision : std::uint8_t { kDefault, kHigh, kHighest };

struct ParameterAttr {
  std::string name;  // empty for block parameters
  friend bool operator==(const ParameterAttr&, const ParameterAttr&) = default;
};
// A splat of one number, or a whole literal.
struct ConstantAttr {
  bool splat = true;
  double number = 0;         // floats and bool
  std::int64_t integer = 0;  // integers
  HostArray dense;
  friend bool operator==(const ConstantAttr& a, const ConstantAttr& b);
};
// One list of dimensions: iota {dim}, reduce, transpose permutation,
// broadcast_in_dim, reverse, concatenate {dim}.
struct DimsAttr {
  Dims dims;
  ReduceKind reduce = ReduceKind::kSum;
  friend bool operator==(const DimsAttr&, const DimsAttr&) = default;
};
struct CompareAttr {
  CompareDirection direction = CompareDirection::kEq;
  friend bool operator==(const CompareAttr&, const CompareAttr&) = default;
};
struct DotAttr {
  Dims lhs_batch, rhs_batch, lhs_contract, rhs_contract;
  Precision precision = Precision::kDefault;
  friend bool operator==(const DotAttr&, const DotAttr&) = default;
};
// slice: start/limit/stride; pad: low/high/interior; dynamic_slice: sizes in
// limit.
struct WindowAttr {
  Dims start, limit, stride;
  friend bool operator==(const WindowAttr&, const WindowAttr&) = default;
};
struct NameAttr {
  std::string name;
  friend bool operator==(const NameAttr&, const NameAttr&) = default;
};
struct CustomCallAttr {
  std::string target;
  // MLIR attribute text of backend_config: `{block_q = 128 : i32}` for
  // api_version 4, a quoted string for api_version 1.
  std::string backend_config;
  int api_version = 4;
  bool has_side_effect = false;
  // (result index, operand index) pairs that share a buffer.
  std::vector<std::pair<std::int64_t, std::int64_t>> aliases;
  friend bool operator==(const CustomCallAttr&,
                         const CustomCallAttr&) = default;
};
struct ShardingAttr {
  mesh::PartitionSpec spec;
  // What the cotangent is constrained to.
  mesh::PartitionSpec backward_spec;
  friend bool operator==(const ShardingAttr&, const ShardingAttr&) = default;
};
struct ManualAttr {
  std::vector<mesh::PartitionSpec> in_specs, out_specs;
  std::vector<std::string> axes;
  friend bool operator==(const ManualAttr&, const ManualAttr&) = default;
};
// Collectives act over mesh axes of the enclosing manual computation; `dim` is
// the tensor dimension gathered, scattered or split, `concat_dim` the one that
// all_to_all puts together.
struct CollectiveAttr {
  std::vector<std::string> axes;
  // collective_permute: (source, target) coordinates along the axis.
  std::vector<std::pair<std::int64_t, std::int64_t>> pairs;
  std::int64_t dim = 0;
  std::int64_t concat_dim = 0;
  ReduceKind reduce = ReduceKind::kSum;
  friend bool operator==(const CollectiveAttr&,
                         const CollectiveAttr&) = default;
};

// Which intermediates of a loop body survive until the backward pass; all
// others are computed again from the body's inputs.
struct RematPolicy {
  enum class Kind : std::uint8_t { kSaveAll, kSaveNothing, kSaveNames };
  Kind kind = Kind::kSaveAll;
  std::vector<std::string> names;  // of checkpoint_name, for kSaveNames
  friend bool operator==(const RematPolicy&, const RematPolicy&) = default;
};
// Operands: carry..., xs..., captures... Block parameters: index, carry...,
// slices of xs..., captures... Results: carry..., stacked...
struct ScanAttr {
  std::int64_t length = 0;
  std::int64_t carry = 0;
  std::int64_t xs = 0;
  bool reverse = false;
  // Written out step by step, without a loop: nothing is stacked then.
  bool unroll = false;
  // With unroll: a step's ops are not merged with equal ones of other steps and
  // other scans, which would undo rematerialisation.
  bool fence = false;
  RematPolicy remat;
  friend bool operator==(const ScanAttr&, const ScanAttr&) = default;
};
// while: `count` carried operands, then captures.
// custom_vjp: `count` outputs, then residuals named by `names`; `inputs`
// explicit operands.
struct RegionAttr {
  std::int64_t count = 0;
  std::int64_t inputs = 0;
  std::vector<std::string> names;
  friend bool operator==(const RegionAttr&, const RegionAttr&) = default;
};

using Attributes =
    std::variant<std::monostate, ParameterAttr, ConstantAttr, DimsAttr,
                 CompareAttr, DotAttr, WindowAttr, NameAttr, CustomCallAttr,
                 ShardingAttr, ManualAttr, CollectiveAttr, ScanAttr,
                 RegionAttr>;

}  // namespace ringmax::graph

#endif  // RINGMAX_GRAPH_OP_H_
