// An optimized, scheduled XLA program as a plugin hands it out: decoded from
// the bytes of HloModuleProto (format "hlo_with_config"), only what reports
// need. Not for making or changing programs.
//
// Source: xla/service/hlo.proto and xla/xla_data.proto, read by field number.
#ifndef RINGMAX_ANALYSIS_HLO_H_
#define RINGMAX_ANALYSIS_HLO_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "ringmax/base/shape.h"

namespace ringmax::analysis {

struct HloShape {
  std::string_view type;  // "f32", "bf16", "pred", ..., "tuple"
  std::int64_t bits = 0;  // of an element
  Dims dims;
  std::vector<std::int64_t> minor_to_major;
  std::int64_t memory_space = 0;  // 0: HBM
  std::vector<HloShape> parts;    // of a tuple

  std::int64_t elements() const;
  // Dense bytes, without the padding of tiles; a tuple's is the sum.
  std::int64_t bytes() const;
  std::string to_string() const;
};

// One spatial dimension of a convolution.
struct HloWindow {
  std::int64_t size = 1;
  std::int64_t stride = 1;
  std::int64_t pad_low = 0;
  std::int64_t pad_high = 0;
  std::int64_t window_dilation = 1;
  std::int64_t base_dilation = 1;
};

struct HloInstruction {
  std::int64_t id = 0;
  std::string name;
  std::string opcode;
  HloShape shape;
  std::string op_name;  // the scope path that the program's text gave
  std::vector<std::int64_t> operands;
  std::vector<std::int64_t> called;  // computations
  std::int64_t parameter_number = 0;
  std::int64_t tuple_index = 0;
  std::optional<std::int64_t> integer;  // value of a scalar integer constant
  std::string comparison;               // "LT", ...
  std::string custom_call_target;
  std::string backend_config;  // mostly JSON
  std::vector<std::pair<std::int64_t, std::int64_t>> source_target_pairs;
  std::int64_t group_size = 0;  // of a collective; 0: all devices
  // Of a dot.
  std::vector<std::int64_t> lhs_contracting;
  // Of a convolution.
  std::vector<HloWindow> window;
  std::int64_t feature_groups = 1;
  std::int64_t kernel_input_feature_dim = 0;
  std::vector<std::int64_t> input_spatial_dims;
  std::vector<std::int64_t> output_spatial_dims;
};

struct HloComputation {
  std::int64_t id = 0;
  std::string name;
  std::int64_t root = 0;
  bool is_fusion = false;
  // In the order they are issued in, where the program is scheduled.
  std::vector<HloInstruction> instructions;
  std::unordered_map<std::int64_t, std::size_t> index;  // by id

  // Throws kInvalidArgument when there is none of that id.
  const HloInstruction& at(std::int64_t id) const;
  // The instruction's n-th operand.
  const HloInstruction& operand(const HloInstruction& of, std::size_t n) const;
};

struct HloModule {
  std::string name;
  std::int64_t entry = 0;
  bool scheduled = false;
  std::vector<HloComputation> computations;
  std::unordered_map<std::int64_t, std::size_t> index;  // by id
  // Device of each partition; empty where the program does not say.
  std::vector<std::int64_t> device_assignment;

  const HloComputation& at(std::int64_t id) const;
  const HloComputation& entry_computation() const { return at(entry); }
};

// `bytes` is an HloModuleProto, alone or with its config behind it. Throws
// kInvalidArgument for anything else.
HloModule decode_hlo(std::string_view bytes);

// For people: one line an instruction, in the order of the schedule.
std::string hlo_text(const HloModule& module);

}  // namespace ringmax::analysis

#endif  // RINGMAX_ANALYSIS_HLO_H_
