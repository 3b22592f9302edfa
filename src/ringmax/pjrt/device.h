// What a plugin says about a device, of this process or of another one, or of a
// topology that is only compiled for. A plain value.
#ifndef RINGMAX_PJRT_DEVICE_H_
#define RINGMAX_PJRT_DEVICE_H_

#include <string>

#include "ringmax/pjrt/named_value.h"

struct PJRT_Device;

namespace ringmax::pjrt {

struct DeviceDescription {
  // Global id, the one that device assignments use.
  int id = 0;
  int process_index = 0;
  std::string kind;
  std::string description;
  // Platform's own: coords, core_on_chip, ...
  NamedValues attributes;
};

struct Device : DeviceDescription {
  bool addressable = false;
  // -1 for a device that is not addressable.
  int local_hardware_id = -1;
  // Owned by the client.
  PJRT_Device* handle = nullptr;
};

// Memory of a device, in bytes; what the plugin does not tell is -1.
struct DeviceMemoryStats {
  std::int64_t bytes_in_use = -1;
  std::int64_t peak_bytes_in_use = -1;
  std::int64_t bytes_limit = -1;
};

}  // namespace ringmax::pjrt

#endif  // RINGMAX_PJRT_DEVICE_H_
