// Ops that own regions.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "ringmax/base/error.h"
#include "ringmax/graph/print_text.h"
#include "ringmax/graph/printer.h"

namespace ringmax::graph {
namespace {

std::size_t index_of(std::int64_t i) { return static_cast<std::size_t>(i); }

std::string return_text(std::string_view op,
                        const std::vector<std::string>& names,
                        const std::vector<std::string>& types) {
  if (names.empty()) return std::string(op);
  return fmt::format("{} {} : {}", op, fmt::join(names, ", "),
                     fmt::join(types, ", "));
}

}  // namespace

std::vector<std::string> Printer::loop(
    std::vector<Carried>* carried,
    const std::function<std::string()>& condition, const LoopBody& body) {
  const std::string path = path_;
  std::string prefix;
  std::vector<std::string> results = fresh_results(carried->size(), &prefix);
  std::vector<std::string> inits, types;
  for (Carried& c : *carried) {
    c.name = fresh_argument();
    inits.push_back(fmt::format("{} = {}", c.name, c.init));
    types.push_back(c.type);
  }
  open(fmt::format("{}stablehlo.while({}) : {}", prefix, fmt::join(inits, ", "),
                   fmt::join(types, ", ")));
  open("cond {");
  const std::string go = condition();
  line(fmt::format("stablehlo.return {} : tensor<i1>", go));
  reopen("} do {");
  const std::vector<std::string> next = body();
  path_ = path;
  line(return_text("stablehlo.return", next, types));
  close("}");
  --indent_;
  return results;
}

void Printer::scan(NodeId id) {
  const Node& n = graph_.node(id);
  const auto& attr = n.attr<ScanAttr>();
  if (attr.unroll) return unrolled_scan(id);
  const Block& block = graph_.block(n.regions[0]);
  const std::size_t carry = index_of(attr.carry);
  const std::size_t xs = index_of(attr.xs);
  const std::string path = path_;

  // The loop carries: counter, carries, stacked results, then what the body
  // only reads. `place` says where a live parameter or stacked result went.
  std::vector<Carried> carried = {
      {scalar("0", DType::kI32), type_text(Shape(DType::kI32, {})), ""}};
  const auto carry_value = [&](std::string init, const Shape& shape) {
    carried.push_back({std::move(init), type_text(shape), ""});
    return carried.size() - 1;
  };
  std::vector<std::size_t> place(block.parameters.size(), 0);
  std::vector<std::size_t> stacked_place(n.results.size(), 0);
  const auto carry_parameters = [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) {
      if (!live_.value(block.parameters[i + 1])) continue;
      place[i + 1] = carry_value(name(n.operands[i]), n.operands[i].shape());
    }
  };
  carry_parameters(0, carry);
  for (std::size_t i = carry; i < n.results.size(); ++i) {
    if (!live_.value(id, static_cast<std::int64_t>(i))) continue;
    const Shape& shape = n.results[i];
    const std::string zeros = temporary(
        fmt::format("stablehlo.constant {} : {}",
                    constant_text(ConstantAttr{}, shape), type_text(shape)));
    stacked_place[i] = carry_value(zeros, shape);
  }
  carry_parameters(carry, n.operands.size());

