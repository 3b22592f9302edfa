// What the handles of one client share; for the sources of this room only.
#ifndef RINGMAX_PJRT_CLIENT_STATE_H_
#define RINGMAX_PJRT_CLIENT_STATE_H_

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ringmax/pjrt/api.h"
#include "ringmax/pjrt/client.h"
#include "ringmax/pjrt/device.h"
#include "ringmax/pjrt/plugin.h"

namespace ringmax::pjrt {

struct ClientState {
  explicit ClientState(Plugin plugin_in) : plugin(std::move(plugin_in)) {}
  ClientState(const ClientState&) = delete;
  ClientState& operator=(const ClientState&) = delete;
  ~ClientState();

  const Api& api() const { return *plugin.api(); }
  // Throws kInvalidArgument for an unknown id.
  const Device& device(int id) const;

  Plugin plugin;
  // Called by the plugin for as long as the client lives.
  std::optional<KeyValueStore> key_value_store;
  PJRT_Client* client = nullptr;
  std::string platform_name;
  std::string platform_version;
  int process_index = 0;
  std::vector<Device> devices;
  std::vector<Device> addressable_devices;
};

DeviceDescription describe_device(const Api& api,
                                  PJRT_DeviceDescription* description);
int device_id(const Api& api, PJRT_Device* device);

// Fills the callbacks of `args`; `store` must outlive the client.
void set_key_value_callbacks(KeyValueStore& store,
                             PJRT_Client_Create_Args& args);

}  // namespace ringmax::pjrt

#endif  // RINGMAX_PJRT_CLIENT_STATE_H_
