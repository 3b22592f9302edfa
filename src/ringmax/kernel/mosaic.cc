#include "ringmax/kernel/mosaic.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <limits>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "ringmax/base/error.h"
#include "ringmax/graph/print_text.h"

namespace ringmax::kernel {
namespace {

using graph::CompareDirection;
using graph::ReduceKind;

constexpr std::string_view kFastMath = "fastmath = #arith.fastmath<none>";
constexpr std::string_view kOverflow = "overflowFlags = #arith.overflow<none>";

std::string type_text(const Shape& shape) {
  const std::string_view element = dtype_mlir_name(shape.dtype);
  if (shape.dims.empty()) return std::string(element);
  return fmt::format("vector<{}x{}>", fmt::join(shape.dims, "x"), element);
}

std::string memref_text(const RefInfo& info) {
  return fmt::format("memref<{}x{}, #tpu.memory_space<{}>>",
                     fmt::join(info.block, "x"),
                     dtype_mlir_name(info.array.dtype),
                     info.kind == RefKind::kPrefetch ? "smem" : "vmem");
}

std::string number_text(double number, DType dtype) {
  if (is_float(dtype)) return graph::float_text(number, dtype);
  if (dtype == DType::kBool) return number != 0 ? "true" : "false";
  return fmt::format("{}", static_cast<std::int64_t>(number));
}

// MLIR's numbering of comparison predicates.
int integer_predicate(CompareDirection direction) {
  switch (direction) {
    case CompareDirection::kEq:
      return 0;
    case CompareDirection::kNe:
      return 1;
    case CompareDirection::kLt:
      return 2;
    case CompareDirection::kLe:
      return 3;
    case CompareDirection::kGt:
      return 4;
    case CompareDirection::kGe:
      return 5;
  }
  return 0;
}
int float_predicate(CompareDirection direction) {
  switch (direction) {
    case CompareDirection::kEq:
      return 1;
    case CompareDirection::kGt:
      return 2;
    case CompareDirection::kGe:
      return 3;
    case CompareDirection::kLt:
      return 4;
    case CompareDirection::kLe:
      return 5;
    case CompareDirection::kNe:
      break;
  }
  return 0;
}

class Emitter {
 public:
  explicit Emitter(const Kernel& kernel) : k_(kernel) {}

  std::string module() {
    text_ = "\"builtin.module\"() ({\n";
    main_function();
    std::size_t window = 0;
    for (const RefId id : windows()) transform_function(id, window++);
    text_ +=
        fmt::format("}}) {{stable_mosaic.version = {} : i64}} : () -> ()\n",
                    kMosaicVersion);
    return std::move(text_);
  }

 private:
  std::vector<RefId> windows() const {
    std::vector<RefId> ids = k_.refs_of(RefKind::kInput);
    for (const RefId id : k_.refs_of(RefKind::kOutput)) ids.push_back(id);
    return ids;
  }

  void line(std::string_view text) {
    text_.append(2 * static_cast<std::size_t>(depth_), ' ');
    text_ += text;
    text_ += '\n';
  }
  std::string fresh() { return fmt::format("%{}", next_++); }

  // A one-result op; returns the result's name.
  std::string op(std::string_view name, std::string_view operands,
                 std::string_view attributes, std::string_view from,
                 std::string_view to) {
    std::string result = fresh();
    line(fmt::format(
        "{} = \"stable_mosaic.{}\"({}){} : ({}) -> {}", result, name, operands,
        attributes.empty() ? "" : fmt::format(" {{{}}}", attributes), from,
        to));
    return result;
  }
  std::string constant(std::string_view value, std::string_view type) {
    return op("arith.constant", "", fmt::format("value = {} : {}", value, type),
              "", type);
  }

  const std::string& name(std::int32_t value) const { return names_.at(value); }
  const Shape& shape(std::int32_t value) const { return k_.value_shape(value); }

