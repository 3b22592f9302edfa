// Ops without regions of the graph's own.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>

#include "ringmax/base/error.h"
#include "ringmax/graph/canonical_dot.h"
#include "ringmax/graph/print_text.h"
#include "ringmax/graph/printer.h"

namespace ringmax::graph {
namespace {

constexpr std::array<std::string_view, 6> kDirections = {"EQ", "NE", "LT",
                                                         "LE", "GT", "GE"};
constexpr std::array<std::string_view, 3> kPrecisions = {"DEFAULT", "HIGH",
                                                         "HIGHEST"};

std::string_view compare_type(DType dtype) {
  if (is_float(dtype)) return "FLOAT";
  return is_signed_int(dtype) ? "SIGNED" : "UNSIGNED";
}

std::string window_text(const WindowAttr& window) {
  std::vector<std::string> parts;
  for (std::size_t d = 0; d < window.start.size(); ++d) {
    parts.push_back(window.stride[d] == 1
                        ? fmt::format("{}:{}", window.start[d], window.limit[d])
                        : fmt::format("{}:{}:{}", window.start[d],
                                      window.limit[d], window.stride[d]));
  }
  return fmt::format("[{}]", fmt::join(parts, ", "));
}

Dims counting(std::int64_t begin, std::int64_t end) {
  Dims dims;
  for (std::int64_t d = begin; d < end; ++d) dims.push_back(d);
  return dims;
}

// Row-major, which is what kernels read and write: a compiler is free to choose
// another layout for a call that does not say.
std::string layouts_text(const std::vector<Shape>& shapes) {
  std::vector<std::string> layouts;
  for (const Shape& shape : shapes) {
    Dims order;
    for (std::int64_t d = shape.rank(); d-- > 0;) order.push_back(d);
    layouts.push_back(order.empty()
                          ? "dense<> : tensor<0xindex>"
                          : fmt::format("dense<[{}]> : tensor<{}xindex>",
                                        list_text(order), order.size()));
  }
  return fmt::format("[{}]", fmt::join(layouts, ", "));
}

bool is_bare_symbol(std::string_view name) {
  if (name.empty()) return false;
  const auto letter = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
  };
  if (!letter(name[0])) return false;
  for (const char c : name) {
    if (!letter(c) && !(c >= '0' && c <= '9') && c != '$' && c != '.') {
      return false;
    }
  }
  return true;
}

}  // namespace

// Ops that are "mnemonic operands : type", with the result's type where all
// operands share it, else with a signature. Returns false for other ops.
bool Printer::simple_op(NodeId id) {
  const Node& n = graph_.node(id);
  const std::string type = type_text(n.results[0]);
  switch (n.op) {
    case Op::kNegate:
    case Op::kAbs:
    case Op::kSign:
    case Op::kExp:
    case Op::kLog:
    case Op::kLog1p:
    case Op::kSqrt:
    case Op::kRsqrt:
    case Op::kTanh:
    case Op::kLogistic:
    case Op::kSine:
    case Op::kCosine:
    case Op::kFloor:
    case Op::kNot:
    case Op::kAdd:
    case Op::kSubtract:
    case Op::kMultiply:
    case Op::kDivide:
    case Op::kMaximum:
    case Op::kMinimum:
    case Op::kPower:
    case Op::kRemainder:
    case Op::kAnd:
    case Op::kOr:
    case Op::kXor:
    case Op::kShiftLeft:
    case Op::kShiftRightLogical:
      define(id, fmt::format("stablehlo.{} {} : {}", op_name(n.op),
                             operand_names(n), type));
      return true;
    case Op::kIsFinite:
    case Op::kConvert:
    case Op::kReshape:
      define(id, fmt::format("stablehlo.{} {} : {}", op_name(n.op),
                             operand_names(n), signature(n)));
      return true;
    case Op::kConstant:
      define(id,
             fmt::format("stablehlo.constant {} : {}",
                         constant_text(n.attr<ConstantAttr>(), n.results[0]),
                         type));
      return true;
    case Op::kIota:
      define(id, fmt::format("stablehlo.iota dim = {} : {}",
                             n.attr<DimsAttr>().dims[0], type));
      return true;
    case Op::kPartitionId:
      define(id, fmt::format("stablehlo.partition_id : {}", type));
      return true;
    default:
      return false;
  }
}

void Printer::compare(NodeId id) {
  const Node& n = graph_.node(id);
  const auto direction =
      static_cast<std::size_t>(n.attr<CompareAttr>().direction);
  define(id, fmt::format("stablehlo.compare {}, {}, {} : {}",
                         kDirections.at(direction), operand_names(n),
                         compare_type(n.operands[0].dtype()), signature(n)));
}

void Printer::select(NodeId id) {
  const Node& n = graph_.node(id);
  define(id, fmt::format("stablehlo.select {} : {}, {}", operand_names(n),
                         type_text(n.operands[0].shape()),
                         type_text(n.results[0])));
}

