#include "ringmax/pjrt/plugin.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <mutex>
#include <utility>

#include "ringmax/base/error.h"
#include "ringmax/base/installation.h"
#include "ringmax/base/log.h"
#include "ringmax/pjrt/api.h"
#include "ringmax/pjrt/elf.h"

namespace ringmax::pjrt {
namespace {

namespace fs = std::filesystem;

bool is_file(const fs::path& path) {
  std::error_code error;
  return fs::is_regular_file(path, error);
}

// XLA writes notes about every client to standard error; they are ours to
// print. Whoever has set a level keeps it.
void quiet_plugin_log() {
  if (log_level() == LogLevel::kDebug) return;
  ::setenv("TF_CPP_MIN_LOG_LEVEL", "2", /*overwrite=*/0);
}

void check_major_version(const PJRT_Api* table, const std::string& name) {
  const int major_version = table->pjrt_api_version.major_version;
  if (major_version == PJRT_API_MAJOR) return;
  fail_invalid(
      "plugin {} speaks PJRT API {}.{}, this build speaks {}.{}: the major "
      "versions must agree; set pjrt_plugin=PATH to a plugin of API {}.x",
      name, major_version, table->pjrt_api_version.minor_version,
      PJRT_API_MAJOR, PJRT_API_MINOR, PJRT_API_MAJOR);
}

// Opens the library and returns its table, before any check.
const PJRT_Api* open_library(const std::string& path) {
  if (is_cut_short(path)) {
    fail_invalid(
        "pjrt_plugin={}: the end of this library is missing, as of a copy that "
        "broke off; install it again",
        path);
  }
  // Lazy binding: of the plugin's tens of thousands of symbols a run uses few.
  void* library = ::dlopen(path.c_str(), RTLD_LAZY | RTLD_LOCAL);
  if (library == nullptr) {
    const char* reason = ::dlerror();
    fail_invalid("pjrt_plugin={}: not a loadable shared library: {}", path,
                 reason == nullptr ? "no reason given" : reason);
  }
  using GetApi = const PJRT_Api* (*)();
  const auto get_api = reinterpret_cast<GetApi>(::dlsym(library, "GetPjrtApi"));
  if (get_api == nullptr) {
    ::dlclose(library);
    fail_invalid(
        "pjrt_plugin={}: a shared library, but not a PJRT plugin: it does not "
        "export GetPjrtApi",
        path);
  }
  const PJRT_Api* table = get_api();
  if (table == nullptr) {
    fail_invalid(
        "pjrt_plugin={}: not a PJRT plugin: its GetPjrtApi returns nothing",
        path);
  }
  return table;
}

}  // namespace

ApiVersion client_api_version() { return {PJRT_API_MAJOR, PJRT_API_MINOR}; }

std::string chosen_plugin(const std::string& explicit_path) {
  if (!explicit_path.empty()) return explicit_path;
  const char* environment = std::getenv("RINGMAX_PJRT_PLUGIN");
  return environment == nullptr ? "" : environment;
}

std::string find_plugin(const PluginQuery& query) {
  if (!query.explicit_path.empty()) {
    if (is_file(query.explicit_path)) return query.explicit_path;
    fail(ErrorCode::kNotFound,
         "pjrt_plugin={}: there is no such file; give the path of a PJRT "
         "plugin, or leave the setting out for the one that set-up installed",
         query.explicit_path);
  }
  const std::string environment =
      query.use_environment ? chosen_plugin("") : "";
  if (!environment.empty()) {
    if (is_file(environment)) return environment;
    fail(ErrorCode::kNotFound,
         "RINGMAX_PJRT_PLUGIN={}: there is no such file; unset it or set "
         "pjrt_plugin=PATH",
         environment);
  }
  std::string tried;
  for (const fs::path& folder : plugin_directories()) {
    const fs::path path = folder / query.file_name;
    if (is_file(path)) return path.string();
    tried += fmt::format("\n  {}", path.string());
  }
  if (tried.empty()) tried = " a folder of plugins, but there is none";
  fail(ErrorCode::kNotFound,
       "no PJRT plugin {} found; looked for{}\nrun set-up (`make build`), or "
       "set pjrt_plugin=PATH",
       query.file_name, tried);
}

Plugin Plugin::load(const std::string& path) {
  if (!is_file(path)) {
    fail(ErrorCode::kNotFound,
         "pjrt_plugin={}: there is no such file; give the path of a PJRT "
         "plugin",
         path);
  }
  // One table per file: a plugin must be initialised once only.
  static std::mutex mutex;
  static std::map<std::string, Plugin>& loaded =
      *new std::map<std::string, Plugin>();
  const std::string key = fs::canonical(path).string();
  const std::lock_guard<std::mutex> lock(mutex);
  if (const auto found = loaded.find(key); found != loaded.end()) {
    return found->second;
  }
  quiet_plugin_log();
  return loaded.emplace(key, from_api(open_library(key), key)).first->second;
}

Plugin Plugin::from_api(const PJRT_Api* table, std::string name) {
  check_major_version(table, name);
  auto api = std::make_shared<const Api>(table, std::move(name));
  // Some early plugins have no initialisation.
  if (RINGMAX_PJRT_HAS(*api, PJRT_Plugin_Initialize)) {
    RINGMAX_PJRT_ARGS(PJRT_Plugin_Initialize_Args, args);
    try {
      RINGMAX_PJRT_CALL(*api, PJRT_Plugin_Initialize, args);
    } catch (const Error& error) {
      // libtpu's way to be used by one process at a time.
      if (error.message().find("lockfile") == std::string::npos) throw;
      fail(ErrorCode::kFailedPrecondition,
           "pjrt_plugin={}: another process holds libtpu "
           "(/tmp/libtpu_lockfile); "
           "end it, or, to compile for TPUs that are elsewhere, leave "
           "ALLOW_MULTIPLE_LIBTPU_LOAD unset or 1",
           api->name());
    }
  }
  return Plugin(std::move(api));
}

const std::string& Plugin::path() const { return api_->name(); }

ApiVersion Plugin::api_version() const {
  const PJRT_Api_Version& version = api_->table()->pjrt_api_version;
  return {version.major_version, version.minor_version};
}

std::vector<int> Plugin::extensions() const {
  std::vector<int> types;
  for (const PJRT_Extension_Base* extension = api_->table()->extension_start;
       extension != nullptr; extension = extension->next) {
    types.push_back(extension_type(*extension));
  }
  std::sort(types.begin(), types.end());
  return types;
}

bool Plugin::has_extension(int type) const {
  const std::vector<int> types = extensions();
  return std::binary_search(types.begin(), types.end(), type);
}

NamedValues Plugin::attributes() const {
  if (!RINGMAX_PJRT_HAS(*api_, PJRT_Plugin_Attributes)) return {};
  RINGMAX_PJRT_ARGS(PJRT_Plugin_Attributes_Args, args);
  RINGMAX_PJRT_CALL(*api_, PJRT_Plugin_Attributes, args);
  return from_c_values(args.attributes, args.num_attributes);
}

Plugin load_tpu_compiler(const std::string& path,
                         const std::string& llo_directory) {
  constexpr std::pair<const char*, const char*> kVariables[] = {
      {"TPU_SKIP_MDS_QUERY", "1"},
      {"TPU_WORKER_HOSTNAMES", "localhost"},
      // libtpu wants a name here; the topology is given by another.
      {"TPU_ACCELERATOR_TYPE", "v5p-8"},
      {"ALLOW_MULTIPLE_LIBTPU_LOAD", "1"},
      {"TPU_LOG_DIR", "disabled"},
      {"TPU_MIN_LOG_LEVEL", "3"},
      {"TPU_STDERR_LOG_LEVEL", "3"},
  };
  PluginQuery query;
  query.explicit_path = path;
  query.file_name = std::string(kTpuPluginFile);
  query.use_environment = false;
  const std::string file = find_plugin(query);
  for (const auto& [name, value] : kVariables) {
    ::setenv(name, value, /*overwrite=*/0);
  }
  if (!llo_directory.empty()) {
    constexpr const char* kFlags = "LIBTPU_INIT_ARGS";
    const char* given = std::getenv(kFlags);
    const std::string flags = fmt::format(
        "{}{}--xla_jf_dump_to={} --xla_jf_dump_llo_text=true "
        "--xla_jf_dump_llo_pass_label_regex="
        "(pre-delay|post-bundle-packing-post-ra) "
        "--xla_jf_dump_only_matching_hlo={}",
        given == nullptr ? "" : given, given == nullptr ? "" : " ",
        llo_directory, kDumpedInstruction);
    ::setenv(kFlags, flags.c_str(), /*overwrite=*/1);
  }
  return Plugin::load(file);
}

}  // namespace ringmax::pjrt
