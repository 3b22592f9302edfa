// A block language for accelerator kernels, written once and lowered twice: to
// Mosaic text for a TPU (mosaic.h) and to StableHLO (twin.h), which runs
// anywhere and proves the kernel's numbers without one.
//
// A Kernel is a grid: parallel dimensions, then one sequential walk, whose
// length may be known only when the program runs. Arrays in HBM are seen
// through windows: an index map takes the grid ids (and prefetched integers) to
// the block that a step sees. What one step leaves in scratch, the next one of
// the same walk finds. The body is three regions: `begin` runs where its
// predicate says that a row of the walk begins, then `step`, then `end` where a
// row ends. A lowering for machines without a sequential grid can therefore
// make the walk a loop and keep scratch in registers.
//
// Values are SSA: scalars (rank 0) and vectors of static shape. No strings
// until the printer, no devices. Building throws kInvalidArgument for what does
// not fit. See docs/kernels.md for how to write one.
#ifndef RINGMAX_KERNEL_KERNEL_H_
#define RINGMAX_KERNEL_KERNEL_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "ringmax/base/shape.h"
#include "ringmax/graph/op.h"

namespace ringmax::kernel {

class Kernel;

enum class Op : std::uint8_t {
  kArgument,
  kConstant,  // number, splat
  kIota,      // dims = {dim}
  kNegate,
  kAbs,
  kExp2,
  kLog,
  kTanh,
  kConvert,
  kAdd,
  kSubtract,
  kMultiply,
  kDivide,
  kMaximum,
  kMinimum,
  kRemainder,
  kAnd,
  kOr,
  kXor,
  kShiftRight,
  kCompare,
  kSelect,
  kMatmul,
  kReduce,     // dims = {dim}; the dimension stays with size 1
  kBroadcast,  // a scalar, or dimensions of size 1
  kTranspose,  // two dimensions
  kConcatenate,
  kSlice,       // dims = offsets
  kMultipleOf,  // dims = {n}: a promise to the compiler
  kLoad,        // dims = sizes
  kLoadScalar,
  kStore,  // dims = sizes
  kIf,
  kFor,
};

// A handle; trivially destructible.
struct Value {
  Kernel* kernel = nullptr;
  std::int32_t id = -1;

  bool valid() const { return kernel != nullptr; }
  const Shape& shape() const;
  const Dims& dims() const { return shape().dims; }
  std::int64_t dim(std::size_t i) const { return shape().dims.at(i); }
  DType dtype() const { return shape().dtype; }
  bool scalar() const { return shape().dims.empty(); }
};
using Values = std::vector<Value>;

using RegionId = std::int32_t;
using NodeId = std::int32_t;
using RefId = std::int32_t;

// A window, a scratch array or a prefetched one.
struct Ref {
  Kernel* kernel = nullptr;
  RefId id = -1;
};

// A matmul of two matrices: which dimension of each is summed.
struct MatmulAttr {
  std::int64_t lhs_contract = 1;
  std::int64_t rhs_contract = 0;
  // kDefault: one pass with operands rounded to bfloat16. kHighest: float32.
  graph::Precision precision = graph::Precision::kDefault;
};

struct Node {
  Op op = Op::kConstant;
  std::vector<std::int32_t> operands;
  std::vector<std::int32_t> results;
  std::vector<RegionId> regions;
  RefId ref = -1;
  Dims dims;
  double number = 0;
  graph::CompareDirection compare = graph::CompareDirection::kEq;
  graph::ReduceKind reduce = graph::ReduceKind::kSum;
  MatmulAttr matmul;
};

struct Region {
  RegionId parent = -1;
  std::vector<std::int32_t> arguments;
  std::vector<NodeId> nodes;
  std::vector<std::int32_t> yields;
};

enum class RefKind : std::uint8_t { kPrefetch, kInput, kOutput, kScratch };

struct RefInfo {
  RefKind kind = RefKind::kScratch;
  std::string name;
  Shape array;  // in HBM; of a scratch or prefetched array, all of it
  Dims block;   // what a step sees
  RegionId index_map = -1;
  RefId alias = -1;  // of an output: the input whose buffer it takes over

  Shape window() const { return Shape(array.dtype, block); }
};

// What one call costs, for the scheduler: without it, XLA takes a kernel to be
// free and hides nothing behind it.
struct Cost {
  double flops = 0;
  double transcendentals = 0;
  double bytes = 0;
};

// What begins a window or a slice of a ref along one dimension.
struct Index {
  Index() = default;
  Index(std::int64_t offset) : offset(offset) {}  // NOLINT: implicit
  Index(int offset) : offset(offset) {}           // NOLINT: implicit
  Index(Value dynamic) : dynamic(dynamic) {}      // NOLINT: implicit