  // Grid ids, then prefetched arrays: what every function takes first.
  void grid_arguments(std::vector<std::string>* names,
                      std::vector<std::string>* types) {
    names_.clear();
    grid_.clear();
    for (std::int64_t d = 0; d < k_.grid_rank(); ++d) {
      grid_.push_back(fmt::format("%g{}", d));
      names->push_back(grid_.back());
      types->push_back("i32");
    }
    for (const RefId id : k_.refs_of(RefKind::kPrefetch))
      add_ref(id, names, types);
  }
  void add_ref(RefId id, std::vector<std::string>* names,
               std::vector<std::string>* types) {
    refs_[id] = fmt::format("%r{}", id);
    names->push_back(refs_[id]);
    types->push_back(memref_text(k_.ref(id)));
  }
  void open_function(const std::vector<std::string>& names,
                     const std::vector<std::string>& types) {
    ++depth_;
    line("\"stable_mosaic.func.func\"() ({");
    std::vector<std::string> arguments;
    for (std::size_t i = 0; i < names.size(); ++i) {
      arguments.push_back(names[i] + ": " + types[i]);
    }
    line(fmt::format("^bb0({}):", fmt::join(arguments, ", ")));
    ++depth_;
  }

  void main_function() {
    std::vector<std::string> names;
    std::vector<std::string> types;
    grid_arguments(&names, &types);
    for (const RefKind kind :
         {RefKind::kInput, RefKind::kOutput, RefKind::kScratch}) {
      for (const RefId id : k_.refs_of(kind)) add_ref(id, &names, &types);
    }
    open_function(names, types);
    guarded(k_.begin_when(), k_.begin_body());
    body(k_.step_body());
    guarded(k_.end_when(), k_.end_body());
    line("\"stable_mosaic.func.return\"() : () -> ()");
    --depth_;

    std::vector<std::string> semantics;
    std::vector<std::int64_t> bounds;
    for (const std::int64_t size : k_.parallel_sizes()) {
      semantics.push_back("#tpu.dimension_semantics<parallel>");
      bounds.push_back(size);
    }
    semantics.push_back("#tpu.dimension_semantics<arbitrary>");
    bounds.push_back(k_.walk_dynamic()
                         ? std::numeric_limits<std::int64_t>::min()
                         : k_.walk_steps());
    std::vector<std::string> params;
    for (const RefId id : windows()) {
      const RefInfo& info = k_.ref(id);
      params.push_back(fmt::format(
          "{{{}transform_indices = @transform_{}, window_bounds = array<i64: "
          "{}>}}",
          info.kind == RefKind::kInput && info.block == info.array.dims
              ? "pipeline_mode = #tpu.pipeline_mode<synchronous>, "
              : "",
          params.size(), fmt::join(info.block, ", ")));
    }
    line(fmt::format(
        "}}) {{dimension_semantics = [{}], function_type = ({}) -> (), "
        "iteration_bounds = array<i64: {}>, scalar_prefetch = {} : i64, "
        "scratch_operands = {} : i64, sym_name = \"{}\", tpu.core_type = "
        "#tpu.core_type<tc>, window_params = [{}]}} : () -> ()",
        fmt::join(semantics, ", "), fmt::join(types, ", "),
        fmt::join(bounds, ", "), k_.refs_of(RefKind::kPrefetch).size(),
        k_.refs_of(RefKind::kScratch).size(), k_.name(),
        fmt::join(params, ", ")));
    --depth_;
  }

  void transform_function(RefId id, std::size_t index) {
    std::vector<std::string> names;
    std::vector<std::string> types;
    grid_arguments(&names, &types);
    open_function(names, types);
    const Region& map = k_.region(k_.ref(id).index_map);
    body(k_.ref(id).index_map);
    std::vector<std::string> results;
    for (const std::int32_t v : map.yields) results.push_back(name(v));
    const std::vector<std::string> i32(results.size(), "i32");
    line(fmt::format("\"stable_mosaic.func.return\"({}) : ({}) -> ()",
                     fmt::join(results, ", "), fmt::join(i32, ", ")));
    --depth_;
    line(fmt::format(
        "}}) {{function_type = ({}) -> ({}), sym_name = \"transform_{}\"}} : "
        "() -> ()",
        fmt::join(types, ", "), fmt::join(i32, ", "), index));
    --depth_;
  }

