// Text into HTML.
#ifndef RINGMAX_ANALYSIS_HTML_H_
#define RINGMAX_ANALYSIS_HTML_H_

#include <string>
#include <string_view>

namespace ringmax::analysis {

// Safe as an element's text and as an attribute in double quotes. Bytes that
// are not UTF-8 become U+FFFD; control characters other than newline and tab
// are dropped.
std::string escape_html(std::string_view text);

}  // namespace ringmax::analysis

#endif  // RINGMAX_ANALYSIS_HTML_H_
