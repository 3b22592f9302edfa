// Spells types, literals, shardings and device groups as MLIR text. Pure
// functions of values; the printer puts them together.
// Source: the MLIR language reference (builtin attributes), the StableHLO
// specification and the Shardy representation.
#ifndef RINGMAX_GRAPH_PRINT_TEXT_H_
#define RINGMAX_GRAPH_PRINT_TEXT_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ringmax/base/array.h"
#include "ringmax/base/shape.h"
#include "ringmax/graph/op.h"
#include "ringmax/mesh/mesh.h"

namespace ringmax::graph {

// "tensor<2x3xbf16>", "tensor<i32>".
std::string type_text(const Shape& shape);
// "1, 2".
std::string list_text(const Dims& dims);
// A string with MLIR's escapes, in quotes.
std::string quoted_text(std::string_view text);

// One element: floats are spelt so that they read back as the same value of
// that dtype; infinities and NaN as bit patterns.
std::string float_text(double value, DType dtype);
// "dense<...>", without the type.
std::string constant_text(const ConstantAttr& attr, const Shape& shape);
// The value with which a reduction begins: 0, -inf, +inf, the lowest or highest
// integer, true, false.
std::string reduce_init_text(ReduceKind kind, DType dtype);
// "stablehlo.add" and the like.
std::string_view reduce_op_text(ReduceKind kind);

// "@mesh, [{"data"}, {}]" for a tensor of this rank; axes of size 1 are left
// out.
std::string sharding_text(const mesh::PartitionSpec& spec, std::int64_t rank,
                          const mesh::Mesh& mesh);
// "<["data"=2, "context"=4]>" and "{"data", "context"}", axes of size > 1.
std::string mesh_text(const mesh::Mesh& mesh);
std::string manual_axes_text(const mesh::Mesh& mesh);

// Logical devices that act together in a collective over `axes`: one group for
// every place along the other axes, members in row-major order of `axes`.
using DeviceGroups = std::vector<std::vector<std::int64_t>>;
DeviceGroups device_groups(const mesh::Mesh& mesh,
                           const std::vector<std::string>& axes);
// (source, target) places in a group, for every group.
DeviceGroups device_pairs(
    const DeviceGroups& groups,
    const std::vector<std::pair<std::int64_t, std::int64_t>>& pairs);
// "dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>".
std::string device_table_text(const DeviceGroups& table);

}  // namespace ringmax::graph

#endif  // RINGMAX_GRAPH_PRINT_TEXT_H_
