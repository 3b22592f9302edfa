// A PJRT plugin: a shared library that exports GetPjrtApi. Loading checks the
// API's major version and initialises the plugin once; a plugin stays loaded
// until the process ends, because XLA's threads cannot be unloaded.
#ifndef RINGMAX_PJRT_PLUGIN_H_
#define RINGMAX_PJRT_PLUGIN_H_

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "ringmax/pjrt/named_value.h"

struct PJRT_Api;

namespace ringmax::pjrt {

class Api;

inline constexpr std::string_view kCpuPluginFile = "pjrt_c_api_cpu_plugin.so";
inline constexpr std::string_view kTpuPluginFile = "libtpu.so";
inline constexpr std::string_view kCudaPluginFile = "xla_cuda_plugin.so";

struct ApiVersion {
  int major_version = 0;
  int minor_version = 0;
  friend bool operator==(const ApiVersion&, const ApiVersion&) = default;
};

// The version this library was built against.
ApiVersion client_api_version();

struct PluginQuery {
  // Setting `pjrt_plugin`; wins over everything when not empty.
  std::string explicit_path;
  // Looked for in base's plugin_directories().
  std::string file_name = std::string(kCpuPluginFile);
  // Whether RINGMAX_PJRT_PLUGIN (a path) is asked next. Leave it out when a
  // certain kind of plugin is needed, as for ahead-of-time compilation.
  bool use_environment = true;
};

// The plugin that somebody chose: `explicit_path`, else RINGMAX_PJRT_PLUGIN;
// empty when neither is set.
std::string chosen_plugin(const std::string& explicit_path);

// Path of the plugin file: explicit, environment, base's plugin_directories().
// Throws kNotFound
// that lists where it was looked for and how to set `pjrt_plugin=`.
std::string find_plugin(const PluginQuery& query);

class Plugin {
 public:
  // Throws kNotFound when the file is missing, kInvalidArgument when it is no
  // PJRT plugin or speaks another major version of the API.
  static Plugin load(const std::string& path);
  // An API table that is already in the process; `name` stands for the path in
  // messages. Checks and initialises as load() does.
  static Plugin from_api(const PJRT_Api* table, std::string name);

  const std::string& path() const;
  ApiVersion api_version() const;
  // Type numbers of the extensions the plugin has, ascending.
  std::vector<int> extensions() const;
  bool has_extension(int type) const;
  // xla_version, stablehlo_current_version, ...; empty when the plugin has no
  // such call.
  NamedValues attributes() const;

  // For the sources of this room.
  const std::shared_ptr<const Api>& api() const { return api_; }

 private:
  explicit Plugin(std::shared_ptr<const Api> api) : api_(std::move(api)) {}
  std::shared_ptr<const Api> api_;
};

// libtpu as a compiler only, for topologies that are not here: tells it, by its
// environment variables (those that are set stay), to look for no TPU, ask no
// metadata server, and share the machine with other libtpu processes. Throws
// kNotFound as find_plugin() does, kFailedPrecondition when another process
// holds libtpu for itself. `path` is that of libtpu, "" for the one that set-up
// installed. Not for a process that runs on TPUs. Static schedules of the
// instruction kDumpedInstruction, in whatever program it stands, are written
// into `llo_directory`, if it is given at the first call.
inline constexpr std::string_view kDumpedInstruction = "kernel_alone.1";
Plugin load_tpu_compiler(const std::string& path = "",
                         const std::string& llo_directory = "");

}  // namespace ringmax::pjrt

#endif  // RINGMAX_PJRT_PLUGIN_H_
