// What a compilation is told: partitions, device order, overrides of XLA flags.
// Serialized by hand as XLA's CompileOptionsProto, so that no protobuf library
// is needed.
//
// Source: xla/pjrt/proto/compile_options.proto and xla/xla_data.proto.
#ifndef RINGMAX_PJRT_COMPILE_OPTIONS_H_
#define RINGMAX_PJRT_COMPILE_OPTIONS_H_

#include <cstdint>
#include <map>
#include <string>
#include <variant>
#include <vector>

namespace ringmax::pjrt {

using OptionOverride = std::variant<std::string, bool, std::int64_t, double>;

struct CompileOptions {
  // Devices that one program runs on, with its tensors split among them by
  // XLA's partitioner and Shardy's annotations.
  std::int64_t num_partitions = 1;
  // Device id of each logical partition; empty: 0, 1, 2, ...
  std::vector<std::int64_t> device_assignment;
  // XLA and plugin flags of this compilation, by name without dashes.
  std::map<std::string, OptionOverride> overrides;

  // A serialized CompileOptionsProto; equal options give equal bytes. Throws
  // kInvalidArgument when there is no partition, or when the assignment does
  // not name num_partitions distinct devices.
  std::string serialize() const;
};

}  // namespace ringmax::pjrt

#endif  // RINGMAX_PJRT_COMPILE_OPTIONS_H_
