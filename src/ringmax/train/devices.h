// The devices that a run takes: virtual ones of the CPU plugin, or the TPUs of
// this machine.
#ifndef RINGMAX_TRAIN_DEVICES_H_
#define RINGMAX_TRAIN_DEVICES_H_

#include "ringmax/config/config.h"
#include "ringmax/hw/host.h"
#include "ringmax/pjrt/client.h"

namespace ringmax::train {

// `hardware`, with auto decided: what the plugin's file is named for where one
// is given (`pjrt_plugin`, RINGMAX_PJRT_PLUGIN), else a TPU where the machine
// has one, else the CPU. Throws kFailedPrecondition when the machine has no
// such hardware, or RingMax cannot run on it. Loads no plugin: libtpu would
// wait for a TPU's metadata.
pjrt::Hardware find_hardware(const pjrt::RuntimeOptions& runtime,
                             const hw::HostPaths& paths = {});

// For config::load: finds the hardware; a TPU's devices are counted by opening
// it, those of the CPU are as many as the settings ask for.
config::DeviceFacts find_devices(const pjrt::RuntimeOptions& runtime);

// The client to train on. TPUs are opened once a process; every call answers
// the same client.
pjrt::Client open_client(const config::Config& config);

}  // namespace ringmax::train

#endif  // RINGMAX_TRAIN_DEVICES_H_
