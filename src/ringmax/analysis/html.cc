#include "ringmax/analysis/html.h"

#include "ringmax/base/utf8.h"

namespace ringmax::analysis {

std::string escape_html(std::string_view text) {
  std::string out;
  for (const char c : replace_invalid_utf8(text)) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\'':
        out += "&#39;";
        break;
      default: {
        const auto byte = static_cast<unsigned char>(c);
        if (byte >= 0x20 && byte != 0x7F) out += c;
        if (c == '\n' || c == '\t') out += c;
      }
    }
  }
  return out;
}

}  // namespace ringmax::analysis