std::string Printer::reshaped(const std::string& value, const Shape& from,
                              const Dims& to) {
  if (from.dims == to) return value;
  return temporary(fmt::format("stablehlo.reshape {} : ({}) -> {}", value,
                               type_text(from),
                               type_text(Shape(from.dtype, to))));
}

void Printer::dot(NodeId id) {
  const Node& n = graph_.node(id);
  const Shape& lhs = n.operands[0].shape();
  const Shape& rhs = n.operands[1].shape();
  const DotPlan plan = plan_dot(lhs.dims, rhs.dims, n.attr<DotAttr>(),
                                one_device_ || in_manual_);
  const std::string a = reshaped(name(n.operands[0]), lhs, plan.lhs);
  const std::string b = reshaped(name(n.operands[1]), rhs, plan.rhs);
  std::string batching;
  if (!plan.attr.lhs_batch.empty()) {
    batching = fmt::format("batching_dims = [{}] x [{}], ",
                           list_text(plan.attr.lhs_batch),
                           list_text(plan.attr.rhs_batch));
  }
  const std::string_view precision =
      kPrecisions.at(static_cast<std::size_t>(plan.attr.precision));
  const Shape result(n.results[0].dtype, plan.result);
  const std::string product = temporary(fmt::format(
      "stablehlo.dot_general {}, {}, {}contracting_dims = [{}] x [{}], "
      "precision = [{}, {}] : ({}, {}) -> {}",
      a, b, batching, list_text(plan.attr.lhs_contract),
      list_text(plan.attr.rhs_contract), precision, precision,
      type_text(Shape(lhs.dtype, plan.lhs)),
      type_text(Shape(rhs.dtype, plan.rhs)), type_text(result)));
  set_name(id, 0, reshaped(product, result, n.results[0].dims));
}

void Printer::reduce(NodeId id) {
  const Node& n = graph_.node(id);
  const auto& attr = n.attr<DimsAttr>();
  const DType dtype = n.results[0].dtype;
  const std::string init = scalar(reduce_init_text(attr.reduce, dtype), dtype);
  define(id, fmt::format(
                 "stablehlo.reduce({} init: {}) applies {} across dimensions = "
                 "[{}] : ({}, {}) -> {}",
                 name(n.operands[0]), init, reduce_op_text(attr.reduce),
                 list_text(attr.dims), type_text(n.operands[0].shape()),
                 type_text(Shape(dtype, {})), type_text(n.results[0])));
}

void Printer::shape_op(NodeId id) {
  const Node& n = graph_.node(id);
  const std::string start =
      fmt::format("stablehlo.{} {}", op_name(n.op), operand_names(n));
  switch (n.op) {
    case Op::kTranspose:
    case Op::kBroadcastInDim:
      return define(
          id, fmt::format("{}, dims = [{}] : {}", start,
                          list_text(n.attr<DimsAttr>().dims), signature(n)));
    case Op::kReverse:
      return define(id, fmt::format("{}, dims = [{}] : {}", start,
                                    list_text(n.attr<DimsAttr>().dims),
                                    type_text(n.results[0])));
    case Op::kConcatenate:
      return define(id, fmt::format("{}, dim = {} : {}", start,
                                    n.attr<DimsAttr>().dims[0], signature(n)));
    case Op::kSlice:
      return define(
          id, fmt::format("{} {} : {}", start,
                          window_text(n.attr<WindowAttr>()), signature(n)));
    case Op::kPad: {
      const auto& window = n.attr<WindowAttr>();
      return define(
          id,
          fmt::format("{}, low = [{}], high = [{}], interior = [{}] : {}",
                      start, list_text(window.start), list_text(window.limit),
                      list_text(window.stride), signature(n)));
    }
    case Op::kDynamicSlice:
      return define(
          id, fmt::format("{}, sizes = [{}] : {}", start,
                          list_text(n.attr<WindowAttr>().limit), signature(n)));
    default:
      RINGMAX_CHECK(n.op == Op::kDynamicUpdateSlice);
      return define(id, fmt::format("{} : {}", start, signature(n)));
  }
}

void Printer::take_rows(NodeId id) {
  const Node& n = graph_.node(id);
  const Shape& table = n.operands[0].shape();
  const std::int64_t rows = n.operands[1].rank();
  std::string offsets;
  if (table.rank() > 1) {
    offsets = fmt::format("offset_dims = [{}], ",
                          list_text(counting(rows, rows + table.rank() - 1)));
  }
  Dims sizes = table.dims;
  sizes[0] = 1;
  define(id,
         fmt::format(
             "\"stablehlo.gather\"({}) {{dimension_numbers = "
             "#stablehlo.gather<{}collapsed_slice_dims = [0], "
             "start_index_map = [0], index_vector_dim = {}>, "
             "indices_are_sorted = false, slice_sizes = array<i64: {}>}} : "
             "{}",
             operand_names(n), offsets, rows, list_text(sizes), signature(n)));
}

