#include "ringmax/base/numerals.h"

#include <fmt/format.h>

#include <cmath>
#include <iterator>
#include <utility>

namespace ringmax {
namespace {

std::string grouped(std::string digits) {
  const std::ptrdiff_t first = digits.starts_with('-') ? 1 : 0;
  for (std::ptrdiff_t at = std::ssize(digits) - 3; at > first; at -= 3) {
    digits.insert(static_cast<std::size_t>(at), ",");
  }
  return digits;
}

}  // namespace

std::string with_commas(std::int64_t value) {
  return grouped(fmt::format("{}", value));
}

std::string with_commas(double value) {
  std::string digits = fmt::format("{:.0f}", value);
  return std::isfinite(value) ? grouped(std::move(digits)) : digits;
}

}  // namespace ringmax
