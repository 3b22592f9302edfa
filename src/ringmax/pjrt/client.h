// A client of a plugin: its devices, and the door to programs and buffers.
#ifndef RINGMAX_PJRT_CLIENT_H_
#define RINGMAX_PJRT_CLIENT_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ringmax/base/array.h"
#include "ringmax/pjrt/buffer.h"
#include "ringmax/pjrt/compile_options.h"
#include "ringmax/pjrt/device.h"
#include "ringmax/pjrt/executable.h"
#include "ringmax/pjrt/named_value.h"
#include "ringmax/pjrt/plugin.h"
#include "ringmax/pjrt/topology.h"

namespace ringmax::pjrt {

// The store that the processes of a multi-process client meet through. The
// functions are called from threads of the plugin; what they throw reaches it
// as an error.
struct KeyValueStore {
  // Blocks until the key is there; throws at the time limit.
  std::function<std::string(std::string_view key,
                            std::chrono::milliseconds timeout)>
      get;
  // Does not block.
  std::function<std::optional<std::string>(std::string_view key)> try_get;
  std::function<void(std::string_view key, std::string_view value)> put;
};

struct ClientOptions {
  // Plugin's own; the CPU plugin knows cpu_device_count, asynchronous and
  // process_id.
  NamedValues values;
  std::optional<KeyValueStore> key_value_store;
};

// A shared handle. The client lives as long as anything made from it.
class Client {
 public:
  static Client create(const Plugin& plugin, const ClientOptions& options = {});

  const Plugin& plugin() const;
  const std::string& platform_name() const;
  const std::string& platform_version() const;
  int process_index() const;

  // All devices of the job, and those of this process, each ascending by id.
  const std::vector<Device>& devices() const;
  const std::vector<Device>& addressable_devices() const;
  // Throws kInvalidArgument when there is no such device.
  const Device& device(int id) const;

  // Topology of this client's devices.
  Topology topology() const;

  // Compiles MLIR text (StableHLO and Shardy) and loads it. Throws kPlugin with
  // the compiler's text; kResourceExhausted when the devices cannot hold it.
  LoadedExecutable compile(std::string_view mlir,
                           const CompileOptions& options) const;
  // Loads what Executable::serialize gave, of the same plugin and machine.
  LoadedExecutable deserialize(std::string_view bytes) const;
  // Loads an executable that was compiled for a topology like this client's.
  LoadedExecutable load(const Executable& executable) const;

  // Starts a copy of `array` (dense, row major) to an addressable device.
  // Throws kInvalidArgument for a device of another process.
  Buffer to_device(const HostArray& array, int device_id,
                   HostUse use = HostUse::kDuringCall) const;

  // Throws kUnimplemented where the plugin does not count (the CPU plugin).
  DeviceMemoryStats memory_stats(int device_id) const;

  // For the sources of this room.
  explicit Client(std::shared_ptr<const ClientState> state)
      : state_(std::move(state)) {}
  const std::shared_ptr<const ClientState>& state() const { return state_; }

 private:
  std::shared_ptr<const ClientState> state_;
};

// A client of the CPU plugin that find_plugin() answers, with `cpu_devices`
// virtual devices. Throws kFailedPrecondition when the plugin drives something
// else. A device may be at least five minutes late for a collective, and as
// long as `largest_program_flops` take on a slow CPU; then XLA ends the
// process. The first client of a process sets this for all, unless XLA_FLAGS
// does.
Client cpu_client(const std::string& plugin_path, std::int64_t cpu_devices,
                  double largest_program_flops = 0);

}  // namespace ringmax::pjrt

#endif  // RINGMAX_PJRT_CLIENT_H_
