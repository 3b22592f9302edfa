#include <utility>

#include "ringmax/pjrt/client_state.h"
#include "ringmax/pjrt/executable.h"

namespace ringmax::pjrt {
namespace {

std::shared_ptr<PJRT_LoadedExecutable> own(
    std::shared_ptr<const ClientState> client,
    PJRT_LoadedExecutable* executable) {
  return {executable, [keep = std::move(client)](PJRT_LoadedExecutable* e) {
            RINGMAX_PJRT_ARGS(PJRT_LoadedExecutable_Destroy_Args, args);
            args.executable = e;
            RINGMAX_PJRT_CALL_QUIETLY(keep->api(),
                                      PJRT_LoadedExecutable_Destroy, args);
          }};
}

Executable facts(const ClientState& client,
                 const std::shared_ptr<PJRT_LoadedExecutable>& executable) {
  RINGMAX_PJRT_ARGS(PJRT_LoadedExecutable_GetExecutable_Args, args);
  args.loaded_executable = executable.get();
  RINGMAX_PJRT_CALL(client.api(), PJRT_LoadedExecutable_GetExecutable, args);
  return Executable(client.plugin.api(), args.executable, executable);
}

void check_arguments(std::span<const std::vector<Buffer>> arguments,
                     std::size_t devices) {
  if (arguments.size() != devices) {
    fail_invalid(
        "execute: {} argument lists for a program that runs on {} addressable "
        "devices; it takes one list a device",
        arguments.size(), devices);
  }
  for (std::size_t d = 0; d < arguments.size(); ++d) {
    if (arguments[d].size() != arguments[0].size()) {
      fail_invalid("execute: device {} has {} arguments, device 0 has {}", d,
                   arguments[d].size(), arguments[0].size());
    }
    for (std::size_t i = 0; i < arguments[d].size(); ++i) {
      if (!arguments[d][i].valid()) {
        fail_invalid("execute: argument {} of device {} is an empty buffer", i,
                     d);
      }
    }
  }
}

}  // namespace

void ExecuteResult::await() const {
  for (const Event& event : done) event.await();
}

LoadedExecutable::LoadedExecutable(std::shared_ptr<const ClientState> client,
                                   PJRT_LoadedExecutable* executable)
    : client_(std::move(client)),
      loaded_(own(client_, executable)),
      executable_(facts(*client_, loaded_)),
      num_outputs_(static_cast<std::size_t>(executable_.num_outputs())) {
  RINGMAX_PJRT_ARGS(PJRT_LoadedExecutable_AddressableDevices_Args, args);
  args.executable = executable;
  RINGMAX_PJRT_CALL(client_->api(), PJRT_LoadedExecutable_AddressableDevices,
                    args);
  for (std::size_t i = 0; i < args.num_addressable_devices; ++i) {
    device_ids_.push_back(
        device_id(client_->api(), args.addressable_devices[i]));
  }
}

Client LoadedExecutable::client() const { return Client(client_); }

ExecuteResult LoadedExecutable::execute(
    std::span<const std::vector<Buffer>> arguments,
    const ExecuteOptions& options) const {
  const std::size_t devices = device_ids_.size();
  check_arguments(arguments, devices);
  const std::size_t num_args = devices == 0 ? 0 : arguments[0].size();

  std::vector<PJRT_Buffer*> inputs(devices * num_args);
  std::vector<PJRT_Buffer*> outputs(devices * num_outputs_);
  std::vector<PJRT_Buffer* const*> input_lists(devices);
  std::vector<PJRT_Buffer**> output_lists(devices);
  std::vector<PJRT_Event*> events(devices);
  for (std::size_t d = 0; d < devices; ++d) {
    for (std::size_t i = 0; i < num_args; ++i) {
      inputs[d * num_args + i] = arguments[d][i].handle();
    }
    input_lists[d] = inputs.data() + d * num_args;
    output_lists[d] = outputs.data() + d * num_outputs_;
  }

  RINGMAX_PJRT_ARGS(PJRT_ExecuteOptions, c_options);
  c_options.launch_id = options.launch_id;
  c_options.non_donatable_input_indices = options.non_donatable.data();
  c_options.num_non_donatable_input_indices = options.non_donatable.size();
  RINGMAX_PJRT_ARGS(PJRT_LoadedExecutable_Execute_Args, args);
  args.executable = loaded_.get();
  args.options = &c_options;
  args.argument_lists = input_lists.data();
  args.num_devices = devices;
  args.num_args = num_args;
  args.output_lists = output_lists.data();
  args.device_complete_events = events.data();
  RINGMAX_PJRT_CALL(client_->api(), PJRT_LoadedExecutable_Execute, args);

  ExecuteResult result;
  result.outputs.resize(devices);
  for (std::size_t d = 0; d < devices; ++d) {
    for (std::size_t i = 0; i < num_outputs_; ++i) {
      result.outputs[d].emplace_back(client_, output_lists[d][i]);
    }
    result.done.emplace_back(client_->plugin.api(), events[d],
                             "PJRT_LoadedExecutable_Execute");
  }
  return result;
}

}  // namespace ringmax::pjrt
