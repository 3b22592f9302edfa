#include "ringmax/pjrt/compile_options.h"

#include <cstddef>
#include <set>

#include "ringmax/base/error.h"
#include "ringmax/base/proto.h"

namespace ringmax::pjrt {
namespace {

// Field numbers, by message.
namespace compile_options {
constexpr int kBuildOptions = 3;
constexpr int kEnvOptionOverrides = 7;
}  // namespace compile_options
namespace build_options {
constexpr int kDeviceOrdinal = 1;
constexpr int kNumReplicas = 4;
constexpr int kNumPartitions = 5;
constexpr int kUseSpmdPartitioning = 6;
constexpr int kDeviceAssignment = 9;
constexpr int kUseShardyPartitioner = 19;
}  // namespace build_options
namespace assignment {
constexpr int kReplicaCount = 1;
constexpr int kComputationCount = 2;
constexpr int kComputationDevices = 3;
constexpr int kReplicaDeviceIds = 1;
}  // namespace assignment
constexpr int kMapKey = 1;
constexpr int kMapValue = 2;

// One replica of as many computations as there are partitions.
ProtoWriter encode_assignment(const std::vector<std::int64_t>& ids) {
  ProtoWriter writer;
  writer.varint(assignment::kReplicaCount, 1);
  writer.varint(assignment::kComputationCount,
                static_cast<std::int64_t>(ids.size()));
  for (const std::int64_t id : ids) {
    ProtoWriter devices;
    devices.varint(assignment::kReplicaDeviceIds, id);
    writer.message(assignment::kComputationDevices, devices);
  }
  return writer;
}

ProtoWriter encode_override(const OptionOverride& value) {
  ProtoWriter writer;
  struct Visitor {
    ProtoWriter& to;
    void operator()(const std::string& v) { to.bytes(1, v); }
    void operator()(bool v) { to.varint(2, v ? 1 : 0); }
    void operator()(std::int64_t v) { to.varint(3, v); }
    void operator()(double v) { to.real(4, v); }
  };
  std::visit(Visitor{writer}, value);
  return writer;
}

void check(const CompileOptions& options) {
  if (options.num_partitions < 1) {
    fail_invalid("compile options: {} partitions; there must be at least 1",
                 options.num_partitions);
  }
  const std::vector<std::int64_t>& ids = options.device_assignment;
  if (ids.empty()) return;
  const std::set<std::int64_t> distinct(ids.begin(), ids.end());
  const auto needed = static_cast<std::size_t>(options.num_partitions);
  if (ids.size() != needed || distinct.size() != needed) {
    fail_invalid(
        "device assignment names {} devices, {} of them distinct; {} "
        "partitions need as many distinct ones",
        ids.size(), distinct.size(), options.num_partitions);
  }
}

}  // namespace

std::string CompileOptions::serialize() const {
  check(*this);
  ProtoWriter build;
  build.varint(build_options::kDeviceOrdinal, -1);  // not set
  build.varint(build_options::kNumReplicas, 1);
  build.varint(build_options::kNumPartitions, num_partitions);
  if (num_partitions > 1) {
    build.varint(build_options::kUseSpmdPartitioning, 1);
  }
  if (!device_assignment.empty()) {
    build.message(build_options::kDeviceAssignment,
                  encode_assignment(device_assignment));
  }
  if (num_partitions > 1) {
    build.varint(build_options::kUseShardyPartitioner, 1);
  }
  ProtoWriter top;
  top.message(compile_options::kBuildOptions, build);
  for (const auto& [name, value] : overrides) {
    ProtoWriter entry;
    entry.bytes(kMapKey, name);
    entry.message(kMapValue, encode_override(value));
    top.message(compile_options::kEnvOptionOverrides, entry);
  }
  return top.data();
}

}  // namespace ringmax::pjrt
