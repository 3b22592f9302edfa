#include "ringmax/train/native_kernels.h"

#include <map>
#include <mutex>

#include "ringmax/attention/cpu/ffi.h"
#include "ringmax/base/error.h"
#include "ringmax/base/log.h"
#include "ringmax/model/cpu/ffi.h"
#include "ringmax/pjrt/api.h"
#include "ringmax/pjrt/ffi.h"

namespace ringmax::train {

bool register_native_kernels(const pjrt::Plugin& plugin) {
  // A plugin stays loaded, and refuses a name that it has.
  static std::mutex mutex;
  static std::map<const void*, bool> known;
  const std::lock_guard lock(mutex);
  const auto [it, fresh] = known.emplace(plugin.api()->table(), false);
  if (!fresh) return it->second;
  try {
    for (const auto handlers :
         {attention::cpu::ffi_handlers(), attention::cpu::together_handlers(),
          model::cpu::ffi_handlers()}) {
      for (const auto& handler : handlers) {
        pjrt::register_ffi_handler(plugin, handler.name, handler.handler);
      }
    }
    it->second = true;
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kUnimplemented) throw;
    log_warning("no native kernels: {}", error.message());
  }
  return it->second;
}

}  // namespace ringmax::train
