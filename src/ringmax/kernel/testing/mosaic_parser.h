// For tests: reads MLIR text in generic form, as far as kernels need it.
//
// Written from the MLIR language reference, apart from the printer that it
// checks: it knows operations, regions, operands, attributes as text, and
// shaped types, and no kernel.
#ifndef RINGMAX_KERNEL_TESTING_MOSAIC_PARSER_H_
#define RINGMAX_KERNEL_TESTING_MOSAIC_PARSER_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace ringmax::kernel::testing {

struct MlirType {
  std::string kind;  // "vector", "memref" or "" for a scalar
  std::vector<std::int64_t> dims;
  std::string element;  // "f32", "i32", "index"
  std::string space;    // of a memref: "vmem", "smem"
};

struct MlirOp;

struct MlirBlock {
  std::vector<std::string> arguments;
  std::vector<MlirType> argument_types;
  std::vector<MlirOp> ops;
};

struct MlirOp {
  std::string name;
  std::vector<std::string> results;  // "%3", "%4#1"
  std::vector<std::string> operands;
  std::vector<MlirBlock> regions;
  std::map<std::string, std::string> attributes;  // text of each
  std::vector<MlirType> operand_types;
  std::vector<MlirType> result_types;

  // Throws kInvalidArgument when there is none.
  const std::string& attribute(const std::string& key) const;
};

// One operation with all that it holds; throws kInvalidArgument with the line
// of what it cannot read.
MlirOp parse_mlir(const std::string& text);

// Elements of "[a, b]", "{a, b}", "<a, b>" or "array<i64: a, b>".
std::vector<std::string> split_list(const std::string& text);

}  // namespace ringmax::kernel::testing

#endif  // RINGMAX_KERNEL_TESTING_MOSAIC_PARSER_H_