  std::int64_t offset = 0;
  Value dynamic;
};
using Indices = std::vector<Index>;

using Body = std::function<void(const Values& grid)>;
using Predicate = std::function<Value(const Values& grid)>;
using IndexMap = std::function<Values(const Values& grid)>;

class Kernel {
 public:
  explicit Kernel(std::string name);
  Kernel(const Kernel&) = delete;
  Kernel& operator=(const Kernel&) = delete;

  const std::string& name() const { return name_; }

  // --- Declarations, in this order: grid, prefetch, windows, scratch. --------
  // Outer dimensions, whose steps may run in any order and on several cores.
  void parallel(std::int64_t size);
  // The innermost dimension. With `dynamic`, a call takes its length (an i32
  // scalar, 0 <= length <= steps) as first operand.
  void walk(std::int64_t steps, bool dynamic);
  // Integers in scalar memory, there before the first step: i32, rank 1.
  Ref prefetch(std::string name, std::int64_t size);
  // `block` has the array's rank and divides it. The map returns one i32 block
  // index per dimension.
  Ref input(std::string name, Shape array, Dims block, const IndexMap& map);
  // A block is written when the walk leaves it. Returning to a block that was
  // left is an error that a TPU does not report; the twin answers with NaN.
  // Blocks that no step visits hold garbage.
  Ref output(std::string name, Shape array, Dims block, const IndexMap& map);
  // `output` takes over the buffer of `input`: unvisited blocks keep its
  // values. Their windows must be at the same block in every step.
  void alias(Ref output, Ref input);
  Ref scratch(std::string name, Shape shape);

  void begin(const Predicate& when, const Body& body);
  void step(const Body& body);
  void end(const Predicate& when, const Body& body);

  void set_cost(Cost cost) { cost_ = cost; }
  // Scoped VMEM granted to the call; 0: the compiler's default (16 MiB).
  void set_vmem_limit_bytes(std::int64_t bytes) { vmem_limit_ = bytes; }
  // Windows (twice where they move) and scratch, padded to tiles; without
  // the compiler's own temporaries.
  std::int64_t vmem_bytes() const;

  // --- For builders and lowerings. -------------------------------------------
  Value add(Node node, Shape shape);
  NodeId add_node(Node node, const std::vector<Shape>& results);
  RegionId open_region(const std::vector<Shape>& arguments);
  void close_region(const Values& yields);
  Values region_arguments(RegionId id);
  void check_visible(Value value) const;

  const std::vector<std::int64_t>& parallel_sizes() const { return parallel_; }
  std::int64_t walk_steps() const { return walk_steps_; }
  bool walk_dynamic() const { return walk_dynamic_; }
  std::int64_t grid_rank() const {
    return static_cast<std::int64_t>(parallel_.size()) + 1;
  }
  const std::vector<RefInfo>& refs() const { return refs_; }
  const RefInfo& ref(RefId id) const {
    return refs_.at(static_cast<std::size_t>(id));
  }
  std::vector<RefId> refs_of(RefKind kind) const;
  const Node& node(NodeId id) const {
    return nodes_[static_cast<std::size_t>(id)];
  }
  const Region& region(RegionId id) const {
    return regions_[static_cast<std::size_t>(id)];
  }
  const Shape& value_shape(std::int32_t id) const {
    return shapes_[static_cast<std::size_t>(id)];
  }
  const Cost& cost() const { return cost_; }
  std::int64_t vmem_limit_bytes() const { return vmem_limit_; }
  // -1 where the kernel has none.
  RegionId begin_when() const { return begin_when_; }
  RegionId begin_body() const { return begin_; }
  RegionId step_body() const { return step_; }
  RegionId end_when() const { return end_when_; }
  RegionId end_body() const { return end_; }
  // Refs that the region stores to, nested regions included; ascending.
  std::vector<RefId> stored_refs(RegionId id) const;
  // Throws kInvalidArgument unless the kernel can be lowered.
  void check_complete() const;

 private:
  RegionId grid_region(const std::function<Values(const Values&)>& body);
  Ref add_ref(RefInfo info);
  Ref window(RefKind kind, std::string name, Shape array, Dims block,
             const IndexMap& map);

  std::string name_;
  std::vector<std::int64_t> parallel_;
  std::int64_t walk_steps_ = 0;
  bool walk_dynamic_ = false;
  std::vector<RefInfo> refs_;
  std::vector<Node> nodes_;
  std::vector<Region> regions_;
  std::vector<Shape> shapes_;              // of values
  std::vector<RegionId> region_of_value_;  // of values
  RegionId current_ = -1;
  RegionId begin_when_ = -1, begin_ = -1, step_ = -1;
  RegionId end_when_ = -1, end_ = -1;
  Cost cost_;
  std::int64_t vmem_limit_ = 0;
};

}  // namespace ringmax::kernel

#endif  // RINGMAX_KERNEL_KERNEL_H_
