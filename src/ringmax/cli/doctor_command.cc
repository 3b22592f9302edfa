// `ringmax doctor`: what of RingMax works on this machine, and what is missing.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "ringmax/base/error.h"
#include "ringmax/base/installation.h"
#include "ringmax/base/option.h"
#include "ringmax/cli/arguments.h"
#include "ringmax/cli/commands.h"
#include "ringmax/config/install.h"
#include "ringmax/config/settings.h"
#include "ringmax/hw/host.h"
#include "ringmax/pjrt/plugin.h"

namespace ringmax::cli {
namespace {

void row(std::string_view name, std::string_view text) {
  std::fputs(fmt::format("{:<15}  {}\n", name, text).c_str(), stdout);
}

std::string gib(std::int64_t bytes) {
  return fmt::format("{:.1f} GiB", static_cast<double>(bytes) / (1 << 30));
}

void report_host() {
  row("processor",
      fmt::format("{}, {} cores to use", hw::cpu_model(), hw::host_cores()));
  row("extensions", fmt::format("{}", fmt::join(hw::cpu_features(), ", ")));
  const hw::HostMemory memory = hw::host_memory();
  std::string text = fmt::format("{} to use", gib(memory.usable_bytes));
  if (memory.group_limit_bytes) {
    text +=
        fmt::format(", control group limit {}", gib(*memory.group_limit_bytes));
  }
  row("memory", text);
}

std::string version_text(pjrt::ApiVersion version) {
  return fmt::format("{}.{}", version.major_version, version.minor_version);
}

// Loads the plugin that runs would use, and says what it is.
void report_plugin(const std::string& asked) {
  pjrt::PluginQuery query;
  query.explicit_path = asked;
  const std::string path = pjrt::find_plugin(query);
  row("plugin", path);
  const pjrt::Plugin plugin = pjrt::Plugin::load(path);
  row("PJRT API",
      fmt::format("{} (built against {})", version_text(plugin.api_version()),
                  version_text(pjrt::client_api_version())));
  row("PJRT extensions",
      fmt::format("{}", fmt::join(plugin.extensions(), ", ")));
  for (const auto& [name, value] : plugin.attributes()) {
    row("", fmt::format("{} = {}", name, pjrt::named_value_string(value)));
  }
}

// Plugins for machines that are not here; only whether their file is there,
// since loading one may reach for its hardware.
void report_other(std::string_view name, std::string_view file) {
  pjrt::PluginQuery query;
  query.file_name = file;
  query.use_environment = false;
  std::string text;
  try {
    text = pjrt::find_plugin(query);
  } catch (const Error&) {
    text = fmt::format("{} is not installed", file);
  }
  row(name, text);
}

}  // namespace

int run_doctor(Args args) {
  const Arguments arguments =
      read_arguments("doctor", "Says what of RingMax works on this machine.",
                     "[pjrt_plugin=PATH]", {}, args);
  if (arguments.helped) return 0;
  std::string plugin;
  OptionSet set;
  set.path("pjrt_plugin", &plugin, "plugin to look at");
  config::read_settings(set, arguments.settings);

  row("ringmax", version());
  row("configs", config::config_directory());
  report_host();
  report_other("TPU plugin", pjrt::kTpuPluginFile);
  report_other("CUDA plugin", pjrt::kCudaPluginFile);
  try {
    report_plugin(plugin);
  } catch (const Error& error) {
    row("status", "no plugin that can be used: nothing can be run");
    // Standard output before standard error, for a reader who sees both.
    std::fflush(stdout);
    throw;
  }
  row("status", "ready: the plugin loads");
  return 0;
}

}  // namespace ringmax::cli
