#include "ringmax/pjrt/api.h"

#include "ringmax/base/log.h"

namespace ringmax::pjrt {
namespace {

std::string_view code_name(PJRT_Error_Code code) {
  constexpr std::string_view kNames[] = {
      "OK",
      "CANCELLED",
      "UNKNOWN",
      "INVALID_ARGUMENT",
      "DEADLINE_EXCEEDED",
      "NOT_FOUND",
      "ALREADY_EXISTS",
      "PERMISSION_DENIED",
      "RESOURCE_EXHAUSTED",
      "FAILED_PRECONDITION",
      "ABORTED",
      "OUT_OF_RANGE",
      "UNIMPLEMENTED",
      "INTERNAL",
      "UNAVAILABLE",
      "DATA_LOSS",
      "UNAUTHENTICATED",
  };
  const auto index = static_cast<std::size_t>(code);
  return index < std::size(kNames) ? kNames[index] : "UNKNOWN";
}

// Running out while compiling means that the machine cannot hold the job and
// nothing was started; running out later is the plugin's failure.
bool is_compile(std::string_view function) {
  return function == "PJRT_Client_Compile" || function == "PJRT_Compile";
}

ErrorCode error_code(PJRT_Error_Code code, std::string_view function) {
  if (code == PJRT_Error_Code_UNIMPLEMENTED) return ErrorCode::kUnimplemented;
  if (code == PJRT_Error_Code_RESOURCE_EXHAUSTED && is_compile(function)) {
    return ErrorCode::kResourceExhausted;
  }
  return ErrorCode::kPlugin;
}

}  // namespace

std::string Api::version() const {
  return fmt::format("{}.{}", table_->pjrt_api_version.major_version,
                     table_->pjrt_api_version.minor_version);
}

bool Api::has(std::size_t offset) const {
  using AnyFunction = void (*)();
  if (offset + sizeof(AnyFunction) > table_->struct_size) return false;
  AnyFunction function;
  std::memcpy(&function, reinterpret_cast<const std::byte*>(table_) + offset,
              sizeof(function));
  return function != nullptr;
}

void Api::fail_missing(const char* function) const {
  fail(ErrorCode::kUnimplemented,
       "{} is not implemented by the plugin {} (PJRT API {})", function, name_,
       version());
}

void Api::log_quiet_failure(const char* text) noexcept {
  try {
    log_debug("ignored while releasing: {}", text);
  } catch (...) {
    // A destructor has nobody to tell.
  }
}

void Api::check(PJRT_Error* error, std::string_view function) const {
  if (error != nullptr) throw take_error(error, function);
}

Error Api::take_error(PJRT_Error* error, std::string_view function) const {
  std::string text = "the plugin gave no message";
  PJRT_Error_Code code = PJRT_Error_Code_UNKNOWN;
  if (RINGMAX_PJRT_HAS(*this, PJRT_Error_Message)) {
    RINGMAX_PJRT_ARGS(PJRT_Error_Message_Args, args);
    args.error = error;
    table_->PJRT_Error_Message(&args);
    text = to_string(args.message, args.message_size);
  }
  if (RINGMAX_PJRT_HAS(*this, PJRT_Error_GetCode)) {
    RINGMAX_PJRT_ARGS(PJRT_Error_GetCode_Args, args);
    args.error = error;
    if (PJRT_Error* nested = table_->PJRT_Error_GetCode(&args)) {
      destroy_error(nested);
    } else {
      code = args.code;
    }
  }
  destroy_error(error);
  return Error(error_code(code, function),
               fmt::format("{}: {}: {}", function, code_name(code), text));
}

void Api::destroy_error(PJRT_Error* error) const {
  if (!RINGMAX_PJRT_HAS(*this, PJRT_Error_Destroy)) return;
  RINGMAX_PJRT_ARGS(PJRT_Error_Destroy_Args, args);
  args.error = error;
  table_->PJRT_Error_Destroy(&args);
}

NamedValues from_c_values(const PJRT_NamedValue* values, std::size_t count) {
  NamedValues result;
  for (std::size_t i = 0; i < count; ++i) {
    const PJRT_NamedValue& value = values[i];
    NamedValue& to = result[to_string(value.name, value.name_size)];
    switch (value.type) {
      case PJRT_NamedValue_kString:
        to = to_string(value.string_value, value.value_size);
        break;
      case PJRT_NamedValue_kInt64:
        to = value.int64_value;
        break;
      case PJRT_NamedValue_kInt64List:
        to = std::vector<std::int64_t>(
            value.int64_array_value,
            value.int64_array_value + value.value_size);
        break;
      case PJRT_NamedValue_kFloat:
        to = value.float_value;
        break;
      case PJRT_NamedValue_kBool:
        to = value.bool_value;
        break;
    }
  }
  return result;
}

std::vector<PJRT_NamedValue> to_c_values(const NamedValues& values) {
  std::vector<PJRT_NamedValue> result;
  result.reserve(values.size());
  for (const auto& [name, value] : values) {
    RINGMAX_PJRT_ARGS(PJRT_NamedValue, c);
    c.name = name.data();
    c.name_size = name.size();
    c.value_size = 1;
    if (const auto* text = std::get_if<std::string>(&value)) {
      c.type = PJRT_NamedValue_kString;
      c.string_value = text->data();
      c.value_size = text->size();
    } else if (const auto* number = std::get_if<std::int64_t>(&value)) {
      c.type = PJRT_NamedValue_kInt64;
      c.int64_value = *number;
    } else if (const auto* list =
                   std::get_if<std::vector<std::int64_t>>(&value)) {
      c.type = PJRT_NamedValue_kInt64List;
      c.int64_array_value = list->data();
      c.value_size = list->size();
    } else if (const auto* real = std::get_if<float>(&value)) {
      c.type = PJRT_NamedValue_kFloat;
      c.float_value = *real;
    } else {
      c.type = PJRT_NamedValue_kBool;
      c.bool_value = std::get<bool>(value);
    }
    result.push_back(c);
  }
  return result;
}

}  // namespace ringmax::pjrt
