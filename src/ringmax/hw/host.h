// The machine this process runs on: how much memory and how many processors it
// may use, and which vector instructions it has.
#ifndef RINGMAX_HW_HOST_H_
#define RINGMAX_HW_HOST_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ringmax::hw {

struct HostMemory {
  // Bytes this process can still take: the smaller of the two below.
  std::int64_t usable_bytes = 0;
  // MemAvailable of the machine.
  std::int64_t available_bytes = 0;
  // What the tightest control group above this process leaves: its limit less
  // what it already holds beyond reclaimable file pages. Nothing without one.
  std::optional<std::int64_t> group_free_bytes;
  std::optional<std::int64_t> group_limit_bytes;
};

// Where to read; tests point it at folders of their own.
struct HostPaths {
  std::string proc = "/proc";
  std::string cgroup = "/sys/fs/cgroup";
  std::string sys = "/sys";
};

// Reads control groups of version 1 and 2, nested ones too. Unreadable files
// count as "no limit"; an unreadable meminfo throws kIo.
HostMemory host_memory(const HostPaths& paths = {});

// Whole processors worth of time this process may use, at least 1: its
// affinity, cut by the tightest control-group quota, rounded up.
std::int64_t host_cores(const HostPaths& paths = {});

// Vector extensions in a fixed order, in the kernel's spelling ("avx2",
// "avx512f", "avx512_bf16", ...): for doctor and for cache keys. Only what both
// the processor and the operating system support.
std::vector<std::string> cpu_features(const HostPaths& paths = {});

// "AMD EPYC 9B14"; empty when unknown.
std::string cpu_model(const HostPaths& paths = {});

// TPU chips on the PCI bus.
std::int64_t tpu_chips(const HostPaths& paths = {});

}  // namespace ringmax::hw

#endif  // RINGMAX_HW_HOST_H_
