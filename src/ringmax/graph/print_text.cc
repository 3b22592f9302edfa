#include "ringmax/graph/print_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <span>

#include "ringmax/base/error.h"

namespace ringmax::graph {
namespace {

// Literals of more elements than this are printed as bytes.
constexpr std::int64_t kMaxListedElements = 16;

struct FloatBits {
  std::uint64_t infinity, negative_infinity, nan;
  int digits;  // hexadecimal
};

FloatBits float_bits(DType dtype) {
  switch (dtype) {
    case DType::kF16:
      return {0x7C00, 0xFC00, 0x7E00, 4};
    case DType::kBF16:
      return {0x7F80, 0xFF80, 0x7FC0, 4};
    case DType::kF32:
      return {0x7F800000, 0xFF800000, 0x7FC00000, 8};
    default:
      return {0x7FF0000000000000, 0xFFF0000000000000, 0x7FF8000000000000, 16};
  }
}

// Rounded to the dtype; out of range becomes infinite.
double round_to(double value, DType dtype) {
  // Half-way between the largest half (65504) and the next power of two.
  constexpr double kHalfOverflow = 65520.0;
  switch (dtype) {
    case DType::kF16:
      return std::fabs(value) < kHalfOverflow
                 ? value
                 : std::copysign(std::numeric_limits<double>::infinity(),
                                 value);
    case DType::kBF16:
      return bf16_to_float(float_to_bf16(static_cast<float>(value)));
    case DType::kF32:
      return static_cast<float>(value);
    default:
      return value;
  }
}

// MLIR wants a point before the exponent: "1.0e-05".
std::string with_point(std::string digits) {
  if (digits.find('.') != std::string::npos) return digits;
  const std::size_t exponent = digits.find('e');
  digits.insert(exponent == std::string::npos ? digits.size() : exponent, ".0");
  return digits;
}

template <typename T>
T element(const HostArray& array, std::size_t i) {
  T value;
  std::memcpy(&value, array.bytes().data() + i * sizeof(T), sizeof(T));
  return value;
}

std::string element_text(const HostArray& array, std::size_t i) {
  const DType dtype = array.shape().dtype;
  switch (dtype) {
    case DType::kBool:
      return element<std::uint8_t>(array, i) != 0 ? "true" : "false";
    case DType::kI8:
      return fmt::to_string(static_cast<int>(element<std::int8_t>(array, i)));
    case DType::kU8:
      return fmt::to_string(static_cast<int>(element<std::uint8_t>(array, i)));
    case DType::kI16:
      return fmt::to_string(element<std::int16_t>(array, i));
    case DType::kU16:
      return fmt::to_string(element<std::uint16_t>(array, i));
    case DType::kI32:
      return fmt::to_string(element<std::int32_t>(array, i));
    case DType::kU32:
      return fmt::to_string(element<std::uint32_t>(array, i));
    case DType::kI64:
      return fmt::to_string(element<std::int64_t>(array, i));
    case DType::kU64:
      return fmt::to_string(element<std::uint64_t>(array, i));
    // A bit pattern needs no decoding of halves.
    case DType::kF16:
      return fmt::format("0x{:04X}", element<std::uint16_t>(array, i));
    case DType::kBF16:
      return float_text(bf16_to_float(element<std::uint16_t>(array, i)), dtype);
    case DType::kF32:
      return float_text(element<float>(array, i), dtype);
    case DType::kF64:
      return float_text(element<double>(array, i), dtype);
  }
  fail(ErrorCode::kInternal, "unknown dtype of a literal");
}

// Nested lists, row-major.
std::string nested_text(const HostArray& array, std::size_t dim,
                        std::size_t* next) {
  const Dims& dims = array.shape().dims;
  if (dim == dims.size()) return element_text(array, (*next)++);
  std::string text = "[";
  for (std::int64_t i = 0; i < dims[dim]; ++i) {
    if (i > 0) text += ", ";
    text += nested_text(array, dim + 1, next);
  }
  return text + "]";
}

std::string bytes_text(std::span<const std::byte> bytes) {
  static_assert(std::endian::native == std::endian::little);
  constexpr char kDigits[] = "0123456789ABCDEF";
  std::string text = "\"0x";
  text.reserve(bytes.size() * 2 + 4);
  for (const std::byte b : bytes) {
    text += kDigits[std::to_integer<unsigned>(b) >> 4];
    text += kDigits[std::to_integer<unsigned>(b) & 15];
  }
  return text + "\"";
}

std::string integer_limit_text(DType dtype, bool lowest) {
  const auto bits = static_cast<int>(dtype_size(dtype) * 8);
  if (is_unsigned_int(dtype)) {
    return lowest ? "0"
                  : fmt::to_string(std::numeric_limits<std::uint64_t>::max() >>
                                   (64 - bits));
  }
  const std::int64_t highest =
      std::numeric_limits<std::int64_t>::max() >> (64 - bits);
  return fmt::to_string(lowest ? -highest - 1 : highest);
}

}  // namespace

std::string type_text(const Shape& shape) {
  std::string text = "tensor<";
  for (const std::int64_t d : shape.dims) text += fmt::format("{}x", d);
  text += dtype_mlir_name(shape.dtype);
  return text + ">";
}

std::string list_text(const Dims& dims) {
  return fmt::format("{}", fmt::join(dims, ", "));
}

std::string quoted_text(std::string_view text) {
  std::string result = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\' || byte < 0x20 || byte == 0x7F) {
      result += fmt::format("\\{:02X}", byte);
    } else {
      result += c;
    }
  }
  return result + "\"";
}