  std::vector<std::string> next;
  const auto condition = [&] {
    const std::string length = scalar(fmt::to_string(attr.length), DType::kI32);
    return temporary(fmt::format(
        "stablehlo.compare LT, {}, {}, SIGNED : (tensor<i32>, tensor<i32>) -> "
        "tensor<i1>",
        carried[0].name, length));
  };
  const auto body = [&] {
    const std::string one = scalar("1", DType::kI32);
    const std::string zero = scalar("0", DType::kI32);
    std::string index = carried[0].name;
    if (attr.reverse) {
      const std::string last =
          scalar(fmt::to_string(attr.length - 1), DType::kI32);
      index = temporary(
          fmt::format("stablehlo.subtract {}, {} : tensor<i32>", last, index));
    }
    // "%index, %zero, ..." for one step of a tensor, and their types.
    const auto starts = [&](std::int64_t rank) {
      std::string text = index;
      for (std::int64_t d = 1; d < rank; ++d) text += ", " + zero;
      return text;
    };
    const auto start_types = [](std::int64_t rank) {
      std::string text;
      for (std::int64_t d = 0; d < rank; ++d) text += ", tensor<i32>";
      return text;
    };
    set_name(block.parameters[0], 0, index);
    for (std::size_t i = 0; i < n.operands.size(); ++i) {
      const NodeId parameter = block.parameters[i + 1];
      if (place[i + 1] == 0) continue;
      const std::string& whole = carried[place[i + 1]].name;
      if (i < carry || i >= carry + xs) {
        set_name(parameter, 0, whole);
        continue;
      }
      const Shape& shape = n.operands[i].shape();
      Shape step = shape;
      step.dims[0] = 1;
      const std::string slice = temporary(fmt::format(
          "stablehlo.dynamic_slice {}, {}, sizes = [{}] : ({}{}) -> {}", whole,
          starts(shape.rank()), list_text(step.dims), type_text(shape),
          start_types(shape.rank()), type_text(step)));
      set_name(parameter, 0,
               reshaped(slice, step, graph_.node(parameter).results[0].dims));
    }
    block_nodes(n.regions[0]);
    path_ = path;
    next.resize(carried.size());
    for (std::size_t c = 0; c < carried.size(); ++c) next[c] = carried[c].name;
    next[0] = temporary(fmt::format("stablehlo.add {}, {} : tensor<i32>",
                                    carried[0].name, one));
    for (std::size_t i = 0; i < carry; ++i) {
      if (place[i + 1] != 0) next[place[i + 1]] = name(block.results[i]);
    }
    for (std::size_t i = carry; i < n.results.size(); ++i) {
      if (stacked_place[i] == 0) continue;
      const Shape& shape = n.results[i];
      Shape step = shape;
      step.dims[0] = 1;
      const std::string update =
          reshaped(name(block.results[i]), block.results[i].shape(), step.dims);
      next[stacked_place[i]] = temporary(fmt::format(
          "stablehlo.dynamic_update_slice {}, {}, {} : ({}, {}{}) -> {}",
          carried[stacked_place[i]].name, update, starts(shape.rank()),
          type_text(shape), type_text(step), start_types(shape.rank()),
          type_text(shape)));
    }
    return next;
  };
  const std::vector<std::string> results = loop(&carried, condition, body);
  for (std::size_t i = 0; i < n.results.size(); ++i) {
    const std::size_t at = i < carry ? place[i + 1] : stacked_place[i];
    if (at != 0) set_name(id, i, results[at]);
  }
}

// The body once for each step. A slice of what an earlier unrolled scan stacked
// is what was stacked there: compilers see through the concatenation.
void Printer::unrolled_scan(NodeId id) {
  const Node& n = graph_.node(id);
  const auto& attr = n.attr<ScanAttr>();
  const Block& block = graph_.block(n.regions[0]);
  const std::size_t carry = index_of(attr.carry);
  const std::size_t xs = index_of(attr.xs);
  const std::string path = path_;
  const auto live = [&](std::size_t operand) {
    return live_.value(block.parameters[operand + 1]);
  };

  std::vector<std::string> carried(carry);
  for (std::size_t i = 0; i < carry; ++i) {
    if (live(i)) carried[i] = name(n.operands[i]);
  }
  std::vector<std::vector<std::string>> stacked(n.results.size());
  for (auto& steps : stacked) steps.resize(index_of(attr.length));
  for (std::int64_t step = 0; step < attr.length; ++step) {
    const std::int64_t index = attr.reverse ? attr.length - 1 - step : step;
    if (live_.value(block.parameters[0])) {
      set_name(block.parameters[0], 0,
               scalar(fmt::to_string(index), DType::kI32));
    }
    std::vector<std::size_t> fenced;
    for (std::size_t i = 0; i < n.operands.size(); ++i) {
      if (!live(i)) continue;
      const NodeId parameter = block.parameters[i + 1];
      if (i >= carry + xs) {
        alias(parameter, 0, n.operands[i]);
        continue;
      }
      fenced.push_back(i + 1);
      if (i < carry) {
        set_name(parameter, 0, carried[i]);
        continue;
      }
      const Shape& shape = n.operands[i].shape();
      Dims start(shape.dims.size(), 0);
      Dims limit = shape.dims;
      start[0] = index;
      limit[0] = index + 1;
      Shape one = shape;
      one.dims[0] = 1;
      std::vector<std::string> ranges;
      for (std::size_t d = 0; d < start.size(); ++d) {
        ranges.push_back(fmt::format("{}:{}", start[d], limit[d]));
      }
      const std::string slice = temporary(fmt::format(
          "stablehlo.slice {} [{}] : ({}) -> {}", name(n.operands[i]),
          fmt::join(ranges, ", "), type_text(shape), type_text(one)));
      set_name(parameter, 0,
               reshaped(slice, one, graph_.node(parameter).results[0].dims));
    }
    if (attr.fence) fence(block, fenced);
    block_nodes(n.regions[0]);
    path_ = path;
    for (std::size_t i = 0; i < carry; ++i) {
      if (live(i)) carried[i] = name(block.results[i]);
    }
    for (std::size_t i = carry; i < n.results.size(); ++i) {
      if (!live_.value(id, static_cast<std::int64_t>(i))) continue;
      Shape one = n.results[i];
      one.dims[0] = 1;
      stacked[i][index_of(index)] =
          reshaped(name(block.results[i]), block.results[i].shape(), one.dims);
    }
  }
  for (std::size_t i = 0; i < n.results.size(); ++i) {
    if (i < carry) {
      if (live(i)) set_name(id, i, carried[i]);
    } else if (live_.value(id, static_cast<std::int64_t>(i))) {
      Shape one = n.results[i];
      one.dims[0] = 1;
      const std::vector<std::string> types(stacked[i].size(), type_text(one));
      set_name(id, i,
               temporary(fmt::format(
                   "stablehlo.concatenate {}, dim = 0 : ({}) -> {}",
                   fmt::join(stacked[i], ", "), fmt::join(types, ", "),
                   type_text(n.results[i]))));
    }
  }
}

