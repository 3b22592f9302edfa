#include "ringmax/pjrt/ffi.h"

#include <cstddef>

#include "ringmax/base/error.h"
#include "ringmax/pjrt/api.h"

namespace ringmax::pjrt {
namespace {

// The extension's layout; no package brings its header. A wrong layout aborts
// inside the plugin, so a test runs a handler.
struct RegisterHandlerArgs {
  std::size_t struct_size;
  const char* target_name;
  std::size_t target_name_size;
  void* handler;
  const char* platform_name;
  std::size_t platform_name_size;
  int traits;
};

struct FfiExtension {
  PJRT_Extension_Base base;
  void* register_type;
  void* add_user_data;
  PJRT_Error* (*register_handler)(RegisterHandlerArgs* args);
};

const FfiExtension* find_extension(const Api& api) {
  for (const PJRT_Extension_Base* e = api.table()->extension_start;
       e != nullptr; e = e->next) {
    if (extension_type(*e) == PJRT_Extension_Type_FFI &&
        e->struct_size >= sizeof(FfiExtension)) {
      return reinterpret_cast<const FfiExtension*>(e);
    }
  }
  return nullptr;
}

}  // namespace

void register_ffi_handler(const Plugin& plugin, const std::string& name,
                          void* handler, const std::string& platform) {
  const Api& api = *plugin.api();
  const FfiExtension* extension = find_extension(api);
  if (extension == nullptr || extension->register_handler == nullptr) {
    fail(ErrorCode::kUnimplemented,
         "the plugin {} (PJRT API {}) has no FFI extension, so kernel '{}' "
         "cannot be registered",
         api.name(), api.version(), name);
  }
  RegisterHandlerArgs args{};
  args.struct_size = sizeof(args);
  args.target_name = name.data();
  args.target_name_size = name.size();
  args.handler = handler;
  args.platform_name = platform.data();
  args.platform_name_size = platform.size();
  api.check(extension->register_handler(&args), "PJRT_FFI_Register_Handler");
}

}  // namespace ringmax::pjrt
