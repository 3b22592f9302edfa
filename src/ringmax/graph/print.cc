#include "ringmax/graph/print.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "ringmax/base/error.h"
#include "ringmax/graph/print_text.h"
#include "ringmax/graph/printer.h"

namespace ringmax::graph {

Printer::Printer(const Graph& graph, const PrintOptions& options)
    : graph_(graph),
      options_(options),
      live_(graph),
      one_device_(graph.mesh().device_count() == 1),
      names_(graph.node_count()) {
  for (std::size_t i = 0; i < names_.size(); ++i) {
    names_[i].resize(graph.node(static_cast<NodeId>(i)).results.size());
  }
}

std::string Printer::location_suffix(const std::string& path) {
  if (!options_.locations || path.empty()) return "";
  const auto [it, inserted] =
      locations_.emplace(path, static_cast<int>(locations_.size()) + 1);
  if (inserted) location_order_.push_back(path);
  return fmt::format(" loc(#loc{})", it->second);
}

void Printer::line(std::string_view text) {
  out_.append(static_cast<std::size_t>(indent_) * 2, ' ');
  out_ += text;
  out_ += location_suffix(path_);
  out_ += '\n';
}

void Printer::open(std::string_view text) {
  out_.append(static_cast<std::size_t>(indent_) * 2, ' ');
  out_ += text;
  out_ += '\n';
  ++indent_;
}

void Printer::reopen(std::string_view text) {
  --indent_;
  open(text);
}

void Printer::close(std::string_view text) {
  --indent_;
  line(text);
}

const std::string& Printer::name(const Value& v) const {
  const std::string& known = names_[static_cast<std::size_t>(v.node)]
                                   [static_cast<std::size_t>(v.result)];
  if (known.empty()) {
    fail(ErrorCode::kInternal, "{} is used before it is printed", v.describe());
  }
  return known;
}

void Printer::set_name(NodeId node, std::size_t result, std::string name) {
  names_[static_cast<std::size_t>(node)][result] = std::move(name);
}

void Printer::alias(NodeId node, std::size_t result, const Value& to) {
  set_name(node, result, name(to));
}

std::string Printer::fresh_argument() {
  return fmt::format("%arg{}", next_argument_++);
}

std::string Printer::temporary(std::string_view text) {
  std::string result = fmt::format("%{}", next_value_++);
  line(fmt::format("{} = {}", result, text));
  return result;
}

std::string Printer::scalar(std::string_view literal, DType dtype) {
  return temporary(fmt::format("stablehlo.constant dense<{}> : {}", literal,
                               type_text(Shape(dtype, {}))));
}

std::vector<std::string> Printer::fresh_results(std::size_t count,
                                                std::string* prefix) {
  std::vector<std::string> names;
  if (count == 0) {
    prefix->clear();
    return names;
  }
  const int number = next_value_++;
  if (count == 1) {
    names.push_back(fmt::format("%{}", number));
    *prefix = fmt::format("%{} = ", number);
    return names;
  }
  for (std::size_t i = 0; i < count; ++i) {
    names.push_back(fmt::format("%{}#{}", number, i));
  }
  *prefix = fmt::format("%{}:{} = ", number, count);
  return names;
}

void Printer::define(NodeId id, std::string_view text) {
  std::string prefix;
  const std::vector<std::string> names =
      fresh_results(graph_.node(id).results.size(), &prefix);
  line(prefix + std::string(text));
  for (std::size_t i = 0; i < names.size(); ++i) set_name(id, i, names[i]);
}

std::string Printer::operand_names(const Node& node) const {
  std::vector<std::string> names;
  for (const Value& v : node.operands) names.push_back(name(v));
  return fmt::format("{}", fmt::join(names, ", "));
}

std::string Printer::operand_types(const Node& node) const {
  std::vector<std::string> types;
  for (const Value& v : node.operands) types.push_back(type_text(v.shape()));
  return fmt::format("{}", fmt::join(types, ", "));
}

std::string Printer::signature(const Node& node) const {
  std::vector<std::string> types;
  for (const Shape& shape : node.results) types.push_back(type_text(shape));
  return types.size() == 1
             ? fmt::format("({}) -> {}", operand_types(node), types[0])
             : fmt::format("({}) -> ({})", operand_types(node),
                           fmt::join(types, ", "));
}

void Printer::block_nodes(BlockId block) {
  for (const NodeId id : graph_.block(block).nodes) {
    if (live_.node(id)) node(id);
  }
}

std::string Printer::parameter_text(const Parameter& parameter) {
  std::vector<std::string> attributes;
  const Shape& shape = parameter.value.shape();
  if (parameter.spec && !one_device_) {
    attributes.push_back(fmt::format(
        "sdy.sharding = #sdy.sharding<{}>",
        sharding_text(*parameter.spec, shape.rank(), graph_.mesh())));
  }
  if (parameter.donated_to) {
    attributes.push_back(
        fmt::format("tf.aliasing_output = {} : i32", *parameter.donated_to));
  }
  std::string argument = fresh_argument();
  std::string text = fmt::format("{}: {}", argument, type_text(shape));
  if (!attributes.empty()) {
    text += fmt::format(" {{{}}}", fmt::join(attributes, ", "));
  }
  text += location_suffix(parameter.name);
  set_name(parameter.value.node, 0, std::move(argument));
  return text;
}

std::string Printer::result_types() {
  std::vector<std::string> types;
  for (const Result& result : graph_.results()) {
    const Shape& shape = result.value.shape();
    std::string text = type_text(shape);
    if (result.spec && !one_device_) {
      text +=
          fmt::format(" {{sdy.sharding = #sdy.sharding<{}>}}",
                      sharding_text(*result.spec, shape.rank(), graph_.mesh()));
    }
    types.push_back(std::move(text));
  }
  return fmt::format("({})", fmt::join(types, ", "));
}

void Printer::main_function() {
  std::vector<std::string> parameters;
  for (const Parameter& parameter : graph_.parameters()) {
    parameters.push_back(parameter_text(parameter));
  }
  open(fmt::format("func.func public @main({}) -> {} {{",
                   fmt::join(parameters, ", "), result_types()));
  block_nodes(graph_.main_block());
  path_.clear();
  std::vector<std::string> names, types;
  for (const Result& result : graph_.results()) {
    names.push_back(name(result.value));
    types.push_back(type_text(result.value.shape()));
  }
  line(names.empty() ? std::string("return")
                     : fmt::format("return {} : {}", fmt::join(names, ", "),
                                   fmt::join(types, ", ")));
  close("}");
}

std::string Printer::module() {
  // Quoted when it is no bare identifier; XLA names its dumps after it.
  open(
      fmt::format("module @{} attributes {{mhlo.num_partitions = {} : i32, "
                  "mhlo.num_replicas = 1 : i32}} {{",
                  quoted_text(graph_.name()), graph_.mesh().device_count()));
  if (!one_device_) {
    line(fmt::format("sdy.mesh @mesh = {}", mesh_text(graph_.mesh())));
  }
  main_function();
  close("}");
  for (std::size_t i = 0; i < location_order_.size(); ++i) {
    out_ += fmt::format("#loc{} = loc({})\n", i + 1,
                        quoted_text(location_order_[i]));
  }
  return std::move(out_);
}

std::string print_stablehlo(const Graph& graph, const PrintOptions& options) {
  return Printer(graph, options).module();
}

}  // namespace ringmax::graph
