// A set of devices to compile for: a client's own, or one that is not here.
#ifndef RINGMAX_PJRT_TOPOLOGY_H_
#define RINGMAX_PJRT_TOPOLOGY_H_

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "ringmax/pjrt/compile_options.h"
#include "ringmax/pjrt/device.h"
#include "ringmax/pjrt/executable.h"
#include "ringmax/pjrt/named_value.h"
#include "ringmax/pjrt/plugin.h"

struct PJRT_TopologyDescription;

namespace ringmax::pjrt {

class Topology {
 public:
  // By the plugin's own name for it, such as "v5p:2x2x2"; `options` are the
  // plugin's too.
  static Topology create(const Plugin& plugin, const std::string& name,
                         const NamedValues& options = {});
  Topology(Plugin plugin, std::shared_ptr<PJRT_TopologyDescription> handle)
      : plugin_(std::move(plugin)), handle_(std::move(handle)) {}

  std::string platform_name() const;
  std::string platform_version() const;
  // Ascending by id.
  std::vector<DeviceDescription> devices() const;
  NamedValues attributes() const;
  // The plugin's bytes for it; for cache keys.
  std::string serialize() const;

  // Compiles MLIR text ahead of time; no device is needed. Throws kPlugin with
  // the compiler's text; kResourceExhausted when the devices cannot hold it.
  Executable compile(std::string_view mlir,
                     const CompileOptions& options) const;

 private:
  Plugin plugin_;
  std::shared_ptr<PJRT_TopologyDescription> handle_;
};

}  // namespace ringmax::pjrt

#endif  // RINGMAX_PJRT_TOPOLOGY_H_
