// Key-value pairs as the PJRT C API passes them: client options, plugin, device
// and topology attributes, cost analysis.
#ifndef RINGMAX_PJRT_NAMED_VALUE_H_
#define RINGMAX_PJRT_NAMED_VALUE_H_

#include <cstdint>
#include <map>
#include <string>
#include <variant>
#include <vector>

namespace ringmax::pjrt {

using NamedValue = std::variant<std::string, std::int64_t,
                                std::vector<std::int64_t>, float, bool>;
using NamedValues = std::map<std::string, NamedValue>;

// "8", "true", "[0, 1, 2]", or the string itself.
std::string named_value_string(const NamedValue& value);

}  // namespace ringmax::pjrt

#endif  // RINGMAX_PJRT_NAMED_VALUE_H_