std::string float_text(double value, DType dtype) {
  const double rounded = round_to(value, dtype);
  const FloatBits bits = float_bits(dtype);
  if (std::isnan(rounded))
    return fmt::format("0x{:0{}X}", bits.nan, bits.digits);
  if (std::isinf(rounded)) {
    return fmt::format("0x{:0{}X}",
                       rounded < 0 ? bits.negative_infinity : bits.infinity,
                       bits.digits);
  }
  // The shortest digits that read back as this very value.
  return with_point(dtype == DType::kBF16 || dtype == DType::kF32
                        ? fmt::format("{}", static_cast<float>(rounded))
                        : fmt::format("{}", rounded));
}

std::string constant_text(const ConstantAttr& attr, const Shape& shape) {
  if (shape.elements() == 0) return "dense<>";
  if (attr.splat) {
    if (is_float(shape.dtype)) {
      return fmt::format("dense<{}>", float_text(attr.number, shape.dtype));
    }
    if (shape.dtype == DType::kBool) {
      return attr.number != 0 ? "dense<true>" : "dense<false>";
    }
    if (shape.dtype == DType::kU64) {
      return fmt::format("dense<{}>", static_cast<std::uint64_t>(attr.integer));
    }
    return fmt::format("dense<{}>", attr.integer);
  }
  RINGMAX_CHECK(attr.dense.shape() == shape);
  // Bools are one bit each in MLIR's bytes, so they are listed at any length.
  if (shape.elements() <= kMaxListedElements || shape.dtype == DType::kBool) {
    std::size_t next = 0;
    return fmt::format("dense<{}>", nested_text(attr.dense, 0, &next));
  }
  return fmt::format("dense<{}>", bytes_text(attr.dense.bytes()));
}

std::string reduce_init_text(ReduceKind kind, DType dtype) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  switch (kind) {
    case ReduceKind::kSum:
      return is_float(dtype) ? "0.0" : "0";
    case ReduceKind::kMax:
      return is_float(dtype) ? float_text(-kInfinity, dtype)
                             : integer_limit_text(dtype, true);
    case ReduceKind::kMin:
      return is_float(dtype) ? float_text(kInfinity, dtype)
                             : integer_limit_text(dtype, false);
    case ReduceKind::kAnd:
      return "true";
    case ReduceKind::kOr:
      return "false";
  }
  fail(ErrorCode::kInternal, "unknown reduction");
}

