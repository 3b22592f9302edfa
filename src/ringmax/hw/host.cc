#include "ringmax/hw/host.h"

#include <sched.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <thread>

#include "ringmax/base/error.h"

namespace ringmax::hw {
namespace {

// Limits this large mean "none" in control groups of version 1.
constexpr std::int64_t kNoLimit = std::int64_t{1} << 60;

std::optional<std::string> read_text(const std::string& path) {
  std::ifstream file(path);
  if (!file) return std::nullopt;
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::optional<std::int64_t> parse_number(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  std::int64_t value = 0;
  const auto [stop, error] =
      std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc()) return std::nullopt;
  return value;
}

std::optional<std::int64_t> read_number(const std::string& path) {
  const std::optional<std::string> text = read_text(path);
  return text ? parse_number(*text) : std::nullopt;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

// The number after `key` in lines of "key value" or "key: value kB".
std::optional<std::int64_t> field(const std::string& text,
                                  std::string_view key) {
  for (const std::string& line : lines_of(text)) {
    if (line.size() > key.size() && line.compare(0, key.size(), key) == 0 &&
        line[key.size()] == ' ') {
      return parse_number(std::string_view(line).substr(key.size()));
    }
  }
  return std::nullopt;
}

// The folders of this process's control group and of all above it, for a
// controller; `unified` tells the version. Inside a container the path in
// /proc may name folders that are not mounted: those just hold no files.
struct Group {
  std::vector<std::string> folders;
  bool unified = false;
};

std::vector<std::string> with_parents(const std::string& root,
                                      std::string path) {
  std::vector<std::string> folders;
  while (!path.empty() && path != "/") {
    folders.push_back(root + path);
    path.resize(path.rfind('/') == std::string::npos ? 0 : path.rfind('/'));
  }
  folders.push_back(root);
  return folders;
}

std::vector<Group> groups_for(const HostPaths& paths,
                              std::string_view controller) {
  std::vector<Group> groups;
  const std::optional<std::string> text =
      read_text(paths.proc + "/self/cgroup");
  if (!text) return groups;
  for (const std::string& line : lines_of(*text)) {
    const std::size_t first = line.find(':');
    const std::size_t second =
        first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string names = line.substr(first + 1, second - first - 1);
    const std::string path = line.substr(second + 1);
    if (names.empty()) {
      // Alone or beside version 1.
      groups.push_back({with_parents(paths.cgroup, path), true});
      groups.push_back({with_parents(paths.cgroup + "/unified", path), true});
      continue;
    }
    const std::string wanted(controller);
    if (("," + names + ",").find("," + wanted + ",") == std::string::npos) {
      continue;
    }
    // Controllers mounted together have a folder of both names, and usually a
    // link from each name.
    groups.push_back({with_parents(paths.cgroup + "/" + names, path), false});
    if (names != wanted) {
      groups.push_back(
          {with_parents(paths.cgroup + "/" + wanted, path), false});
    }
  }
  return groups;
}

void lower(std::optional<std::int64_t>& value, std::int64_t to) {
  value = value ? std::min(*value, to) : to;
}

}  // namespace

HostMemory host_memory(const HostPaths& paths) {
  HostMemory memory;
  const std::optional<std::string> meminfo = read_text(paths.proc + "/meminfo");
  const std::optional<std::int64_t> available =
      meminfo ? field(*meminfo, "MemAvailable:") : std::nullopt;
  if (!available) {
    fail(ErrorCode::kIo, "cannot read MemAvailable from {}/meminfo",
         paths.proc);
  }
  memory.available_bytes = *available * 1024;
  for (const Group& group : groups_for(paths, "memory")) {
    for (const std::string& folder : group.folders) {
      const auto limit = read_number(
          folder + (group.unified ? "/memory.max" : "/memory.limit_in_bytes"));
      if (!limit || *limit >= kNoLimit) continue;
      const std::int64_t used =
          read_number(folder + (group.unified ? "/memory.current"
                                              : "/memory.usage_in_bytes"))
              .value_or(0);
      const std::string stat =
          read_text(folder + "/memory.stat").value_or(std::string());
      const std::int64_t reclaimable =
          field(stat, group.unified ? "inactive_file" : "total_inactive_file")
              .value_or(0);
      const std::int64_t held = std::max<std::int64_t>(0, used - reclaimable);
      lower(memory.group_limit_bytes, *limit);
      lower(memory.group_free_bytes, std::max<std::int64_t>(0, *limit - held));
    }
  }
  memory.usable_bytes =
      std::min(memory.available_bytes,
               memory.group_free_bytes.value_or(memory.available_bytes));
  return memory;
}

std::int64_t host_cores(const HostPaths& paths) {
  std::int64_t cores =
      static_cast<std::int64_t>(std::thread::hardware_concurrency());
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) == 0) cores = CPU_COUNT(&set);
  for (const Group& group : groups_for(paths, "cpu")) {
    for (const std::string& folder : group.folders) {
      std::optional<std::int64_t> quota;
      std::optional<std::int64_t> period;
      if (group.unified) {
        const std::string text =
            read_text(folder + "/cpu.max").value_or(std::string());
        const std::size_t space = text.find(' ');
        if (space == std::string::npos) continue;
        quota = parse_number(text);  // "max" is no number: no limit
        period = parse_number(std::string_view(text).substr(space));
      } else {
        quota = read_number(folder + "/cpu.cfs_quota_us");
        period = read_number(folder + "/cpu.cfs_period_us");
      }
      if (!quota || !period || *quota <= 0 || *period <= 0) continue;
      cores = std::min(cores, (*quota + *period - 1) / *period);
    }
  }
  return std::max<std::int64_t>(1, cores);
}

