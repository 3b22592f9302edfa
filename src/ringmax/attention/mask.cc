#include "ringmax/attention/mask.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "ringmax/base/error.h"

namespace ringmax::attention {
namespace {

// Far beyond any sequence, and small enough that no sum below overflows.
constexpr std::int64_t kMaxOffset = std::int64_t{1} << 40;

}  // namespace

Mask Mask::full() { return Mask(Kind::kFull, 0); }

Mask Mask::causal(std::int64_t offset) {
  if (offset < -kMaxOffset || offset > kMaxOffset) {
    fail_invalid("the offset of mask causal:{} must lie between {} and {}",
                 offset, -kMaxOffset, kMaxOffset);
  }
  return Mask(Kind::kCausal, offset);
}

bool Mask::visible(std::int64_t query, std::int64_t key) const {
  return kind_ == Kind::kFull || key <= query + offset_;
}

BlockKind Mask::classify(PositionRange queries, PositionRange keys) const {
  if (queries.empty() || keys.empty()) return BlockKind::kEmpty;
  if (kind_ == Kind::kFull) return BlockKind::kFull;
  if (visible(queries.begin, keys.end - 1)) return BlockKind::kFull;
  if (!visible(queries.end - 1, keys.begin)) return BlockKind::kEmpty;
  return BlockKind::kPartial;
}

std::int64_t Mask::count(PositionRange queries, PositionRange keys) const {
  if (queries.empty() || keys.empty()) return 0;
  if (kind_ == Kind::kFull) return queries.size() * keys.size();
  // Query i sees min(max(i + offset + 1 - keys.begin, 0), keys.size()) keys:
  // nothing up to `first`, one more a query from there, all from `whole` on.
  const std::int64_t first =
      std::clamp(keys.begin - offset_, queries.begin, queries.end);
  const std::int64_t whole =
      std::clamp(keys.end - 1 - offset_, first, queries.end);
  const std::int64_t ramp = whole - first;
  const std::int64_t seen_by_first = first + offset_ + 1 - keys.begin;
  const std::int64_t on_ramp =
      ramp == 0 ? 0 : ramp * seen_by_first + ramp * (ramp - 1) / 2;
  return on_ramp + (queries.end - whole) * keys.size();
}

std::string Mask::to_string() const {
  if (kind_ == Kind::kFull) return "full";
  return offset_ == 0 ? "causal" : fmt::format("causal:{}", offset_);
}

Mask parse_mask(std::string_view text) {
  constexpr std::string_view kCausal = "causal:";
  if (text == "full") return Mask::full();
  if (text == "causal") return Mask::causal();
  if (text.substr(0, kCausal.size()) == kCausal) {
    const std::string_view number = text.substr(kCausal.size());
    const char* end = number.data() + number.size();
    std::int64_t offset = 0;
    const auto [stop, error] = std::from_chars(number.data(), end, offset);
    if (error == std::errc() && stop == end) return Mask::causal(offset);
    fail_invalid(
        "mask={}: the offset \"{}\" is not a whole number; valid is "
        "causal:OFFSET, say causal:-1",
        text, number);
  }
  for (std::string_view later : {"local", "chunked", "dense"}) {
    if (text.substr(0, later.size()) == later) {
      fail_invalid(
          "mask={}: {} masks are not supported yet; valid are full, "
          "causal and causal:OFFSET",
          text, later);
    }
  }
  if (text.find_first_of("&|()") != std::string_view::npos) {
    fail_invalid(
        "mask={}: combined masks are not supported yet; valid are "
        "full, causal and causal:OFFSET",
        text);
  }
  fail_invalid(
      "mask={}: unknown mask; valid are full, causal and "
      "causal:OFFSET",
      text);
}

}  // namespace ringmax::attention
