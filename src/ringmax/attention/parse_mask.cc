// mask := meet ('|' meet)*;  meet := part ('&' part)*;
// part := '(' mask ')' | full | causal[:N] | local:N,N | chunked:N | dense
#include <charconv>
#include <utility>

#include "ringmax/attention/mask.h"
#include "ringmax/base/error.h"

namespace ringmax::attention {
namespace {

constexpr std::string_view kValid =
    "valid are full, causal[:OFFSET], local:LEFT,RIGHT, chunked:C and dense, "
    "combined by & and | (& binds tighter) and parentheses";
// Far more than a person writes; keeps the recursion shallow.
constexpr int kMaxDepth = 64;
constexpr std::size_t kMaxLength = 4096;

class Parser {
 public:
  Parser(std::string_view text, std::shared_ptr<const DenseMask> dense)
      : text_(text), dense_(std::move(dense)) {}

  Mask parse() {
    if (text_.size() > kMaxLength) {
      fail_invalid(
          "mask={}...: {} characters are too many, at most {} are "
          "read; {}",
          text_.substr(0, 32), text_.size(), kMaxLength, kValid);
    }
    const Mask mask = parse_or(0);
    if (at_ < text_.size()) wrong("'&', '|' or the end");
    return mask;
  }

 private:
  [[noreturn]] void wrong(std::string_view expected) const {
    if (at_ < text_.size()) {
      fail_invalid("mask={}: expected {} at character {}, found '{}'; {}",
                   text_, expected, at_ + 1, text_[at_], kValid);
    }
    fail_invalid("mask={}: expected {} at the end; {}", text_, expected,
                 kValid);
  }

  void skip_spaces() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }
  bool take(char c) {
    skip_spaces();
    if (at_ == text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }

  Mask parse_or(int depth) {
    Mask mask = parse_and(depth);
    while (take('|')) mask = mask | parse_and(depth);
    return mask;
  }
  Mask parse_and(int depth) {
    Mask mask = parse_part(depth);
    while (take('&')) mask = mask & parse_part(depth);
    return mask;
  }
  Mask parse_part(int depth) {
    if (take('(')) {
      if (depth == kMaxDepth) {
        fail_invalid("mask={}: parentheses are nested more than {} deep", text_,
                     kMaxDepth);
      }
      const Mask mask = parse_or(depth + 1);
      if (!take(')')) wrong("')'");
      skip_spaces();
      return mask;
    }
    const Mask mask = parse_law();
    skip_spaces();
    return mask;
  }

  Mask parse_law() {
    skip_spaces();
    const std::size_t begin = at_;
    while (at_ < text_.size() && text_[at_] >= 'a' && text_[at_] <= 'z') ++at_;
    const std::string_view name = text_.substr(begin, at_ - begin);
    if (name == "full") return Mask::full();
    if (name == "causal") {
      return Mask::causal(next_is(':') ? number("OFFSET") : 0);
    }
    if (name == "local") {
      if (!next_is(':')) wrong("':LEFT,RIGHT'");
      const std::int64_t left = number("LEFT");
      if (!next_is(',')) wrong("',RIGHT'");
      return Mask::local(left, number("RIGHT"));
    }
    if (name == "chunked") {
      if (!next_is(':')) wrong("':C'");
      return Mask::chunked(number("C"));
    }
    if (name == "dense") {
      if (dense_ == nullptr) {
        fail_invalid(
            "mask={}: dense takes an array [queries, keys] of visible pairs, "
            "and there is none",
            text_);
      }
      return Mask::dense(dense_);
    }
    at_ = begin;
    wrong("a mask");
  }

  // No spaces within a law.
  bool next_is(char c) {
    if (at_ == text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  std::int64_t number(std::string_view what) {
    const char* end = text_.data() + text_.size();
    std::int64_t value = 0;
    const auto [stop, error] = std::from_chars(text_.data() + at_, end, value);
    if (error == std::errc::result_out_of_range) {
      fail_invalid("mask={}: {} at character {} is out of range, at most {}",
                   text_, what, at_ + 1, kMaxMaskNumber);
    }
    if (error != std::errc()) wrong(fmt::format("a whole number {}", what));
    at_ = static_cast<std::size_t>(stop - text_.data());
    return value;
  }

  std::string_view text_;
  std::shared_ptr<const DenseMask> dense_;
  std::size_t at_ = 0;
};

}  // namespace

Mask parse_mask(std::string_view text, std::shared_ptr<const DenseMask> dense) {
  return Parser(text, std::move(dense)).parse();
}

}  // namespace ringmax::attention
