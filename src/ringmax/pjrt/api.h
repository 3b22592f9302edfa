// The function table of a loaded plugin, for the sources of this room only:
// other rooms use Plugin, Client and the handles made from them.
//
// Every call goes through Api::call. A table that is shorter than our header
// (an older plugin), or a null entry, becomes a kUnimplemented error that names
// the function and the plugin's version; a PJRT_Error becomes a ringmax::Error
// with the call's name and the plugin's own text.
//
// Source: pjrt_c_api.h of the OpenXLA project.
#ifndef RINGMAX_PJRT_API_H_
#define RINGMAX_PJRT_API_H_

#include <pjrt_c_api.h>

#include <cstddef>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "ringmax/base/error.h"
#include "ringmax/pjrt/named_value.h"

namespace ringmax::pjrt {

class Api {
 public:
  // `name` is the plugin's path, or what stands in for it in messages.
  Api(const PJRT_Api* table, std::string name)
      : table_(table), name_(std::move(name)) {}

  const PJRT_Api* table() const { return table_; }
  const std::string& name() const { return name_; }
  // "0.115".
  std::string version() const;

  // Whether the table is long enough to hold the entry at `offset` and the
  // entry is not null.
  bool has(std::size_t offset) const;

  // Use through RINGMAX_PJRT_CALL. Throws kUnimplemented, or the plugin's
  // error, under the name `origin` where that is given.
  template <typename Args>
  void call(std::size_t offset, const char* function, Args& args,
            const char* origin = nullptr) const {
    using Function = PJRT_Error* (*)(Args*);
    check(entry<Function>(offset, function)(&args),
          origin == nullptr ? function : origin);
  }

  // Throws when `error` is not null, and frees it. `function` names the call
  // that reported it.
  void check(PJRT_Error* error, std::string_view function) const;
  // Converts and frees a non-null error.
  Error take_error(PJRT_Error* error, std::string_view function) const;

  // For destructors: never throws; what goes wrong is logged at debug level.
  template <typename Args>
  void call_quietly(std::size_t offset, const char* function,
                    Args& args) const noexcept {
    try {
      call(offset, function, args);
    } catch (const std::exception& error) {
      log_quiet_failure(error.what());
    }
  }

 private:
  template <typename Function>
  Function entry(std::size_t offset, const char* function) const {
    if (!has(offset)) fail_missing(function);
    Function found;
    std::memcpy(&found, reinterpret_cast<const std::byte*>(table_) + offset,
                sizeof(found));
    return found;
  }
  void destroy_error(PJRT_Error* error) const;
  [[noreturn]] void fail_missing(const char* function) const;
  static void log_quiet_failure(const char* text) noexcept;

  const PJRT_Api* table_;
  std::string name_;
};

using ApiPtr = std::shared_ptr<const Api>;

NamedValues from_c_values(const PJRT_NamedValue* values, std::size_t count);

// Views into `values`, which must outlive the result.
std::vector<PJRT_NamedValue> to_c_values(const NamedValues& values);

// A newer plugin has extensions beyond our header's enumeration, and to read
// one of those as the enumeration is undefined.
inline int extension_type(const PJRT_Extension_Base& extension) {
  static_assert(sizeof(extension.type) == sizeof(int));
  int type = 0;
  std::memcpy(&type, &extension.type, sizeof(type));
  return type;
}

inline std::string to_string(const char* text, std::size_t size) {
  return text == nullptr ? std::string() : std::string(text, size);
}

}  // namespace ringmax::pjrt

// A zeroed argument struct that tells the plugin the size we know.
// NOLINTBEGIN(bugprone-macro-parentheses): a declaration's name takes none.
#define RINGMAX_PJRT_ARGS(type, name) \
  type name{};                        \
  name.struct_size = type##_STRUCT_SIZE
// NOLINTEND(bugprone-macro-parentheses)

#define RINGMAX_PJRT_CALL(api, function, args) \
  (api).call(offsetof(PJRT_Api, function), #function, args)

#define RINGMAX_PJRT_CALL_QUIETLY(api, function, args) \
  (api).call_quietly(offsetof(PJRT_Api, function), #function, args)

#define RINGMAX_PJRT_HAS(api, function) (api).has(offsetof(PJRT_Api, function))

#endif  // RINGMAX_PJRT_API_H_
