// Compiled programs: Executable is what a compiler made, LoadedExecutable is
// one that a client can run.
#ifndef RINGMAX_PJRT_EXECUTABLE_H_
#define RINGMAX_PJRT_EXECUTABLE_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "ringmax/base/shape.h"
#include "ringmax/pjrt/buffer.h"
#include "ringmax/pjrt/event.h"
#include "ringmax/pjrt/named_value.h"

struct PJRT_Executable;
struct PJRT_LoadedExecutable;

namespace ringmax::pjrt {

// Bytes a device needs to run a program.
struct MemoryStats {
  std::int64_t code = 0;
  std::int64_t arguments = 0;
  std::int64_t outputs = 0;
  // Part of the outputs that lies in donated arguments.
  std::int64_t aliased = 0;
  std::int64_t temporaries = 0;
  // The compiler's own figure; 0 where it gives none.
  std::int64_t peak = 0;
};

// A program in a format of the plugin's choice, such as "hlo_with_config": a
// serialized HloModuleProto with its config.
struct CompiledProgram {
  std::string format;
  std::string code;
};

class Client;

class Executable {
 public:
  Executable() = default;
  // Takes ownership. `owner` is what must live as long: plugins let a loaded
  // program's facts point into it.
  Executable(std::shared_ptr<const Api> api, PJRT_Executable* executable,
             std::shared_ptr<const void> owner = nullptr);

  std::string name() const;
  std::int64_t num_replicas() const;
  std::int64_t num_partitions() const;
  std::int64_t num_outputs() const;
  // Of one device's outputs.
  std::vector<Shape> output_shapes() const;
  MemoryStats memory_stats() const;
  // FLOPs, bytes accessed, ...; kUnimplemented on the CPU plugin.
  NamedValues cost_analysis() const;
  CompiledProgram optimized_program() const;
  std::string fingerprint() const;
  // Bytes that Client::deserialize takes.
  std::string serialize() const;

 private:
  std::shared_ptr<const Api> api_;
  std::shared_ptr<PJRT_Executable> executable_;
};

struct ExecuteOptions {
  // Arguments that keep their memory although the program would reuse it.
  std::vector<std::int64_t> non_donatable;
  // The same on every process for one launch; not 0 where it is used.
  int launch_id = 0;
};

struct ExecuteResult {
  // [device][output], devices in the order of addressable_device_ids().
  std::vector<std::vector<Buffer>> outputs;
  // [device]: ready when that device is done.
  std::vector<Event> done;

  // Waits for all devices; throws the first error.
  void await() const;
};

// A shared handle.
class LoadedExecutable {
 public:
  // Names nothing; only good to be assigned to.
  LoadedExecutable() = default;
  // Takes ownership.
  LoadedExecutable(std::shared_ptr<const ClientState> client,
                   PJRT_LoadedExecutable* executable);

  bool valid() const { return loaded_ != nullptr; }
  Client client() const;
  // Facts about the program. The handle keeps the program loaded.
  const Executable& executable() const { return executable_; }
  // Devices of this process that run it, in logical order: the order of the
  // argument lists.
  const std::vector<int>& addressable_device_ids() const { return device_ids_; }

  // Starts the program on all addressable devices and returns without waiting.
  // `arguments` is [device][argument]. Arguments that the program donates
  // (tf.aliasing_output, jax.buffer_donor) are deleted, but for
  // options.non_donatable. Throws what can be told at once; later errors are in
  // the events and in the outputs.
  ExecuteResult execute(std::span<const std::vector<Buffer>> arguments,
                        const ExecuteOptions& options = {}) const;

 private:
  std::shared_ptr<const ClientState> client_;
  std::shared_ptr<PJRT_LoadedExecutable> loaded_;
  Executable executable_;
  std::size_t num_outputs_ = 0;
  std::vector<int> device_ids_;
};

}  // namespace ringmax::pjrt

#endif  // RINGMAX_PJRT_EXECUTABLE_H_
