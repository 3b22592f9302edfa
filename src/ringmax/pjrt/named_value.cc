#include "ringmax/pjrt/named_value.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace ringmax::pjrt {

std::string named_value_string(const NamedValue& value) {
  struct Visitor {
    std::string operator()(const std::string& v) const { return v; }
    std::string operator()(std::int64_t v) const { return fmt::to_string(v); }
    std::string operator()(const std::vector<std::int64_t>& v) const {
      return fmt::format("[{}]", fmt::join(v, ", "));
    }
    std::string operator()(float v) const { return fmt::to_string(v); }
    std::string operator()(bool v) const { return v ? "true" : "false"; }
  };
  return std::visit(Visitor{}, value);
}

}  // namespace ringmax::pjrt
