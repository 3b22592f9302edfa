#include "ringmax/kernel/testing/mosaic_parser.h"

#include <algorithm>
#include <cctype>
#include <string_view>

#include "ringmax/base/error.h"

namespace ringmax::kernel::testing {
namespace {

bool opens(char c) { return c == '(' || c == '[' || c == '{' || c == '<'; }
bool closes(char c) { return c == ')' || c == ']' || c == '}' || c == '>'; }

std::string trimmed(std::string_view text) {
  const auto first = text.find_first_not_of(" \n\t");
  if (first == std::string_view::npos) return "";
  const auto last = text.find_last_not_of(" \n\t");
  return std::string(text.substr(first, last - first + 1));
}

class Parser {
 public:
  explicit Parser(const std::string& text) : text_(text) {}

  MlirOp op() {
    MlirOp op;
    if (peek() == '%') {
      const std::string base = word();
      std::size_t count = 1;
      if (accept(":")) count = std::stoul(word());
      if (count == 1) {
        op.results = {base};
      } else {
        for (std::size_t i = 0; i < count; ++i) {
          op.results.push_back(base + "#" + std::to_string(i));
        }
      }
      expect("=");
    }
    expect("\"");
    op.name = until('"');
    expect("(");
    while (!accept(")")) {
      op.operands.push_back(word());
      accept(",");
    }
    if (accept("(")) {
      do {
        op.regions.push_back(block());
      } while (accept(","));
      expect(")");
    }
    if (peek() == '{') op.attributes = dictionary(balanced());
    expect(":");
    op.operand_types = types();
    expect("->");
    op.result_types = peek() == '(' ? types() : std::vector{type(type_text())};
    if (op.operand_types.size() != op.operands.size() ||
        op.result_types.size() != op.results.size()) {
      bad("a signature that does not fit " + op.name);
    }
    return op;
  }

  void end() {
    skip();
    if (at_ != text_.size()) bad("text after the module");
  }

 private:
  [[noreturn]] void bad(const std::string& what) {
    const auto line =
        1 + std::count(text_.begin(),
                       text_.begin() + static_cast<std::ptrdiff_t>(at_), '\n');
    fail_invalid("MLIR line {}: {}", line, what);
  }
  void skip() {
    while (at_ < text_.size() &&
           std::isspace(static_cast<unsigned char>(text_[at_]))) {
      ++at_;
    }
  }
  char peek() {
    skip();
    if (at_ == text_.size()) bad("the text ends too early");
    return text_[at_];
  }
  bool accept(std::string_view token) {
    skip();
    if (text_.compare(at_, token.size(), token) != 0) return false;
    at_ += token.size();
    return true;
  }
  void expect(std::string_view token) {
    if (!accept(token)) bad("no '" + std::string(token) + "'");
  }
  std::string until(char stop) {
    const std::size_t end = text_.find(stop, at_);
    if (end == std::string::npos) bad("an open string");
    std::string found = text_.substr(at_, end - at_);
    at_ = end + 1;
    return found;
  }
  // %name, %name#2, ^bb0, a number.
  std::string word() {
    skip();
    const std::size_t begin = at_;
    while (at_ < text_.size() &&
           (std::isalnum(static_cast<unsigned char>(text_[at_])) ||
            text_[at_] == '%' || text_[at_] == '_' || text_[at_] == '#' ||
            text_[at_] == '^')) {
      ++at_;
    }
    if (begin == at_) bad("no name");
    return text_.substr(begin, at_ - begin);
  }
  // A bracket with what it holds.
  std::string balanced() {
    skip();
    const std::size_t begin = at_;
    int depth = 0;
    do {
      const char c = text_[at_];
      if (opens(c)) ++depth;
      if (closes(c) && !(c == '>' && text_[at_ - 1] == '-')) --depth;
      ++at_;
    } while (depth > 0 && at_ < text_.size());
    if (depth != 0) bad("an open bracket");
    return text_.substr(begin, at_ - begin);
  }
  std::string type_text() {
    skip();
    const std::size_t begin = at_;
    word();
    if (at_ < text_.size() && text_[at_] == '<') balanced();
    return text_.substr(begin, at_ - begin);
  }
  std::vector<MlirType> types() {
    std::vector<MlirType> found;
    expect("(");
    while (!accept(")")) {
      found.push_back(type(type_text()));
      accept(",");
    }
    return found;
  }
  static MlirType type(const std::string& text) {
    MlirType t;
    const std::size_t open = text.find('<');
    if (open == std::string::npos) {
      t.element = text;
      return t;
    }
    t.kind = text.substr(0, open);
    const std::vector<std::string> parts = split_list(text.substr(open));
    std::string shape = parts.at(0);
    std::size_t cross = shape.find('x');
    while (cross != std::string::npos &&
           std::isdigit(static_cast<unsigned char>(shape[0]))) {
      t.dims.push_back(std::stoll(shape.substr(0, cross)));
      shape = shape.substr(cross + 1);
      cross = shape.find('x');
    }
    t.element = shape;
    if (parts.size() > 1) t.space = split_list(parts[1].substr(17)).at(0);
    return t;
  }
  MlirBlock block() {
    MlirBlock b;
    expect("{");
    if (peek() == '^') {
      word();
      expect("(");
      while (!accept(")")) {
        b.arguments.push_back(word());
        expect(":");
        b.argument_types.push_back(type(type_text()));
        accept(",");
      }
      expect(":");
    }
    while (!accept("}")) b.ops.push_back(op());
    return b;
  }
  static std::map<std::string, std::string> dictionary(
      const std::string& text) {
    std::map<std::string, std::string> attributes;
    for (const std::string& entry : split_list(text)) {
      const std::size_t equals = entry.find('=');
      attributes[trimmed(entry.substr(0, equals))] =
          equals == std::string::npos ? "" : trimmed(entry.substr(equals + 1));
    }
    return attributes;
  }

  const std::string& text_;
  std::size_t at_ = 0;
};

}  // namespace

const std::string& MlirOp::attribute(const std::string& key) const {
  const auto found = attributes.find(key);
  if (found == attributes.end()) {
    fail_invalid("MLIR: {} has no attribute {}", name, key);
  }
  return found->second;
}

MlirOp parse_mlir(const std::string& text) {
  Parser parser(text);
  MlirOp op = parser.op();
  parser.end();
  return op;
}

std::vector<std::string> split_list(const std::string& text) {
  std::size_t open = 0;
  while (open < text.size() && !opens(text[open])) ++open;
  std::string inside = text.substr(open + 1, text.size() - open - 2);
  if (text.rfind("array<", 0) == 0) {
    const std::size_t colon = inside.find(':');
    inside = colon == std::string::npos ? "" : inside.substr(colon + 1);
  }
  std::vector<std::string> parts;
  int depth = 0;
  std::string part;
  for (std::size_t i = 0; i < inside.size(); ++i) {
    const char c = inside[i];
    if (opens(c)) ++depth;
    if (closes(c) && !(c == '>' && i > 0 && inside[i - 1] == '-')) --depth;
    if (c == ',' && depth == 0) {
      parts.push_back(trimmed(part));
      part.clear();
    } else {
      part += c;
    }
  }
  if (!trimmed(part).empty()) parts.push_back(trimmed(part));
  return parts;
}

}  // namespace ringmax::kernel::testing