// Puts an optimization barrier between block parameters and what they are
// given.
void Printer::fence(const Block& block,
                    const std::vector<std::size_t>& parameters) {
  if (parameters.empty()) return;
  std::vector<std::string> names, types;
  for (const std::size_t p : parameters) {
    const NodeId parameter = block.parameters[p];
    names.push_back(names_[index_of(parameter)][0]);
    types.push_back(type_text(graph_.node(parameter).results[0]));
  }
  std::string prefix;
  const std::vector<std::string> results =
      fresh_results(parameters.size(), &prefix);
  line(prefix + return_text("stablehlo.optimization_barrier", names, types));
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    set_name(block.parameters[parameters[i]], 0, results[i]);
  }
}

void Printer::while_op(NodeId id) {
  const Node& n = graph_.node(id);
  const std::size_t count = index_of(n.attr<RegionAttr>().count);
  const Block& condition_block = graph_.block(n.regions[0]);
  const Block& body_block = graph_.block(n.regions[1]);
  std::vector<Carried> carried;
  std::vector<std::size_t> operands;  // of each carried value
  for (std::size_t i = 0; i < n.operands.size(); ++i) {
    if (!live_.value(condition_block.parameters[i]) &&
        !live_.value(body_block.parameters[i])) {
      continue;
    }
    operands.push_back(i);
    carried.push_back(
        {name(n.operands[i]), type_text(n.operands[i].shape()), ""});
  }
  const auto enter = [&](const Block& block) {
    for (std::size_t c = 0; c < operands.size(); ++c) {
      set_name(block.parameters[operands[c]], 0, carried[c].name);
    }
  };
  const auto condition = [&] {
    enter(condition_block);
    block_nodes(n.regions[0]);
    return name(condition_block.results[0]);
  };
  const auto body = [&] {
    enter(body_block);
    block_nodes(n.regions[1]);
    std::vector<std::string> next;
    for (std::size_t c = 0; c < operands.size(); ++c) {
      next.push_back(operands[c] < count ? name(body_block.results[operands[c]])
                                         : carried[c].name);
    }
    return next;
  };
  const std::vector<std::string> results = loop(&carried, condition, body);
  for (std::size_t c = 0; c < operands.size(); ++c) {
    if (operands[c] < count) set_name(id, operands[c], results[c]);
  }
}

void Printer::cond(NodeId id) {
  const Node& n = graph_.node(id);
  const std::string path = path_;
  std::vector<std::size_t> live;
  std::vector<std::string> types;
  for (std::size_t i = 0; i < n.results.size(); ++i) {
    if (!live_.value(id, static_cast<std::int64_t>(i))) continue;
    live.push_back(i);
    types.push_back(type_text(n.results[i]));
  }
  std::string prefix;
  const std::vector<std::string> results = fresh_results(live.size(), &prefix);
  const auto branch = [&](BlockId region) {
    const Block& block = graph_.block(region);
    for (std::size_t i = 0; i < block.parameters.size(); ++i) {
      if (live_.value(block.parameters[i])) {
        alias(block.parameters[i], 0, n.operands[i + 1]);
      }
    }
    block_nodes(region);
    path_ = path;
    std::vector<std::string> names;
    for (const std::size_t i : live) names.push_back(name(block.results[i]));
    line(return_text("stablehlo.return", names, types));
  };
  open(fmt::format("{}\"stablehlo.if\"({}) ({{", prefix, name(n.operands[0])));
  branch(n.regions[0]);
  reopen("}, {");
  branch(n.regions[1]);
  close(fmt::format("}}) : (tensor<i1>) -> ({})", fmt::join(types, ", ")));
  for (std::size_t i = 0; i < live.size(); ++i) {
    set_name(id, live[i], results[i]);
  }
}

void Printer::custom_vjp(NodeId id) {
  const Node& n = graph_.node(id);
  const Block& block = graph_.block(n.regions[0]);
  for (std::size_t i = 0; i < block.parameters.size(); ++i) {
    if (live_.value(block.parameters[i])) {
      alias(block.parameters[i], 0, n.operands[i]);
    }
  }
  block_nodes(n.regions[0]);
  for (std::size_t i = 0; i < n.results.size(); ++i) {
    if (live_.value(id, static_cast<std::int64_t>(i))) {
      alias(id, i, block.results[i]);
    }
  }
}