void Printer::reducer(ReduceKind kind, DType dtype) {
  const std::string type = type_text(Shape(dtype, {}));
  const std::string a = fresh_argument();
  const std::string b = fresh_argument();
  reopen(fmt::format("^bb0({}: {}, {}: {}):", a, type, b, type));
  const std::string sum = temporary(
      fmt::format("{} {}, {} : {}", reduce_op_text(kind), a, b, type));
  line(fmt::format("stablehlo.return {} : {}", sum, type));
}

void Printer::scatter_add_rows(NodeId id) {
  const Node& n = graph_.node(id);
  const std::int64_t rows = n.operands[1].rank();
  const std::int64_t rank = n.results[0].rank();
  std::string window;
  if (rank > 1) {
    window = fmt::format("update_window_dims = [{}], ",
                         list_text(counting(rows, rows + rank - 1)));
  }
  std::string prefix;
  const std::vector<std::string> names = fresh_results(1, &prefix);
  open(
      fmt::format("{}\"stablehlo.scatter\"({}) ({{", prefix, operand_names(n)));
  reducer(ReduceKind::kSum, n.results[0].dtype);
  close(fmt::format(
      "}}) {{indices_are_sorted = false, scatter_dimension_numbers = "
      "#stablehlo.scatter<{}inserted_window_dims = [0], "
      "scatter_dims_to_operand_dims = [0], index_vector_dim = {}>, "
      "unique_indices = false}} : {}",
      window, rows, signature(n)));
  set_name(id, 0, names[0]);
}

void Printer::custom_call(NodeId id) {
  const Node& n = graph_.node(id);
  const auto& attr = n.attr<CustomCallAttr>();
  std::vector<std::string> attributes = {
      fmt::format("api_version = {} : i32", attr.api_version)};
  if (!attr.backend_config.empty()) {
    attributes.push_back("backend_config = " + attr.backend_config);
  }
  if (attr.has_side_effect) attributes.push_back("has_side_effect = true");
  std::vector<Shape> operands;
  for (const Value& v : n.operands) operands.push_back(v.shape());
  attributes.push_back("operand_layouts = " + layouts_text(operands));
  if (!attr.aliases.empty()) {
    std::vector<std::string> aliases;
    for (const auto& [result, operand] : attr.aliases) {
      // One result is no tuple, so it has no place in one.
      aliases.push_back(fmt::format(
          "#stablehlo.output_operand_alias<output_tuple_indices = [{}], "
          "operand_index = {}, operand_tuple_indices = []>",
          n.results.size() == 1 ? "" : fmt::to_string(result), operand));
    }
    attributes.push_back(
        fmt::format("output_operand_aliases = [{}]", fmt::join(aliases, ", ")));
  }
  attributes.push_back("result_layouts = " + layouts_text(n.results));
  define(id, fmt::format("stablehlo.custom_call @{}({}) {{{}}} : {}",
                         is_bare_symbol(attr.target) ? attr.target
                                                     : quoted_text(attr.target),
                         operand_names(n), fmt::join(attributes, ", "),
                         signature(n)));
}

void Printer::node(NodeId id) {
  const Node& n = graph_.node(id);
  path_ = graph_.scope_path(n.scope);
  if (simple_op(id)) return;
  switch (n.op) {
    case Op::kCompare:
      return compare(id);
    case Op::kSelect:
      return select(id);
    case Op::kDotGeneral:
      return dot(id);
    case Op::kReduce:
      return reduce(id);
    case Op::kTranspose:
    case Op::kBroadcastInDim:
    case Op::kConcatenate:
    case Op::kSlice:
    case Op::kPad:
    case Op::kReverse:
    case Op::kDynamicSlice:
    case Op::kDynamicUpdateSlice:
      return shape_op(id);
    case Op::kTakeRows:
      return take_rows(id);
    case Op::kScatterAddRows:
      return scatter_add_rows(id);
    case Op::kScan:
      return scan(id);
    case Op::kWhile:
      return while_op(id);
    case Op::kCond:
      return cond(id);
    case Op::kCustomVjp:
      return custom_vjp(id);
    case Op::kCustomCall:
      return custom_call(id);
    case Op::kOptimizationBarrier:
      return optimization_barrier(id);
    case Op::kStopGradient:
    case Op::kCheckpointName:
      return alias(id, 0, n.operands[0]);
    case Op::kShardingConstraint:
      return sharding_constraint(id);
    case Op::kManualComputation:
      return manual_computation(id);
    case Op::kCollectivePermute:
    case Op::kAllGather:
    case Op::kReduceScatter:
    case Op::kAllReduce:
    case Op::kAllToAll:
      return collective(id);
    default:
      fail(ErrorCode::kInternal, "no text for op {}", op_name(n.op));
  }
}

}  // namespace ringmax::graph
