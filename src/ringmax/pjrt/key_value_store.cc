// The C callbacks of KeyValueStore: noexcept, they convert at the door.
#include <cstring>
#include <exception>
#include <memory>

#include "ringmax/pjrt/client_state.h"

namespace ringmax::pjrt {
namespace {

template <typename Args, typename Body>
PJRT_Error* guarded(Args* args, Body body) noexcept {
  const auto report = [args](PJRT_Error_Code code, std::string_view text) {
    return (*args->callback_error)(code, text.data(), text.size());
  };
  try {
    return body(*static_cast<KeyValueStore*>(args->user_arg),
                std::string_view(args->key, args->key_size), report);
  } catch (const std::exception& error) {
    return report(PJRT_Error_Code_INTERNAL, error.what());
  }
}

template <typename Args>
void give_value(Args* args, const std::string& value) {
  auto copy = std::make_unique<char[]>(value.size());
  std::memcpy(copy.get(), value.data(), value.size());
  args->value = copy.release();
  args->value_size = value.size();
  args->value_deleter_callback = [](char* p) { delete[] p; };
}

PJRT_Error* get(PJRT_KeyValueGetCallback_Args* args) {
  return guarded(args,
                 [args](KeyValueStore& store, std::string_view key,
                        const auto&) -> PJRT_Error* {
                   give_value(args, store.get(key, std::chrono::milliseconds(
                                                       args->timeout_in_ms)));
                   return nullptr;
                 });
}

PJRT_Error* try_get(PJRT_KeyValueTryGetCallback_Args* args) {
  return guarded(args,
                 [args](KeyValueStore& store, std::string_view key,
                        const auto& report) -> PJRT_Error* {
                   const std::optional<std::string> value = store.try_get(key);
                   if (!value) {
                     return report(
                         PJRT_Error_Code_NOT_FOUND,
                         fmt::format("key '{}' is not in the store", key));
                   }
                   give_value(args, *value);
                   return nullptr;
                 });
}

PJRT_Error* put(PJRT_KeyValuePutCallback_Args* args) {
  return guarded(args,
                 [args](KeyValueStore& store, std::string_view key,
                        const auto&) -> PJRT_Error* {
                   store.put(key,
                             std::string_view(args->value, args->value_size));
                   return nullptr;
                 });
}

}  // namespace

void set_key_value_callbacks(KeyValueStore& store,
                             PJRT_Client_Create_Args& args) {
  args.kv_get_callback = &get;
  args.kv_get_user_arg = &store;
  args.kv_try_get_callback = &try_get;
  args.kv_try_get_user_arg = &store;
  args.kv_put_callback = &put;
  args.kv_put_user_arg = &store;
}

}  // namespace ringmax::pjrt