void Printer::optimization_barrier(NodeId id) {
  const Node& n = graph_.node(id);
  // A compiler that finds a float32 behind the barrier used as bfloat16 only
  // narrows it before the barrier too, out of a loop if need be, where it
  // would keep a copy of all layers' weights. It leaves plain bits alone.
  const auto as_bits = [](Shape shape) {
    if (shape.dtype == DType::kF32) shape.dtype = DType::kU32;
    return shape;
  };
  const auto cast = [&](const std::string& value, const Shape& from,
                        const Shape& to) {
    if (from == to) return value;
    return temporary(fmt::format("stablehlo.bitcast_convert {} : ({}) -> {}",
                                 value, type_text(from), type_text(to)));
  };
  std::vector<std::size_t> live;
  std::vector<std::string> names, types;
  for (std::size_t i = 0; i < n.results.size(); ++i) {
    if (!live_.value(id, static_cast<std::int64_t>(i))) continue;
    live.push_back(i);
    const Shape bits = as_bits(n.results[i]);
    names.push_back(cast(name(n.operands[i]), n.results[i], bits));
    types.push_back(type_text(bits));
  }
  std::string prefix;
  const std::vector<std::string> results = fresh_results(live.size(), &prefix);
  line(prefix + return_text("stablehlo.optimization_barrier", names, types));
  for (std::size_t i = 0; i < live.size(); ++i) {
    const Shape& shape = n.results[live[i]];
    set_name(id, live[i], cast(results[i], as_bits(shape), shape));
  }
}

void Printer::manual_computation(NodeId id) {
  const Node& n = graph_.node(id);
  const auto& attr = n.attr<ManualAttr>();
  const Block& block = graph_.block(n.regions[0]);
  // One device: the shard is the whole.
  if (one_device_) return custom_vjp(id);
  if (in_manual_) {
    fail_invalid(
        "manual computation in {}: it stands inside another one, which has "
        "made every mesh axis ({}) manual already",
        path_.empty() ? "the main scope" : path_, graph_.mesh().to_string());
  }
  const std::string path = path_;
  const auto sharding = [&](const mesh::PartitionSpec& spec,
                            const Shape& shape) {
    return fmt::format("<{}>",
                       sharding_text(spec, shape.rank(), graph_.mesh()));
  };
  std::vector<std::string> inputs, input_types, in_shardings, arguments;
  for (std::size_t i = 0; i < n.operands.size(); ++i) {
    const NodeId parameter = block.parameters[i];
    if (!live_.value(parameter)) continue;
    const Shape& shape = n.operands[i].shape();
    inputs.push_back(name(n.operands[i]));
    input_types.push_back(type_text(shape));
    in_shardings.push_back(sharding(attr.in_specs[i], shape));
    std::string argument = fresh_argument();
    arguments.push_back(fmt::format(
        "{}: {}", argument, type_text(graph_.node(parameter).results[0])));
    set_name(parameter, 0, std::move(argument));
  }
  std::vector<std::size_t> live;
  std::vector<std::string> types, local_types, out_shardings;
  for (std::size_t i = 0; i < n.results.size(); ++i) {
    if (!live_.value(id, static_cast<std::int64_t>(i))) continue;
    live.push_back(i);
    types.push_back(type_text(n.results[i]));
    local_types.push_back(type_text(block.results[i].shape()));
    out_shardings.push_back(sharding(attr.out_specs[i], n.results[i]));
  }
  std::string prefix;
  const std::vector<std::string> results = fresh_results(live.size(), &prefix);
  open(fmt::format(
      "{}sdy.manual_computation({}) in_shardings=[{}] out_shardings=[{}] "
      "manual_axes={} ({}) {{",
      prefix, fmt::join(inputs, ", "), fmt::join(in_shardings, ", "),
      fmt::join(out_shardings, ", "), manual_axes_text(graph_.mesh()),
      fmt::join(arguments, ", ")));
  in_manual_ = true;
  block_nodes(n.regions[0]);
  in_manual_ = false;
  path_ = path;
  std::vector<std::string> names;
  for (const std::size_t i : live) names.push_back(name(block.results[i]));
  line(return_text("sdy.return", names, local_types));
  close(fmt::format("}} : ({}) -> {}", fmt::join(input_types, ", "),
                    types.size() == 1
                        ? types[0]
                        : fmt::format("({})", fmt::join(types, ", "))));
  for (std::size_t i = 0; i < live.size(); ++i) {
    set_name(id, live[i], results[i]);
  }
}

}  // namespace ringmax::graph
