#include "ringmax/analysis/hlo_cost.h"

#include <algorithm>

namespace ringmax::analysis {
namespace {

// Deep enough for any nest of loops and copies, and an end for broken programs.
constexpr int kMostSteps = 200;

// Computations that an instruction runs one after the other with the rest of
// its own computation, as against those inside of fusions and reductions.
bool runs_called(const HloInstruction& i) {
  return i.opcode == "while" || i.opcode == "call" ||
         i.opcode == "conditional" || i.opcode == "async-start";
}

bool passes_on(const HloInstruction& i) {
  return i.opcode == "copy" || i.opcode == "copy-start" ||
         i.opcode == "copy-done" || i.opcode == "bitcast" ||
         i.opcode == "convert" || i.opcode == "reshape";
}

// Positions of one spatial dimension that fall onto an element of the base and
// not onto padding or dilation.
double valid_positions(const HloWindow& w, std::int64_t base,
                       std::int64_t output) {
  const std::int64_t dilated = (base - 1) * w.base_dilation + 1;
  double count = 0;
  for (std::int64_t k = 0; k < w.size; ++k) {
    const std::int64_t first = k * w.window_dilation - w.pad_low;
    if (w.base_dilation == 1) {
      // output positions o with 0 <= o * stride + first < base
      const std::int64_t low =
          first >= 0 ? 0 : (-first + w.stride - 1) / w.stride;
      const std::int64_t high =
          first >= base ? 0 : (base - first + w.stride - 1) / w.stride;
      count += static_cast<double>(
          std::max<std::int64_t>(0, std::min(high, output) - low));
      continue;
    }
    for (std::int64_t o = 0; o < output; ++o) {
      const std::int64_t at = o * w.stride + first;
      count += at >= 0 && at < dilated && at % w.base_dilation == 0 ? 1 : 0;
    }
  }
  return count;
}

double convolution_flops(const HloShape& input, const HloShape& kernel,
                         const HloInstruction& i) {
  double count =
      static_cast<double>(i.shape.elements()) *
      static_cast<double>(
          kernel.dims[static_cast<std::size_t>(i.kernel_input_feature_dim)]);
  for (std::size_t d = 0; d < i.window.size(); ++d) {
    const std::int64_t base =
        input.dims[static_cast<std::size_t>(i.input_spatial_dims[d])];
    const std::int64_t output =
        i.shape.dims[static_cast<std::size_t>(i.output_spatial_dims[d])];
    // The output's elements count the dimension already.
    count *= valid_positions(i.window[d], base, output) /
             static_cast<double>(output);
  }
  return 2 * count;
}

double dot_flops(const HloShape& lhs, const HloInstruction& i) {
  double count = static_cast<double>(i.shape.elements());
  for (const std::int64_t dim : i.lhs_contracting) {
    count *= static_cast<double>(lhs.dims[static_cast<std::size_t>(dim)]);
  }
  return 2 * count;
}

}  // namespace

HloCounts::HloCounts(const HloModule& module) : module_(module) {
  for (const HloComputation& computation : module.computations) {
    for (const HloInstruction& i : computation.instructions) {
      for (const std::int64_t called : i.called) {
        callers_.emplace(called, Caller{computation.id, i.id});
      }
    }
  }
  count(module.entry, 1);
}

double HloCounts::executions(std::int64_t computation) const {
  const auto found = executions_.find(computation);
  return found == executions_.end() ? 0 : found->second;
}

void HloCounts::count(std::int64_t id, double times) {
  executions_[id] += times;
  const HloComputation& computation = module_.at(id);
  for (const HloInstruction& i : computation.instructions) {
    if (!runs_called(i)) continue;
    double inner = times;
    if (i.opcode == "while") {
      const auto trips = trip_count(computation, i);
      if (!trips) unknown_.push_back(i.op_name.empty() ? i.name : i.op_name);
      inner *= static_cast<double>(trips.value_or(1));
    }
    for (const std::int64_t called : i.called) count(called, inner);
  }
}

std::optional<std::int64_t> HloCounts::element(const HloComputation& where,
                                               const HloInstruction& tuple,
                                               std::int64_t index,
                                               int depth) const {
  if (depth > kMostSteps || index < 0) return std::nullopt;
  const auto n = static_cast<std::size_t>(index);
  if (tuple.opcode == "tuple") {
    if (n >= tuple.operands.size()) return std::nullopt;
    return constant(where, where.operand(tuple, n), depth + 1);
  }
  if (tuple.opcode == "while") {
    // As it goes in, if the body leaves it alone.
    const HloComputation& body = module_.at(tuple.called.at(0));
    const HloInstruction& root = body.at(body.root);
    if (root.opcode != "tuple" || n >= root.operands.size()) {
      return std::nullopt;
    }
    const HloInstruction& out = body.operand(root, n);
    if (out.opcode != "get-tuple-element" || out.tuple_index != index ||
        body.operand(out, 0).opcode != "parameter") {
      return std::nullopt;
    }
    return element(where, where.operand(tuple, 0), index, depth + 1);
  }
  if (tuple.opcode == "parameter") {
    const auto caller = callers_.find(where.id);
    if (caller == callers_.end()) return std::nullopt;
    const HloComputation& outer = module_.at(caller->second.computation);
    const HloInstruction& call = outer.at(caller->second.instruction);
    if (call.opcode == "while") {
      // The value that the first pass sees.
      return element(outer, outer.operand(call, 0), index, depth + 1);
    }
    if (call.opcode == "call") {
      return element(
          outer,
          outer.operand(call, static_cast<std::size_t>(tuple.parameter_number)),
          index, depth + 1);
    }
    return std::nullopt;
  }
  if (passes_on(tuple) || tuple.opcode == "opt-barrier") {
    return element(where, where.operand(tuple, 0), index, depth + 1);
  }
  return std::nullopt;
}

std::optional<std::int64_t> HloCounts::constant(const HloComputation& where,
                                                const HloInstruction& value,
                                                int depth) const {
  if (depth > kMostSteps) return std::nullopt;
  if (value.opcode == "constant") return value.integer;
  if (value.opcode == "get-tuple-element") {
    return element(where, where.operand(value, 0), value.tuple_index,
                   depth + 1);
  }
  if (passes_on(value)) {
    return constant(where, where.operand(value, 0), depth + 1);
  }
  if (value.opcode == "parameter") {
    const auto caller = callers_.find(where.id);
    if (caller == callers_.end()) return std::nullopt;
    const HloComputation& outer = module_.at(caller->second.computation);
    const HloInstruction& call = outer.at(caller->second.instruction);
    if (call.opcode != "fusion" && call.opcode != "call") return std::nullopt;
    return constant(
        outer,
        outer.operand(call, static_cast<std::size_t>(value.parameter_number)),
        depth + 1);
  }
  return std::nullopt;
}

std::optional<std::int64_t> HloCounts::trip_count(
    const HloComputation& where, const HloInstruction& loop) const {
  if (loop.called.size() != 2) return std::nullopt;
  const HloComputation& body = module_.at(loop.called[0]);
  const HloComputation& condition = module_.at(loop.called[1]);
  const HloComputation* in = &condition;
  const HloInstruction* compare = &condition.at(condition.root);
  const HloInstruction* fusion = nullptr;
  if (compare->opcode == "fusion") {
    fusion = compare;
    in = &module_.at(compare->called.at(0));
    compare = &in->at(in->root);
  }
  if (compare->opcode != "compare" || compare->comparison != "LT") {
    return std::nullopt;
  }
  const HloInstruction* counter = &in->operand(*compare, 0);
  if (fusion != nullptr && counter->opcode == "parameter") {
    counter = &condition.operand(
        *fusion, static_cast<std::size_t>(counter->parameter_number));
  }
  if (counter->opcode != "get-tuple-element") return std::nullopt;
  const std::int64_t index = counter->tuple_index;
  const auto bound = constant(*in, in->operand(*compare, 1), 0);
  const auto start = element(where, where.operand(loop, 0), index, 0);
  if (!bound || !start) return std::nullopt;
  // What the body adds to it.
  const HloInstruction& root = body.at(body.root);
  std::int64_t step = 1;
  if (root.opcode == "tuple" &&
      static_cast<std::size_t>(index) < root.operands.size()) {
    const HloInstruction& next =
        body.operand(root, static_cast<std::size_t>(index));
    if (next.opcode == "add") {
      for (std::size_t n = 0; n < 2; ++n) {
        const HloInstruction& term = body.operand(next, n);
        if (term.opcode == "constant" && term.integer) step = *term.integer;
      }
    }
  }
  if (step <= 0) return std::nullopt;
  return std::max<std::int64_t>(0, (*bound - *start + step - 1) / step);
}

double HloCounts::matmul_flops(const HloComputation& where,
                               const HloInstruction& i) const {
  if (i.opcode == "convolution") {
    return convolution_flops(where.operand(i, 0).shape,
                             where.operand(i, 1).shape, i);
  }
  if (i.opcode == "dot") return dot_flops(where.operand(i, 0).shape, i);
  if (i.opcode != "fusion") return 0;
  double sum = 0;
  for (const std::int64_t called : i.called) {
    const HloComputation& fused = module_.at(called);
    for (const HloInstruction& inner : fused.instructions) {
      sum += matmul_flops(fused, inner);
    }
  }
  return sum;
}

double HloCounts::matmul_flops() const {
  double sum = 0;
  for (const auto& [id, times] : executions_) {
    const HloComputation& computation = module_.at(id);
    for (const HloInstruction& i : computation.instructions) {
      sum += times * matmul_flops(computation, i);
    }
  }
  return sum;
}

}  // namespace ringmax::analysis