std::string_view reduce_op_text(ReduceKind kind) {
  switch (kind) {
    case ReduceKind::kSum:
      return "stablehlo.add";
    case ReduceKind::kMax:
      return "stablehlo.maximum";
    case ReduceKind::kMin:
      return "stablehlo.minimum";
    case ReduceKind::kAnd:
      return "stablehlo.and";
    case ReduceKind::kOr:
      return "stablehlo.or";
  }
  fail(ErrorCode::kInternal, "unknown reduction");
}

std::string sharding_text(const mesh::PartitionSpec& spec, std::int64_t rank,
                          const mesh::Mesh& mesh) {
  std::vector<std::string> dims;
  for (std::size_t d = 0; d < static_cast<std::size_t>(rank); ++d) {
    std::vector<std::string> axes;
    if (d < spec.dims.size()) {
      for (const std::string& axis : spec.dims[d]) {
        if (mesh.size(axis) > 1) axes.push_back(quoted_text(axis));
      }
    }
    dims.push_back(fmt::format("{{{}}}", fmt::join(axes, ", ")));
  }
  return fmt::format("@mesh, [{}]", fmt::join(dims, ", "));
}

std::string mesh_text(const mesh::Mesh& mesh) {
  std::vector<std::string> axes;
  for (const mesh::MeshAxis& axis : mesh.axes()) {
    if (axis.size > 1) {
      axes.push_back(fmt::format("{}={}", quoted_text(axis.name), axis.size));
    }
  }
  return fmt::format("<[{}]>", fmt::join(axes, ", "));
}

std::string manual_axes_text(const mesh::Mesh& mesh) {
  std::vector<std::string> axes;
  for (const mesh::MeshAxis& axis : mesh.axes()) {
    if (axis.size > 1) axes.push_back(quoted_text(axis.name));
  }
  return fmt::format("{{{}}}", fmt::join(axes, ", "));
}

DeviceGroups device_groups(const mesh::Mesh& mesh,
                           const std::vector<std::string>& axes) {
  std::int64_t members = 1;
  for (const std::string& axis : axes) members *= mesh.size(axis);
  const std::int64_t devices = mesh.device_count();
  DeviceGroups groups;
  std::vector<bool> seen(static_cast<std::size_t>(devices), false);
  // Distance between two devices whose places along an axis differ by one.
  const auto step = [&](const std::string& axis) {
    std::int64_t inner = 1;
    for (auto it = mesh.axes().rbegin(); it != mesh.axes().rend(); ++it) {
      if (it->name == axis) break;
      inner *= it->size;
    }
    return inner;
  };
  for (std::int64_t first = 0; first < devices; ++first) {
    if (seen[static_cast<std::size_t>(first)]) continue;
    std::vector<std::int64_t> group;
    for (std::int64_t member = 0; member < members; ++member) {
      std::int64_t rest = member;
      std::int64_t device = first;
      for (auto axis = axes.rbegin(); axis != axes.rend(); ++axis) {
        device += rest % mesh.size(*axis) * step(*axis);
        rest /= mesh.size(*axis);
      }
      group.push_back(device);
      seen[static_cast<std::size_t>(device)] = true;
    }
    groups.push_back(std::move(group));
  }
  return groups;
}

DeviceGroups device_pairs(
    const DeviceGroups& groups,
    const std::vector<std::pair<std::int64_t, std::int64_t>>& pairs) {
  DeviceGroups table;
  for (const std::vector<std::int64_t>& group : groups) {
    for (const auto& [source, target] : pairs) {
      table.push_back({group.at(static_cast<std::size_t>(source)),
                       group.at(static_cast<std::size_t>(target))});
    }
  }
  return table;
}

std::string device_table_text(const DeviceGroups& table) {
  std::vector<std::string> rows;
  for (const std::vector<std::int64_t>& row : table) {
    rows.push_back(fmt::format("[{}]", fmt::join(row, ", ")));
  }
  return fmt::format("dense<[{}]> : tensor<{}x{}xi64>", fmt::join(rows, ", "),
                     table.size(), table.at(0).size());
}

}  // namespace ringmax::graph