  // A region whose arguments are the grid ids.
  void body(RegionId id) {
    const Region& region = k_.region(id);
    for (std::size_t d = 0; d < region.arguments.size(); ++d) {
      names_[region.arguments[d]] = grid_[d];
    }
    nodes(region);
  }
  void guarded(RegionId when, RegionId then) {
    if (when < 0) return;
    body(when);
    line(fmt::format("\"stable_mosaic.scf.if\"({}) ({{",
                     name(k_.region(when).yields[0])));
    ++depth_;
    body(then);
    close_branch();
  }
  void close_branch() {
    line("\"stable_mosaic.scf.yield\"() : () -> ()");
    --depth_;
    line("}, {");
    ++depth_;
    line("\"stable_mosaic.scf.yield\"() : () -> ()");
    --depth_;
    line("}) : (i1) -> ()");
  }
  void nodes(const Region& region) {
    for (const NodeId id : region.nodes) node(k_.node(id));
  }

  std::string operand_names(const Node& n) const {
    std::vector<std::string> names;
    for (const std::int32_t v : n.operands) names.push_back(name(v));
    return fmt::format("{}", fmt::join(names, ", "));
  }
  std::string operand_types(const Node& n) const {
    std::vector<std::string> types;
    for (const std::int32_t v : n.operands)
      types.push_back(type_text(shape(v)));
    return fmt::format("{}", fmt::join(types, ", "));
  }
  // An op that takes all operands of the node and makes its one result.
  void plain(const Node& n, std::string_view op_name,
             std::string_view attributes = "") {
    const std::int32_t r = n.results[0];
    names_[r] = op(op_name, operand_names(n), attributes, operand_types(n),
                   type_text(shape(r)));
  }
  void number(const Node& n, std::string_view float_name,
              std::string_view integer_name, std::string_view attributes = "") {
    const bool floating = is_float(shape(n.operands[0]).dtype);
    plain(n, floating ? float_name : integer_name,
          floating ? kFastMath : attributes);
  }

