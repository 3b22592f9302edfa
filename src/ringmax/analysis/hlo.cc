#include "ringmax/analysis/hlo.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "ringmax/base/error.h"
#include "ringmax/base/proto.h"

namespace ringmax::analysis {
namespace {

struct Primitive {
  std::string_view name;
  std::int64_t bits;
};
// By the number of PrimitiveType; what is not here is "type N" of 8 bits.
constexpr std::array<Primitive, 37> kPrimitives = {{
    {"invalid", 0},  {"pred", 8},     {"s8", 8},     {"s16", 16},
    {"s32", 32},     {"s64", 64},     {"u8", 8},     {"u16", 16},
    {"u32", 32},     {"u64", 64},     {"f16", 16},   {"f32", 32},
    {"f64", 64},     {"tuple", 0},    {"opaque", 0}, {"c64", 64},
    {"bf16", 16},    {"token", 0},    {"c128", 128}, {"f8e5m2", 8},
    {"f8e4m3", 8},   {"s4", 4},       {"u4", 4},     {"f8e4m3b11", 8},
    {"f8e5m2fn", 8}, {"f8e4m3fn", 8}, {"s2", 2},     {"u2", 2},
    {"f8e4", 8},     {"f8e3m4", 8},   {"s1", 1},     {"u1", 1},
    {"f4e2m1fn", 4}, {"f8e8m0", 8},   {"buffer", 0}, {"type35", 8},
    {"type36", 8},
}};

std::string text(std::string_view bytes) { return std::string(bytes); }

void read_layout(std::string_view bytes, HloShape& shape) {
  for (ProtoReader in(bytes); in.next();) {
    if (in.field() == 1) in.append_varints(shape.minor_to_major);
    if (in.field() == 8) shape.memory_space = in.varint();
  }
}

HloShape read_shape(std::string_view bytes) {
  HloShape shape;
  shape.type = kPrimitives[0].name;
  for (ProtoReader in(bytes); in.next();) {
    switch (in.field()) {
      case 2: {
        const auto code = static_cast<std::size_t>(in.varint());
        if (code < kPrimitives.size()) {
          shape.type = kPrimitives[code].name;
          shape.bits = kPrimitives[code].bits;
        } else {
          shape.type = "unknown";
          shape.bits = 8;
        }
        break;
      }
      case 3:
        in.append_varints(shape.dims);
        break;
      case 4:
        shape.parts.push_back(read_shape(in.bytes()));
        break;
      case 5:
        read_layout(in.bytes(), shape);
        break;
      default:
        break;
    }
  }
  return shape;
}

// The value of a scalar integer; nothing for other literals.
std::optional<std::int64_t> read_integer(std::string_view bytes) {
  std::optional<std::int64_t> value;
  for (ProtoReader in(bytes); in.next();) {
    switch (in.field()) {
      case 1: {
        const HloShape shape = read_shape(in.bytes());
        if (!shape.dims.empty() || !shape.parts.empty()) return std::nullopt;
        break;
      }
      case 4:    // s32s
      case 5:    // s64s
      case 6:    // u32s
      case 7: {  // u64s
        std::vector<std::int64_t> values;
        in.append_varints(values);
        if (values.size() == 1) value = values[0];
        break;
      }
      default:
        break;
    }
  }
  return value;
}

std::vector<HloWindow> read_window(std::string_view bytes) {
  std::vector<HloWindow> dims;
  for (ProtoReader in(bytes); in.next();) {
    if (in.field() != 1) continue;
    HloWindow& dim = dims.emplace_back();
    for (ProtoReader one(in.bytes()); one.next();) {
      switch (one.field()) {
        case 1:
          dim.size = one.varint();
          break;
        case 2:
          dim.stride = one.varint();
          break;
        case 3:
          dim.pad_low = one.varint();
          break;
        case 4:
          dim.pad_high = one.varint();
          break;
        case 5:
          dim.window_dilation = one.varint();
          break;
        case 6:
          dim.base_dilation = one.varint();
          break;
        default:
          break;
      }
    }
  }
  return dims;
}

void read_convolution_dims(std::string_view bytes, HloInstruction& to) {
  for (ProtoReader in(bytes); in.next();) {
    switch (in.field()) {
      case 3:
        to.kernel_input_feature_dim = in.varint();
        break;
      case 11:
        in.append_varints(to.input_spatial_dims);
        break;
      case 12:
        in.append_varints(to.output_spatial_dims);
        break;
      default:
        break;
    }
  }
}

std::pair<std::int64_t, std::int64_t> read_pair(std::string_view bytes) {
  std::pair<std::int64_t, std::int64_t> pair{0, 0};
  for (ProtoReader in(bytes); in.next();) {
    if (in.field() == 1) pair.first = in.varint();
    if (in.field() == 2) pair.second = in.varint();
  }
  return pair;
}

std::int64_t read_group(std::string_view bytes) {
  std::vector<std::int64_t> ids;
  for (ProtoReader in(bytes); in.next();) {
    if (in.field() == 1) in.append_varints(ids);
  }
  return static_cast<std::int64_t>(ids.size());
}

// CollectiveDeviceList: explicit groups, or an iota of groups.
std::int64_t read_device_list(std::string_view bytes) {
  std::int64_t size = 0;
  for (ProtoReader in(bytes); in.next();) {
    if (in.field() == 1) size = read_group(in.bytes());
    if (in.field() == 2) {
      for (ProtoReader iota(in.bytes()); iota.next();) {
        if (iota.field() == 2) size = iota.varint();
      }
    }
  }
  return size;
}

// Groups along axes of a mesh: the product of the axes' sizes.
std::int64_t read_mesh_groups(std::string_view bytes) {
  std::vector<std::int64_t> sizes;
  std::int64_t group = 1;
  for (ProtoReader in(bytes); in.next();) {
    if (in.field() == 1) {
      for (ProtoReader mesh(in.bytes()); mesh.next();) {
        if (mesh.field() != 1) continue;
        std::int64_t size = 1;
        for (ProtoReader axis(mesh.bytes()); axis.next();) {
          if (axis.field() == 2) size = axis.varint();
        }
        sizes.push_back(size);
      }
    } else if (in.field() == 2) {
      std::int64_t axis = 0;
      std::optional<std::int64_t> part;
      for (ProtoReader reference(in.bytes()); reference.next();) {
        if (reference.field() == 1) axis = reference.varint();
        if (reference.field() == 2) {
          for (ProtoReader sub(reference.bytes()); sub.next();) {
            if (sub.field() == 2) part = sub.varint();
          }
        }
      }
      if (axis >= 0 && axis < static_cast<std::int64_t>(sizes.size())) {
        group *= part.value_or(sizes[static_cast<std::size_t>(axis)]);
      }
    }
  }
  return group;
}

HloInstruction read_instruction(std::string_view bytes) {
  HloInstruction to;
  for (ProtoReader in(bytes); in.next();) {
    switch (in.field()) {
      case 1:
        to.name = text(in.bytes());
        break;
      case 2:
        to.opcode = text(in.bytes());
        break;
      case 3:
        to.shape = read_shape(in.bytes());
        break;
      case 7:
        for (ProtoReader meta(in.bytes()); meta.next();) {
          if (meta.field() == 2) to.op_name = text(meta.bytes());
        }
        break;
      case 8:
        to.integer = read_integer(in.bytes());
        break;
      case 9:
        to.parameter_number = in.varint();
        break;
      case 13:
        to.tuple_index = in.varint();
        break;
      case 15:
        to.window = read_window(in.bytes());
        break;
      case 16:
        read_convolution_dims(in.bytes(), to);
        break;
      case 28:
        to.custom_call_target = text(in.bytes());
        break;
      case 30:
        for (ProtoReader dot(in.bytes()); dot.next();) {
          if (dot.field() == 1) dot.append_varints(to.lhs_contracting);
        }
        break;
      case 35:
        to.id = in.varint();
        break;
      case 36:
        in.append_varints(to.operands);
        break;
      case 38:
        in.append_varints(to.called);
        break;
      case 43:
        to.backend_config = text(in.bytes());
        break;
      case 49:
        to.group_size = read_group(in.bytes());
        break;
      case 50:
        to.feature_groups = in.varint();
        break;
      case 52:
        to.source_target_pairs.push_back(read_pair(in.bytes()));
        break;
      case 63:
        to.comparison = text(in.bytes());
        break;
      case 87:
        to.group_size = read_device_list(in.bytes());
        break;
      case 93:
        to.group_size = read_mesh_groups(in.bytes());
        break;
      default:
        break;
    }
  }
  if (to.opcode.empty() || to.name.empty()) {
    fail_invalid("HLO: an instruction without name or opcode");
  }
  return to;
}

HloComputation read_computation(std::string_view bytes) {
  HloComputation to;
  for (ProtoReader in(bytes); in.next();) {
    switch (in.field()) {
      case 1:
        to.name = text(in.bytes());
        break;
      case 2:
        to.instructions.push_back(read_instruction(in.bytes()));
        break;
      case 5:
        to.id = in.varint();
        break;
      case 6:
        to.root = in.varint();
        break;
      case 7:
        to.is_fusion = in.varint() != 0;
        break;
      default:
        break;
    }
  }
  return to;
}

using Schedule = std::unordered_map<std::int64_t, std::vector<std::int64_t>>;

Schedule read_schedule(std::string_view bytes) {
  Schedule schedule;
  for (ProtoReader in(bytes); in.next();) {
    if (in.field() != 1) continue;
    std::int64_t computation = 0;
    std::vector<std::int64_t> ids;
    for (ProtoReader entry(in.bytes()); entry.next();) {
      if (entry.field() == 1) computation = entry.varint();
      if (entry.field() == 2) {
        for (ProtoReader sequence(entry.bytes()); sequence.next();) {
          if (sequence.field() == 1) sequence.append_varints(ids);
        }
      }
    }
    schedule[computation] = std::move(ids);
  }
  return schedule;
}

std::vector<std::int64_t> read_device_assignment(std::string_view bytes) {
  std::vector<std::int64_t> ids;
  for (ProtoReader in(bytes); in.next();) {
    if (in.field() != 3) continue;
    std::vector<std::int64_t> replicas;
    for (ProtoReader devices(in.bytes()); devices.next();) {
      if (devices.field() == 1) devices.append_varints(replicas);
    }
    if (!replicas.empty()) ids.push_back(replicas[0]);
  }
  return ids;
}

void index_instructions(HloComputation& computation) {
  computation.index.clear();
  for (std::size_t i = 0; i < computation.instructions.size(); ++i) {
    computation.index[computation.instructions[i].id] = i;
  }
}

// Puts the instructions into the order of the schedule.
void put_in_order(const std::vector<std::int64_t>& order,
                  HloComputation& computation) {
  if (order.size() != computation.instructions.size()) return;
  std::vector<HloInstruction> sorted;
  sorted.reserve(order.size());
  for (const std::int64_t id : order) {
    const auto found = computation.index.find(id);
    if (found == computation.index.end()) return;
    sorted.push_back(std::move(computation.instructions[found->second]));
  }
  computation.instructions = std::move(sorted);
  index_instructions(computation);
}

HloModule read_module(std::string_view bytes) {
  HloModule module;
  Schedule schedule;
  for (ProtoReader in(bytes); in.next();) {
    switch (in.field()) {
      case 1:
        module.name = text(in.bytes());
        break;
      case 3:
        module.computations.push_back(read_computation(in.bytes()));
        break;
      case 6:
        module.entry = in.varint();
        break;
      case 7:
        schedule = read_schedule(in.bytes());
        break;
      case 15:
        module.device_assignment = read_device_assignment(in.bytes());
        break;
      default:
        break;
    }
  }
  module.scheduled = !schedule.empty();
  for (std::size_t i = 0; i < module.computations.size(); ++i) {
    HloComputation& computation = module.computations[i];
    module.index[computation.id] = i;
    index_instructions(computation);
    const auto order = schedule.find(computation.id);
    if (order != schedule.end()) put_in_order(order->second, computation);
  }
  module.at(module.entry);
  return module;
}

}  // namespace

std::int64_t HloShape::elements() const { return element_count(dims); }

std::int64_t HloShape::bytes() const {
  std::int64_t sum = (elements() * bits + 7) / 8;
  for (const HloShape& part : parts) sum += part.bytes();
  return sum;
}

std::string HloShape::to_string() const {
  std::string result;
  if (type == "tuple") {
    for (const HloShape& part : parts) {
      result += (result.empty() ? "" : ", ") + part.to_string();
    }
    return "(" + result + ")";
  }
  for (const std::int64_t dim : dims) {
    result += fmt::format("{}{}", result.empty() ? "" : ",", dim);
  }
  result = fmt::format("{}[{}]", type, result);
  if (memory_space != 0) result += fmt::format("S({})", memory_space);
  return result;
}

const HloInstruction& HloComputation::at(std::int64_t id_in) const {
  const auto found = index.find(id_in);
  if (found == index.end()) {
    fail_invalid("HLO: computation {} has no instruction {}", name, id_in);
  }
  return instructions[found->second];
}

const HloInstruction& HloComputation::operand(const HloInstruction& of,
                                              std::size_t n) const {
  if (n >= of.operands.size()) {
    fail_invalid("HLO: {} has {} operands, not {}", of.name, of.operands.size(),
                 n + 1);
  }
  return at(of.operands[n]);
}

const HloComputation& HloModule::at(std::int64_t id) const {
  const auto found = index.find(id);
  if (found == index.end()) fail_invalid("HLO: there is no computation {}", id);
  return computations[found->second];
}

HloModule decode_hlo(std::string_view bytes) {
  // With a config the module is field 1 and a message; alone, field 1 is its
  // name, and computations follow.
  std::string_view first;
  bool has_computations = false;
  for (ProtoReader in(bytes); in.next();) {
    if (in.field() == 1) first = in.bytes();
    if (in.field() == 3) has_computations = true;
  }
  return read_module(has_computations ? bytes : first);
}

std::string hlo_text(const HloModule& module) {
  std::string out = fmt::format("HloModule {}{}\n", module.name,
                                module.scheduled ? ", scheduled" : "");
  for (const HloComputation& computation : module.computations) {
    out += fmt::format("\n{}%{} {{\n",
                       computation.id == module.entry ? "ENTRY " : "",
                       computation.name);
    for (const HloInstruction& i : computation.instructions) {
      out += fmt::format("  {}%{} = {} {}(",
                         i.id == computation.root ? "ROOT " : "", i.name,
                         i.shape.to_string(), i.opcode);
      for (std::size_t n = 0; n < i.operands.size(); ++n) {
        out += fmt::format("{}%{}", n == 0 ? "" : ", ",
                           computation.operand(i, n).name);
      }
      if (i.opcode == "parameter") {
        out += fmt::format("{}", i.parameter_number);
      }
      if (i.integer) out += fmt::format("{}", *i.integer);
      out += ")";
      if (i.opcode == "get-tuple-element") {
        out += fmt::format(", index={}", i.tuple_index);
      }
      if (!i.comparison.empty()) out += ", direction=" + i.comparison;
      if (!i.custom_call_target.empty()) {
        out += fmt::format(", custom_call_target=\"{}\"", i.custom_call_target);
      }
      for (std::size_t n = 0; n < i.called.size(); ++n) {
        out += fmt::format("{}%{}", n == 0 ? ", calls=" : ",",
                           module.at(i.called[n]).name);
      }
      for (std::size_t n = 0; n < i.source_target_pairs.size(); ++n) {
        const auto& [from, to] = i.source_target_pairs[n];
        out += fmt::format("{}{{{},{}}}", n == 0 ? ", pairs=" : ",", from, to);
      }
      if (i.group_size > 0) out += fmt::format(", group={}", i.group_size);
      if (!i.op_name.empty()) out += fmt::format(", op_name=\"{}\"", i.op_name);
      if (!i.backend_config.empty()) {
        out += ", backend_config=" + i.backend_config;
      }
      out += "\n";
    }
    out += "}\n";
  }
  return out;
}

}  // namespace ringmax::analysis
