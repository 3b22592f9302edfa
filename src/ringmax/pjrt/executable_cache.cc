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
#include "ringmax/base/sha256.h"
#include "ringmax/hw/host.h"

namespace ringmax::pjrt {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kMagic = "ringmax executable 1\n";
constexpr std::size_t kMaxFiles = 64;
// Of 32 hexadecimal digits.
constexpr std::string_view kSuffix = ".executable";
constexpr std::size_t kNameLength = 32 + kSuffix.size();

// FNV-1a, 64 bits: tells whether a file is whole.
std::uint64_t fnv(std::string_view text, std::uint64_t hash) {
  for (const char c : text) {
    hash ^= static_cast<unsigned char>(c);
    hash *= 0x100000001b3u;
  }
  return hash;
}
constexpr std::uint64_t kOffset = 0xcbf29ce484222325u;

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
                     fnv(body, kOffset));
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

// The plugin's sha256, which takes a second to make: the last one is kept
// beside the programs, by path, size and time of change. "" for a plugin that
// is no file (a test's).
std::string plugin_sha256(const std::string& directory,
                          const std::string& plugin) {
  std::error_code error;
  const auto changed = fs::last_write_time(plugin, error);
  if (error) return "";
  const std::string what =
      fmt::format("{}\n{}\n{}\n", plugin, file_size(plugin),
                  changed.time_since_epoch().count());
  const std::string note = join_path(
      directory, fmt::format("plugin-{:016x}.sha256", fnv(plugin, kOffset)));
  constexpr std::size_t kDigits = 64;
  try {
    if (path_exists(note)) {
      const std::string text = read_file(note);
      if (text.size() == what.size() + kDigits && text.starts_with(what)) {
        return text.substr(what.size());
      }
    }
  } catch (const Error& unreadable) {
    log_debug("executable cache: {}", unreadable.message());
  }
  std::string digest = sha256_of_file(plugin);
  try {
    make_directories(directory);
    atomic_write(note, what + digest);
  } catch (const Error& unwritable) {
    log_debug("executable cache: {}", unwritable.message());
  }
  return digest;
}

}  // namespace

ExecutableCache::ExecutableCache(std::string directory) {
  if (directory == "off") return;
  directory_ = directory.empty() ? default_directory() : std::move(directory);
}

std::string ExecutableCache::path_for(const Client& client,
                                      const std::string& stablehlo,
                                      const CompileOptions& options,
                                      std::string_view check_name) const {
  if (directory_.empty()) return "";
  Sha256 key;
  key.update(fmt::format("{}\n{}\n{}\n{}\n{}\n", RINGMAX_VERSION,
                         plugin_sha256(directory_, client.plugin().path()),
                         client.platform_name(), client.platform_version(),
                         fmt::join(hw::cpu_features(), ",")));
  for (const Device& device : client.devices()) {
    key.update(fmt::format("{} {} {}\n", device.id, device.process_index,
                           device.kind));
  }
  if (!check_name.empty()) key.update(fmt::format("{}\n", check_name));
  // Lengths keep the parts apart.
  const std::string bytes = options.serialize();
  key.update(fmt::format("{} {}\n", bytes.size(), stablehlo.size()));
  key.update(bytes);
  key.update(stablehlo);
  return join_path(directory_,
                   key.finish().substr(0, kNameLength - kSuffix.size()) +
                       std::string(kSuffix));
}

ExecutableCache::Loaded ExecutableCache::load_or_compile(
    const Client& client, const std::string& stablehlo,
    const CompileOptions& options, const ProgramCheck& check) const {
  const std::string path = path_for(client, stablehlo, options, check.name);
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
  if (check.run) check.run(result.executable.executable());
  if (path.empty()) return result;
  try {
    make_directories(directory_);
    const std::string body = result.executable.executable().serialize();
    atomic_write(path, header_for(body) + body);
    remove_oldest(directory_);
  } catch (const std::exception& error) {
    log_debug("executable cache: {} is not kept: {}", path, error.what());
  }
  return result;
}

}  // namespace ringmax::pjrt