  void node(const Node& n) {
    switch (n.op) {
      case Op::kArgument:
        return;
      case Op::kConstant: {
        const Shape& s = shape(n.results[0]);
        const std::string value = number_text(n.number, s.dtype);
        names_[n.results[0]] =
            constant(s.dims.empty() ? value : fmt::format("dense<{}>", value),
                     type_text(s));
        return;
      }
      case Op::kIota:
        return plain(n, "tpu.iota",
                     fmt::format("dimensions = array<i32: {}>", n.dims[0]));
      case Op::kNegate:
        return plain(n, "arith.negf", kFastMath);
      case Op::kAbs:
        return plain(n, "math.absf", kFastMath);
      case Op::kExp2:
        return plain(n, "math.exp2", kFastMath);
      case Op::kLog:
        return plain(n, "math.log", kFastMath);
      case Op::kTanh:
        return plain(n, "math.tanh", kFastMath);
      case Op::kConvert:
        return convert(n);
      case Op::kAdd:
        return number(n, "arith.addf", "arith.addi", kOverflow);
      case Op::kSubtract:
        return number(n, "arith.subf", "arith.subi", kOverflow);
      case Op::kMultiply:
        return number(n, "arith.mulf", "arith.muli", kOverflow);
      case Op::kDivide:
        return number(n, "arith.divf", "arith.divsi");
      case Op::kMaximum:
        return number(n, "arith.maximumf", "arith.maxsi");
      case Op::kMinimum:
        return number(n, "arith.minimumf", "arith.minsi");
      case Op::kRemainder:
        return plain(n, "arith.remsi");
      case Op::kAnd:
        return plain(n, "arith.andi");
      case Op::kOr:
        return plain(n, "arith.ori");
      case Op::kXor:
        return plain(n, "arith.xori");
      case Op::kShiftRight:
        return plain(n, "arith.shrui");
      case Op::kCompare:
        if (is_float(shape(n.operands[0]).dtype)) {
          if (n.compare == CompareDirection::kNe) return float_not_equal(n);
          return plain(n, "arith.cmpf",
                       fmt::format("{}, predicate = {} : i64", kFastMath,
                                   float_predicate(n.compare)));
        }
        return plain(
            n, "arith.cmpi",
            fmt::format("predicate = {} : i64", integer_predicate(n.compare)));
      case Op::kSelect:
        return plain(n, "arith.select");
      case Op::kMatmul:
        return matmul(n);
      case Op::kReduce:
        return reduce(n);
      case Op::kBroadcast:
        return plain(n, "vector.broadcast");
      case Op::kTranspose:
        return plain(n, "tpu.transpose", "permutation = array<i64: 1, 0>");
      case Op::kConcatenate:
        return plain(n, "tpu.concatenate",
                     fmt::format("dimension = {} : i32", n.dims[0]));
      case Op::kSlice: {
        const Dims ones(n.dims.size(), 1);
        return plain(n, "vector.extract_strided_slice",
                     fmt::format("offsets = [{}], sizes = [{}], strides = [{}]",
                                 graph::list_text(n.dims),
                                 graph::list_text(shape(n.results[0]).dims),
                                 graph::list_text(ones)));
      }
      case Op::kMultipleOf:
        return plain(n, "tpu.assume_multiple",
                     fmt::format("multiple = {} : i32", n.dims[0]));
      case Op::kLoad:
        return load(n);
      case Op::kLoadScalar: {
        const std::string at =
            op("arith.index_cast", name(n.operands[0]), "", "i32", "index");
        names_[n.results[0]] =
            op("memref.load", fmt::format("{}, {}", refs_.at(n.ref), at), "",
               memref_text(k_.ref(n.ref)) + ", index", "i32");
        return;
      }
      case Op::kStore:
        return store(n);
      case Op::kIf:
        line(fmt::format("\"stable_mosaic.scf.if\"({}) ({{",
                         name(n.operands[0])));
        ++depth_;
        nodes(k_.region(n.regions[0]));
        return close_branch();
      case Op::kFor:
        return loop(n);
    }
    fail(ErrorCode::kInternal, "no Mosaic text for an op of kernel {}",
         k_.name());
  }

  void convert(const Node& n) {
    const DType from = shape(n.operands[0]).dtype;
    const DType to = shape(n.results[0]).dtype;
    if (from == DType::kBool) return plain(n, "arith.extui");
    if (!is_float(from)) return plain(n, "arith.sitofp");
    plain(n, dtype_size(to) > dtype_size(from) ? "arith.extf" : "arith.truncf");
  }

  // The compiler knows no comparison that is true for NaN.
  void float_not_equal(const Node& n) {
    const std::string type = type_text(shape(n.results[0]));
    const std::string equal =
        op("arith.cmpf", operand_names(n),
           fmt::format("{}, predicate = {} : i64", kFastMath,
                       float_predicate(CompareDirection::kEq)),
           operand_types(n), type);
    const std::string yes = constant(
        shape(n.results[0]).dims.empty() ? "true" : "dense<true>", type);
    names_[n.results[0]] = op("arith.xori", fmt::format("{}, {}", equal, yes),
                              "", fmt::format("{}, {}", type, type), type);
  }

  void matmul(const Node& n) {
    const std::int64_t l = n.matmul.lhs_contract;
    const std::int64_t r = n.matmul.rhs_contract;
    plain(n, "tpu.matmul",
          fmt::format(
              "dimension_numbers = #tpu.dot_dimension_numbers<[{}], [{}], "
              "[{}], [{}], [0, {}, 1, {}], [], []>, {}transpose_lhs = false, "
              "transpose_lhs_hint = false, transpose_rhs = false",
              l, r, 1 - l, 1 - r, 1 - l, 1 - r,
              n.matmul.precision == graph::Precision::kDefault
                  ? ""
                  : "precision = #tpu.contract_precision<fp32>, "));
  }

