// The resolved configuration of a run: every room's option struct, what follows
// from them, and where each value came from.
//
// Settings come, later ones winning, from configs/base.yml, the preset of
// model_name, the files of the command line and its key=value words. All of it
// is checked before anything is loaded, and all that is wrong is said at once.
// Nothing here touches a plugin.
#ifndef RINGMAX_CONFIG_CONFIG_H_
#define RINGMAX_CONFIG_CONFIG_H_

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ringmax/attention/options.h"
#include "ringmax/base/option.h"
#include "ringmax/config/settings.h"
#include "ringmax/data/options.h"
#include "ringmax/mesh/mesh.h"
#include "ringmax/mesh/options.h"
#include "ringmax/model/options.h"
#include "ringmax/pjrt/options.h"
#include "ringmax/train/options.h"

namespace ringmax::config {

// One line of what `ringmax config` prints.
struct Setting {
  std::string name;
  std::string section;
  OptionKind kind = OptionKind::kText;
  RawValue value;
  Source source;
};

// What the caller knows of the devices. On the CPU plugin there are as many
// as the settings ask for; elsewhere the count comes from the plugin.
struct DeviceFacts {
  std::string platform = "cpu";
  std::int64_t device_count = 0;  // 0: not known, as many as the mesh asks
};

struct Config {
  mesh::MeshOptions mesh;
  attention::AttentionOptions attention;
  model::ModelOptions model;
  train::TrainOptions train;
  data::DataOptions data;
  pjrt::RuntimeOptions runtime;

  // Derived.
  mesh::Mesh device_mesh;        // all axes, -1 filled in
  std::string platform = "cpu";  // of the devices, as DeviceFacts has it
  std::int64_t device_count = 1;
  std::int64_t global_batch = 1;     // sequences a step
  std::int64_t tokens_per_step = 0;  // global_batch * max_target_length
  // Strategy and layout of the sequence, every choice made.
  attention::ContextPlan plan;
  std::string run_directory;

  std::vector<Setting> settings;  // declared order, then derived ones
  // Lines that a user should read once: what a setting asks for that is not
  // there yet and what is used instead.
  std::vector<std::string> notes;

  // The setting of that name; throws kInvalidArgument when there is none.
  const Setting& setting(std::string_view name) const;
};

// Resolves and checks `[FILE.yml ...] key=value ...`. Throws kInvalidArgument
// with every problem found. Does not look at the run directory: `train` does,
// by train::check_run_directory.
Config load(std::span<const std::string> args, const DeviceFacts& facts = {});
// The same for a caller that needs the machine's settings to know its devices.
using FindDevices = std::function<DeviceFacts(const pjrt::RuntimeOptions&)>;
Config load(std::span<const std::string> args, const FindDevices& find_devices);

// Descriptors over the structs of `config`, which must outlive them.
OptionSet options_of(Config& config);

inline const mesh::Mesh& to_mesh(const Config& config) {
  return config.device_mesh;
}

}  // namespace ringmax::config

#endif  // RINGMAX_CONFIG_CONFIG_H_
