// A PJRT client and what it makes: devices, buffers, loaded executables.
//
// RAII handles over the C API, movable, each keeping the client alive. Calls
// do not block unless they say so: buffers become ready later, and an error of
// an execution surfaces when a result is awaited.
#ifndef RINGMAX_PJRT_CLIENT_H_
#define RINGMAX_PJRT_CLIENT_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "ringmax/base/array.h"
#include "ringmax/pjrt/compile_options.h"
#include "ringmax/pjrt/named_value.h"
#include "ringmax/pjrt/plugin.h"

struct PJRT_Buffer;
struct PJRT_Device;
struct PJRT_LoadedExecutable;

namespace ringmax::pjrt {

struct ClientHandle;

// A device array on one device.
class Buffer {
 public:
  Buffer() = default;
  Buffer(std::shared_ptr<ClientHandle> client, PJRT_Buffer* buffer);
  ~Buffer();
  Buffer(Buffer&& other) noexcept;
  Buffer& operator=(Buffer&& other) noexcept;

  bool valid() const { return buffer_ != nullptr; }
  PJRT_Buffer* get() const { return buffer_; }
  Shape shape() const;
  // Blocks until the values are there, and copies them.
  HostArray to_host() const;
  // Blocks; throws the error of the execution that made it.
  void await() const;

 private:
  std::shared_ptr<ClientHandle> client_;
  PJRT_Buffer* buffer_ = nullptr;
};

// Bytes of one device, from the compiled program.
struct MemoryStats {
  std::int64_t code = 0;
  std::int64_t arguments = 0;
  std::int64_t outputs = 0;
  std::int64_t aliased = 0;
  std::int64_t temporaries = 0;
};

class Executable {
 public:
  Executable() = default;
  Executable(std::shared_ptr<ClientHandle> client,
             PJRT_LoadedExecutable* executable);
  ~Executable();
  Executable(Executable&& other) noexcept;
  Executable& operator=(Executable&& other) noexcept;

  bool valid() const { return executable_ != nullptr; }
  // Ids of the addressable devices it runs on, in the order of execute()'s
  // lists.
  std::vector<std::int64_t> device_ids() const;
  std::size_t output_count() const;
  // arguments[d] are those of the d-th addressable device. Buffers of donated
  // parameters are consumed. Does not wait for the results.
  std::vector<std::vector<Buffer>> execute(
      const std::vector<std::vector<const Buffer*>>& arguments) const;
  std::string serialize() const;
  MemoryStats memory_stats() const;

 private:
  std::shared_ptr<ClientHandle> client_;
  PJRT_LoadedExecutable* executable_ = nullptr;
};

class Client {
 public:
  Client(const Plugin& plugin, const NamedValues& options);

  std::string platform_name() const;
  std::string platform_version() const;
  std::int64_t process_index() const;
  // Devices of all processes, and those of this one.
  std::size_t device_count() const;
  std::size_t addressable_device_count() const;
  std::vector<std::int64_t> addressable_device_ids() const;

  // Copies before it returns. `device` indexes the addressable devices.
  Buffer to_device(const HostArray& array, std::size_t device) const;
  Executable compile(const std::string& stablehlo,
                     const CompileOptions& options) const;
  Executable deserialize(const std::string& serialized) const;
  const Plugin& plugin() const { return plugin_; }

 private:
  Plugin plugin_;
  std::shared_ptr<ClientHandle> handle_;
};

// A client of the plugin that find_plugin() answers, with `cpu_devices` virtual
// devices.
Client cpu_client(const std::string& plugin_path, std::int64_t cpu_devices);

}  // namespace ringmax::pjrt

#endif  // RINGMAX_PJRT_CLIENT_H_