  void reduce(const Node& n) {
    const Shape& from = shape(n.operands[0]);
    const auto kept = static_cast<std::size_t>(1 - n.dims[0]);
    const Shape flat(from.dtype, {from.dims[kept]});
    const bool sum = n.reduce == ReduceKind::kSum;
    const std::string init = constant(
        fmt::format(
            "dense<{}>",
            number_text(sum ? 0 : -std::numeric_limits<double>::infinity(),
                        from.dtype)),
        type_text(flat));
    const std::string reduced = op(
        "vector.multi_reduction",
        fmt::format("{}, {}", name(n.operands[0]), init),
        fmt::format("kind = #vector.kind<{}>, reduction_dims = array<i64: {}>",
                    sum ? "add" : "maximumf", n.dims[0]),
        fmt::format("{}, {}", type_text(from), type_text(flat)),
        type_text(flat));
    names_[n.results[0]] = op("vector.shape_cast", reduced, "", type_text(flat),
                              type_text(shape(n.results[0])));
  }

  // The i32 operands from `first` on, as index values.
  std::string indices(const Node& n, std::size_t first) {
    std::vector<std::string> names;
    for (std::size_t i = first; i < n.operands.size(); ++i) {
      names.push_back(
          op("arith.index_cast", name(n.operands[i]), "", "i32", "index"));
    }
    return fmt::format("{}", fmt::join(names, ", "));
  }
  std::string index_types(const Node& n) const {
    return fmt::format(
        "{}",
        fmt::join(std::vector<std::string>(n.dims.size(), "index"), ", "));
  }

  void load(const Node& n) {
    const Shape window(k_.ref(n.ref).array.dtype, n.dims);
    const std::string at = indices(n, 0);
    const std::string loaded =
        op("vector.load", fmt::format("{}, {}", refs_.at(n.ref), at), "",
           fmt::format("{}, {}", memref_text(k_.ref(n.ref)), index_types(n)),
           type_text(window));
    names_[n.results[0]] = recast(loaded, window, shape(n.results[0]));
  }
  void store(const Node& n) {
    const Shape window(k_.ref(n.ref).array.dtype, n.dims);
    const std::string value =
        recast(name(n.operands[0]), shape(n.operands[0]), window);
    const std::string at = indices(n, 1);
    line(fmt::format(
        "\"stable_mosaic.tpu.vector_store\"({}, {}, {}) {{add = false, "
        "operandSegmentSizes = array<i32: 1, 1, {}, 0>, strides = array<i32>}} "
        ": ({}, {}, {}) -> ()",
        value, refs_.at(n.ref), at, n.dims.size(), type_text(window),
        memref_text(k_.ref(n.ref)), index_types(n)));
  }
  std::string recast(const std::string& value, const Shape& from,
                     const Shape& to) {
    if (from == to) return value;
    return op("vector.shape_cast", value, "", type_text(from), type_text(to));
  }

