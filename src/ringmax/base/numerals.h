// Numbers as people read them.
#ifndef RINGMAX_BASE_NUMERALS_H_
#define RINGMAX_BASE_NUMERALS_H_

#include <cstdint>
#include <string>

namespace ringmax {

// "65,536", "-1,234".
std::string with_commas(std::int64_t value);
// Rounded to a whole number; "nan" and "inf" as they are.
std::string with_commas(double value);

}  // namespace ringmax

#endif  // RINGMAX_BASE_NUMERALS_H_
