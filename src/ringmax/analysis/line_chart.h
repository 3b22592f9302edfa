// A line chart as inline SVG: one series over steps, axes with round ticks,
// linear or logarithmic, colours from the page's CSS. A hidden list of points
// lets the page's script show values under the pointer.
#ifndef RINGMAX_ANALYSIS_LINE_CHART_H_
#define RINGMAX_ANALYSIS_LINE_CHART_H_

#include <string>
#include <vector>

namespace ringmax::analysis {

struct Point {
  double x = 0;
  double y = 0;  // not finite or beyond 1e100: a gap in the line
};

struct ChartStyle {
  std::string title;         // for readers of the screen, not drawn
  bool log_y = false;        // values that are not positive become gaps
  bool from_zero = false;    // the y axis begins at 0 (linear only)
  bool smooth = false;       // a running mean in front of the raw line
  double width = 460;        // of the view box; the height is 260
  std::string color = "c1";  // CSS class of the line
};

// The whole <svg> element. Long series are thinned to what can be seen, keeping
// the extremes.
std::string line_chart_svg(const std::vector<Point>& points,
                           const ChartStyle& style);

// Round values that divide [low, high] into about `count` parts.
std::vector<double> linear_ticks(double low, double high, int count);
// 1, 2, 5 times powers of ten in [low, high], 0 < low < high; the powers alone
// when those are enough, linear ticks when they are too few.
std::vector<double> log_ticks(double low, double high);
// "1,500", "15k", "20M", "3e-05", "0.25".
std::string tick_label(double value);

}  // namespace ringmax::analysis

#endif  // RINGMAX_ANALYSIS_LINE_CHART_H_