  void loop(const Node& n) {
    const std::string one = constant("1", "i32");
    const Region& region = k_.region(n.regions[0]);
    std::vector<std::string> results;
    std::vector<std::string> types;
    std::vector<std::string> arguments;
    for (const std::int32_t v : region.arguments) {
      names_[v] = fresh();
      arguments.push_back(name(v) + ": " + type_text(shape(v)));
    }
    std::vector<std::string> operands = {name(n.operands[0]),
                                         name(n.operands[1]), one};
    std::vector<std::string> operand_types(3, "i32");
    for (std::size_t i = 0; i < n.results.size(); ++i) {
      operands.push_back(name(n.operands[i + 2]));
      types.push_back(type_text(shape(n.results[i])));
      operand_types.push_back(types.back());
    }
    const std::string base = fresh();
    for (std::size_t i = 0; i < n.results.size(); ++i) {
      names_[n.results[i]] =
          n.results.size() == 1 ? base : fmt::format("{}#{}", base, i);
    }
    line(fmt::format("{}\"stable_mosaic.scf.for\"({}) ({{",
                     n.results.empty() ? ""
                     : n.results.size() == 1
                         ? base + " = "
                         : fmt::format("{}:{} = ", base, n.results.size()),
                     fmt::join(operands, ", ")));
    line(fmt::format("^bb0({}):", fmt::join(arguments, ", ")));
    ++depth_;
    nodes(region);
    for (const std::int32_t v : region.yields) results.push_back(name(v));
    line(fmt::format("\"stable_mosaic.scf.yield\"({}) : ({}) -> ()",
                     fmt::join(results, ", "), fmt::join(types, ", ")));
    --depth_;
    line(fmt::format("}}) : ({}) -> ({})", fmt::join(operand_types, ", "),
                     fmt::join(types, ", ")));
  }

  const Kernel& k_;
  std::string text_;
  int depth_ = 0;
  int next_ = 0;
  std::vector<std::string> grid_;
  std::unordered_map<std::int32_t, std::string> names_;
  std::unordered_map<RefId, std::string> refs_;
};

std::string base64(std::string_view bytes) {
  constexpr char kDigits[] =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  text.reserve(bytes.size() * 4 / 3 + 4);
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    unsigned group = 0;
    for (std::size_t j = 0; j < 3; ++j) {
      const unsigned byte =
          i + j < bytes.size() ? static_cast<unsigned char>(bytes[i + j]) : 0u;
      group = group << 8 | byte;
    }
    for (std::size_t j = 0; j < 4; ++j) {
      text += i + j > bytes.size() ? '=' : kDigits[group >> (18 - 6 * j) & 63u];
    }
  }
  return text;
}

}  // namespace

std::string mosaic_text(const Kernel& kernel) {
  kernel.check_complete();
  return Emitter(kernel).module();
}

std::string mosaic_config(const Kernel& kernel) {
  const Cost& cost = kernel.cost();
  std::string config = fmt::format(
      R"({{"custom_call_config": {{"body": "{}", "cost_estimate": )"
      R"({{"flops":{:.0f},"transcendentals":{:.0f},"bytes_accessed":{:.0f},)"
      R"("remote_bytes_transferred":0}}, "serialization_format": 1, )"
      R"("needs_layout_passes": true}})",
      base64(mosaic_text(kernel)), cost.flops, cost.transcendentals,
      cost.bytes);
  if (kernel.vmem_limit_bytes() > 0) {
    config += fmt::format(
        R"(, "scoped_memory_configs": [{{"memory_space":1, "offset": 0, )"
        R"("size": {}}}])",
        kernel.vmem_limit_bytes());
  }
  return config + "}";
}

graph::Values call_mosaic(const Kernel& kernel, const graph::Values& operands) {
  graph::CustomCallAttr attr;
  attr.target = "tpu_custom_call";
  attr.api_version = 1;
  attr.backend_config = graph::quoted_text(mosaic_config(kernel));
  const std::size_t first_input = (kernel.walk_dynamic() ? 1 : 0) +
                                  kernel.refs_of(RefKind::kPrefetch).size();
  const std::vector<RefId> inputs = kernel.refs_of(RefKind::kInput);
  std::vector<Shape> results;
  for (const RefId id : kernel.refs_of(RefKind::kOutput)) {
    const RefInfo& info = kernel.ref(id);
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (inputs[i] != info.alias) continue;
      attr.aliases.emplace_back(static_cast<std::int64_t>(results.size()),
                                static_cast<std::int64_t>(first_input + i));
    }
    results.push_back(info.array);
  }
  return graph::custom_call(*operands.at(0).graph, operands, std::move(results),
                            std::move(attr));
}

}  // namespace ringmax::kernel
