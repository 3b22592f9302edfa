// "Did you mean": the closest of some known names to a misspelt one.
#ifndef RINGMAX_BASE_SUGGEST_H_
#define RINGMAX_BASE_SUGGEST_H_

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace ringmax {

// Insertions, deletions, substitutions and swaps of neighbours, each cost 1.
std::size_t edit_distance(std::string_view a, std::string_view b);

// The known name nearest to `name`; "" when none is near enough to be meant.
std::string closest_name(std::string_view name,
                         const std::vector<std::string>& known);

}  // namespace ringmax

#endif  // RINGMAX_BASE_SUGGEST_H_