std::vector<std::string> cpu_features(const HostPaths& paths) {
  constexpr std::string_view kVectorFeatures[] = {
      "sse4_2",      "avx",      "f16c",        "fma",
      "avx2",        "avx_vnni", "avx512f",     "avx512dq",
      "avx512bw",    "avx512vl", "avx512_vnni", "avx512_bf16",
      "avx512_fp16", "amx_tile", "amx_bf16",    "amx_int8"};
  const std::string text =
      read_text(paths.proc + "/cpuinfo").value_or(std::string());
  std::vector<std::string> found;
  for (const std::string& line : lines_of(text)) {
    if (line.compare(0, 5, "flags") != 0) continue;
    const std::string padded = line.substr(line.find(':') + 1) + " ";
    for (std::string_view feature : kVectorFeatures) {
      if (padded.find(" " + std::string(feature) + " ") != std::string::npos) {
        found.emplace_back(feature);
      }
    }
    break;  // every processor of a machine has the same
  }
  return found;
}

std::string cpu_model(const HostPaths& paths) {
  const std::string text =
      read_text(paths.proc + "/cpuinfo").value_or(std::string());
  for (const std::string& line : lines_of(text)) {
    const std::size_t colon = line.find(": ");
    if (line.compare(0, 10, "model name") == 0 && colon != std::string::npos) {
      return line.substr(colon + 2);
    }
  }
  return "";
}

std::int64_t tpu_chips(const HostPaths& paths) {
  constexpr std::string_view kVendor = "0x1ae0";
  // v2 and v3, v4 (two), v5p, v5e, v6e, tpu7x.
  constexpr std::string_view kDevices[] = {
      "0x0027", "0x005e", "0x0056", "0x0062", "0x0063", "0x006f", "0x0076"};
  std::int64_t chips = 0;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(
           paths.sys + "/bus/pci/devices", error)) {
    const std::string vendor =
        read_text((entry.path() / "vendor").string()).value_or("");
    const std::string device =
        read_text((entry.path() / "device").string()).value_or("");
    const bool known = std::any_of(
        std::begin(kDevices), std::end(kDevices),
        [&](std::string_view id) { return device.starts_with(id); });
    chips += vendor.starts_with(kVendor) && known ? 1 : 0;
  }
  return chips;
}

}  // namespace ringmax::hw
