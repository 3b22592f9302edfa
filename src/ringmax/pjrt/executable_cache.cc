#include "ringmax/pjrt/executable_cache.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string_view>
#include <utility>
#include <vector>

#include "ringmax/base/error.h"
#include "ringmax/base/file.h"
#include "ringmax/base/log.h"
#include "ringmax/hw/host.h"

namespace ringmax::pjrt {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kMagic = "ringmax executable 1\n";
constexpr std::size_t kMaxFiles = 64;
// Two 64-bit hashes in hexadecimal.
constexpr std::string_view kSuffix = ".executable";
constexpr std::size_t kNameLength = 32 + kSuffix.size();

// FNV-1a, 64 bits; two of them with different offsets make a key. The cache is
// the user's own, so accidents are what to guard against, not attacks.
std::uint64_t fnv(std::string_view text, std::uint64_t hash) {
  for (const char c : text) {
    hash ^= static_cast<unsigned char>(c);
    hash *= 0x100000001b3u;
  }
  return hash;
}
constexpr std::uint64_t kOffsetA = 0xcbf29ce484222325u;
constexpr std::uint64_t kOffsetB = 0x6c62272e07bb0142u;

std::string default_directory() {
  if (const char* xdg = std::getenv("XDG_CACHE_HOME");
      xdg != nullptr && *xdg != '\0') {
    return join_path(xdg, "ringmax/executables");
  }
  if (const char* home = std::getenv("HOME");
      home != nullptr && *home != '\0') {
    return join_path(home, ".cache/ringmax/executables");
  }
  return "";
}

std::string header_for(std::string_view body) {
  return fmt::format("{}{:016x} {:016x}\n", kMagic, body.size(),
                     fnv(body, kOffsetA));
}

// The executable's bytes in a cache file; "" when it is not whole.
std::string read_body(const std::string& path) {
  if (!path_exists(path)) return "";
  const std::string all = read_file(path);
  const std::size_t header = header_for("").size();
  if (all.size() < header) return "";
  std::string body = all.substr(header);
  return all.substr(0, header) == header_for(body) ? body : "";
}

void remove_oldest(const std::string& directory) {
  std::vector<std::pair<fs::file_time_type, fs::path>> files;
  for (const auto& entry : fs::directory_iterator(directory)) {
    // Only what this cache made: the folder may be one of the user's.
    const std::string name = entry.path().filename().string();
    if (name.size() != kNameLength || !name.ends_with(kSuffix)) continue;
    files.emplace_back(entry.last_write_time(), entry.path());
  }
  if (files.size() <= kMaxFiles) return;
  std::sort(files.begin(), files.end());
  for (std::size_t i = 0; i + kMaxFiles < files.size(); ++i) {
    fs::remove(files[i].second);
  }
}

}  // namespace

ExecutableCache::ExecutableCache(std::string directory) {
  if (directory == "off") return;
  directory_ = directory.empty() ? default_directory() : std::move(directory);
}

std::string ExecutableCache::path_for(const Client& client,
                                      const std::string& stablehlo,
                                      const CompileOptions& options) const {
  if (directory_.empty()) return "";
  std::error_code error;
  const fs::path plugin(client.plugin().path());
  const auto changed = fs::last_write_time(plugin, error);
  const std::string key =
      fmt::format("{}\n{}\n{}\n{}\n{}\n{}\n{}\n{}", RINGMAX_VERSION,
                  plugin.string(), error ? 0 : fs::file_size(plugin, error),
                  changed.time_since_epoch().count(), client.platform_version(),
                  client.device_count(), fmt::join(hw::cpu_features(), ","),
                  options.serialize());
  const auto name = [&](std::uint64_t offset) {
    return fnv(stablehlo, fnv(key, offset));
  };
  return join_path(directory_, fmt::format("{:016x}{:016x}.bin", name(kOffsetA),
                                           name(kOffsetB)));
}

ExecutableCache::Loaded ExecutableCache::load_or_compile(
    const Client& client, const std::string& stablehlo,
    const CompileOptions& options) const {
  const std::string path = path_for(client, stablehlo, options);
  if (!path.empty()) {
    try {
      const std::string body = read_body(path);
      if (!body.empty()) return {client.deserialize(body), true};
    } catch (const Error& error) {
      log_debug("executable cache: {} is compiled again: {}", path,
                error.message());
    }
  }
  Loaded result{client.compile(stablehlo, options), false};
  if (path.empty()) return result;
  try {
    make_directories(directory_);
    const std::string body = result.executable.serialize();
    atomic_write(path, header_for(body) + body);
    remove_oldest(directory_);
  } catch (const std::exception& error) {
    log_debug("executable cache: {} is not kept: {}", path, error.what());
  }
  return result;
}

}  // namespace ringmax::pjrt
