#include "ringmax/pjrt/compile_options.h"

#include <algorithm>
#include <cstring>
#include <string_view>

namespace ringmax::pjrt {
namespace {

// The few parts of the protocol buffer wire format that are needed
// (protobuf.dev, "Encoding").
class ProtoWriter {
 public:
  void varint(int field, std::int64_t value) {
    tag(field, 0);
    raw_varint(static_cast<std::uint64_t>(value));
  }
  void bytes(int field, std::string_view value) {
    tag(field, 2);
    raw_varint(value.size());
    out_ += value;
  }
  void fixed64(int field, double value) {
    tag(field, 1);
    char raw[sizeof(value)];
    std::memcpy(raw, &value, sizeof(value));
    out_.append(raw, sizeof(raw));
  }
  const std::string& text() const { return out_; }

 private:
  void tag(int field, int wire_type) {
    raw_varint(static_cast<std::uint64_t>(field) << 3 |
               static_cast<std::uint64_t>(wire_type));
  }
  void raw_varint(std::uint64_t value) {
    while (value >= 0x80) {
      out_ += static_cast<char>(value | 0x80);
      value >>= 7;
    }
    out_ += static_cast<char>(value);
  }
  std::string out_;
};

std::string device_assignment_proto(const std::vector<std::int64_t>& ids) {
  ProtoWriter proto;
  proto.varint(1, 1);                                      // replica_count
  proto.varint(2, static_cast<std::int64_t>(ids.size()));  // computation_count
  for (const std::int64_t id : ids) {
    ProtoWriter computation;
    computation.varint(1, id);  // replica_device_ids
    proto.bytes(3, computation.text());
  }
  return proto.text();
}

std::string override_proto(const OptionOverride& value) {
  ProtoWriter proto;
  if (const auto* text = std::get_if<std::string>(&value)) {
    proto.bytes(1, *text);
  } else if (const auto* flag = std::get_if<bool>(&value)) {
    proto.varint(2, *flag ? 1 : 0);
  } else if (const auto* number = std::get_if<std::int64_t>(&value)) {
    proto.varint(3, *number);
  } else {
    proto.fixed64(4, std::get<double>(value));
  }
  return proto.text();
}

}  // namespace

std::string CompileOptions::serialize() const {
  ProtoWriter build;
  build.varint(1, -1);  // device_ordinal: not set
  build.varint(4, 1);   // num_replicas
  build.varint(5, num_partitions);
  if (num_partitions > 1) {
    build.varint(6, 1);  // use_spmd_partitioning
  }
  if (!device_assignment.empty()) {
    build.bytes(9, device_assignment_proto(device_assignment));
  }
  if (num_partitions > 1) {
    build.varint(19, 1);  // use_shardy_partitioner
  }
  ProtoWriter options;
  options.bytes(3, build.text());  // executable_build_options
  for (const auto& [name, value] : overrides) {
    ProtoWriter entry;
    entry.bytes(1, name);
    entry.bytes(2, override_proto(value));
    options.bytes(7, entry.text());  // env_option_overrides
  }
  return options.text();
}

void set_cpu_collective_timeouts(CompileOptions& options,
                                 double expected_step_s) {
  constexpr double kSlack = 20;       // times the expected step
  constexpr double kAtLeast_s = 600;  // a busy machine stalls any step so long
  const auto limit =
      static_cast<std::int64_t>(std::max(kAtLeast_s, kSlack * expected_step_s));
  options.overrides["xla_cpu_collective_call_warn_stuck_seconds"] = limit;
  options.overrides["xla_cpu_collective_call_terminate_timeout_seconds"] =
      2 * limit;
  options.overrides["xla_cpu_collective_timeout_seconds"] = 2 * limit;
}

}  // namespace ringmax::pjrt
