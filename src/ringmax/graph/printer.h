// The printer's state, shared by the print_*.cc files; everybody else includes
// print.h.
//
// Every value gets its SSA name when its op is printed. Ops without text of
// their own (stop_gradient, custom_vjp, ...) give their results the operands'
// names. Numbers and channels count up in printing order, so the text is a
// function of the graph alone.
#ifndef RINGMAX_GRAPH_PRINTER_H_
#define RINGMAX_GRAPH_PRINTER_H_

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "ringmax/graph/dce.h"
#include "ringmax/graph/graph.h"
#include "ringmax/graph/print.h"

namespace ringmax::graph {

class Printer {
 public:
  Printer(const Graph& graph, const PrintOptions& options);
  std::string module();

 private:
  // A value that a loop carries: initial value, then its name in the body.
  struct Carried {
    std::string init;
    std::string type;
    std::string name;
  };
  using LoopBody = std::function<std::vector<std::string>()>;

  // --- Text (print.cc) ------------------------------------------------------
  // One line of one op; carries the current location.
  void line(std::string_view text);
  // A line after which the text is indented, or before which it no longer is.
  void open(std::string_view text);
  void reopen(std::string_view text);
  void close(std::string_view text);
  std::string location_suffix(const std::string& path);

  // --- Names (print.cc) -----------------------------------------------------
  const std::string& name(const Value& v) const;
  void set_name(NodeId node, std::size_t result, std::string name);
  void alias(NodeId node, std::size_t result, const Value& to);
  std::string fresh_argument();
  // Prints "%N = text" and returns "%N".
  std::string temporary(std::string_view text);
  std::string scalar(std::string_view literal, DType dtype);
  // Names of `count` results of one op, and the "%N:2 = " that defines them.
  std::vector<std::string> fresh_results(std::size_t count,
                                         std::string* prefix);
  // Prints an op with one result, or names its results one by one.
  void define(NodeId id, std::string_view text);

  // "%a, %b", "tensor<..>, tensor<..>".
  std::string operand_names(const Node& node) const;
  std::string operand_types(const Node& node) const;
  // "(tensor<..>, tensor<..>) -> tensor<..>".
  std::string signature(const Node& node) const;

  // --- Ops ------------------------------------------------------------------
  void block_nodes(BlockId block);
  void node(NodeId id);
  void main_function();
  std::string parameter_text(const Parameter& parameter);
  std::string result_types();

  // print_ops.cc
  bool simple_op(NodeId id);
  void compare(NodeId id);
  void select(NodeId id);
  void dot(NodeId id);
  void reduce(NodeId id);
  void shape_op(NodeId id);
  void take_rows(NodeId id);
  void scatter_add_rows(NodeId id);
  void custom_call(NodeId id);
  // The region "(a, b) -> kind(a, b)" of a generic op.
  void reducer(ReduceKind kind, DType dtype);
  std::string reshaped(const std::string& value, const Shape& from,
                       const Dims& to);

  // print_control.cc
  void scan(NodeId id);
  void unrolled_scan(NodeId id);
  void fence(const Block& block, const std::vector<std::size_t>& parameters);
  void while_op(NodeId id);
  void cond(NodeId id);
  void custom_vjp(NodeId id);
  void optimization_barrier(NodeId id);
  void manual_computation(NodeId id);
  // Prints a while loop and returns the names of its results.
  std::vector<std::string> loop(std::vector<Carried>* carried,
                                const std::function<std::string()>& condition,
                                const LoopBody& body);

  // print_parallel.cc
  void sharding_constraint(NodeId id);
  void collective(NodeId id);

  const Graph& graph_;
  PrintOptions options_;
  Liveness live_;
  bool one_device_;
  bool in_manual_ = false;
  std::string out_;
  int indent_ = 0;
  std::string path_;  // scope of the op being printed
  std::map<std::string, int> locations_;
  std::vector<std::string> location_order_;
  std::vector<std::vector<std::string>> names_;
  int next_value_ = 0;
  int next_argument_ = 0;
  int next_channel_ = 1;
};

}  // namespace ringmax::graph

#endif  // RINGMAX_GRAPH_PRINTER_H_
