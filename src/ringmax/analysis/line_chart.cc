#include "ringmax/analysis/line_chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <iterator>

#include "ringmax/analysis/html.h"
#include "ringmax/base/numerals.h"

namespace ringmax::analysis {
namespace {

constexpr double kHeight = 260;
constexpr double kLeft = 58;
constexpr double kRight = 14;
constexpr double kTop = 12;
constexpr double kBottom = 34;
constexpr std::size_t kMaxPoints = 600;

// Where values land on the picture.
struct Scale {
  double width;
  double x_low, x_high, y_low, y_high;
  bool log_y;

  double x(double value) const {
    return kLeft +
           (value - x_low) / (x_high - x_low) * (width - kLeft - kRight);
  }
  double y(double value) const {
    const double part = log_y
                            ? std::log(value / y_low) / std::log(y_high / y_low)
                            : (value - y_low) / (y_high - y_low);
    return kHeight - kBottom - part * (kHeight - kTop - kBottom);
  }
};

// Outside these bounds ratios of values overflow; no run means such values.
constexpr double kLargest = 1e100;

bool drawable(const Point& point, const ChartStyle& style) {
  return std::isfinite(point.x) && std::abs(point.y) <= kLargest &&
         (!style.log_y || point.y >= 1 / kLargest);
}

// Keeps each bucket's lowest and highest point, in order.
std::vector<Point> thin(const std::vector<Point>& points) {
  if (points.size() <= kMaxPoints) return points;
  std::vector<Point> kept;
  const std::size_t buckets = kMaxPoints / 2;
  for (std::size_t b = 0; b < buckets; ++b) {
    const auto begin =
        points.begin() + std::ptrdiff_t(points.size() * b / buckets);
    const auto end =
        points.begin() + std::ptrdiff_t(points.size() * (b + 1) / buckets);
    auto [low, high] = std::minmax_element(
        begin, end, [](const Point& a, const Point& c) { return a.y < c.y; });
    if (high < low) std::swap(low, high);
    kept.push_back(*low);
    if (low != high) kept.push_back(*high);
  }
  return kept;
}

// Mean over a window around each point, about a thirtieth of the whole.
std::vector<Point> running_mean(const std::vector<Point>& points) {
  const std::ptrdiff_t reach =
      std::max<std::ptrdiff_t>(1, std::ssize(points) / 60);
  std::vector<Point> means;
  for (std::ptrdiff_t i = 0; i < std::ssize(points); ++i) {
    // The window shrinks at the ends and stays centred, so that the line does
    // not lag behind.
    const std::ptrdiff_t half =
        std::min({reach, i, std::ssize(points) - 1 - i});
    double sum = 0;
    for (std::ptrdiff_t j = i - half; j <= i + half; ++j) sum += points[j].y;
    means.push_back({points[i].x, sum / static_cast<double>(2 * half + 1)});
  }
  return means;
}

Scale fit(const std::vector<Point>& points, const ChartStyle& style) {
  double x_low = points.front().x, x_high = points.front().x;
  double y_low = points.front().y, y_high = points.front().y;
  for (const Point& point : points) {
    x_low = std::min(x_low, point.x);
    x_high = std::max(x_high, point.x);
    y_low = std::min(y_low, point.y);
    y_high = std::max(y_high, point.y);
  }
  if (x_low == x_high) {
    x_low -= 0.5;
    x_high += 0.5;
  }
  if (style.log_y) {
    const double pad = std::max(std::pow(y_high / y_low, 0.05), 1.01);
    return {style.width, x_low, x_high, y_low / pad, y_high * pad, true};
  }
  double pad = (y_high - y_low) * 0.06;
  if (pad == 0) pad = std::max(std::abs(y_high) * 0.1, 1e-12);
  y_high += pad;
  y_low = style.from_zero && y_low >= 0 ? 0 : y_low - pad;
  return {style.width, x_low, x_high, y_low, y_high, false};
}

std::string path_data(const std::vector<Point>& points, const Scale& scale) {
  std::string path;
  for (const Point& point : points) {
    path += fmt::format("{}{:.1f},{:.1f}", path.empty() ? "M" : "L",
                        scale.x(point.x), scale.y(point.y));
  }
  return path;
}

std::string axes(const Scale& scale) {
  std::string svg;
  const std::vector<double> y_ticks =
      scale.log_y ? log_ticks(scale.y_low, scale.y_high)
                  : linear_ticks(scale.y_low, scale.y_high, 5);
  for (const double tick : y_ticks) {
    const double y = scale.y(tick);
    svg += fmt::format(
        R"(<line class="grid" x1="{}" x2="{}" y1="{:.1f}" y2="{:.1f}"/>)"
        R"(<text class="tick" x="{}" y="{:.1f}" text-anchor="end">{}</text>)",
        kLeft, scale.width - kRight, y, y, kLeft - 8, y + 4, tick_label(tick));
  }
  for (const double tick : linear_ticks(scale.x_low, scale.x_high,
                                        static_cast<int>(scale.width / 90))) {
    if (tick != std::floor(tick)) continue;  // there is no half step
    svg += fmt::format(
        R"(<text class="tick" x="{:.1f}" y="{}" text-anchor="middle">{}</text>)",
        scale.x(tick), kHeight - kBottom + 17, tick_label(tick));
  }
  svg += fmt::format(
      R"(<line class="axis" x1="{0}" x2="{1}" y1="{2}" y2="{2}"/>)"
      R"(<text class="tick" x="{1}" y="{3}" text-anchor="end">step</text>)",
      kLeft, scale.width - kRight, kHeight - kBottom, kHeight - 3);
  return svg;
}

std::string hover_points(const std::vector<Point>& points, const Scale& scale) {
  std::string list;
  for (const Point& point : points) {
    list +=
        fmt::format("{}{:.1f},{:.1f},{:.0f},{:.5g}", list.empty() ? "" : ";",
                    scale.x(point.x), scale.y(point.y), point.x, point.y);
  }
  return list;
}

}  // namespace

std::string line_chart_svg(const std::vector<Point>& points,
                           const ChartStyle& style) {
  std::vector<Point> shown;
  std::copy_if(points.begin(), points.end(), std::back_inserter(shown),
               [&](const Point& point) { return drawable(point, style); });
  std::string svg = fmt::format(
      R"(<svg class="chart" viewBox="0 0 {} {}" role="img" aria-label="{}")",
      style.width, kHeight, escape_html(style.title));
  if (shown.empty()) {
    return svg + fmt::format(R"(><text class="tick" x="{}" y="{}" )"
                             R"(text-anchor="middle">no values</text></svg>)",
                             style.width / 2, kHeight / 2);
  }
  const Scale scale = fit(shown, style);
  const std::vector<Point> raw = thin(shown);
  svg += fmt::format(R"( data-points="{}">)", hover_points(raw, scale));
  svg += axes(scale);
  const bool smooth = style.smooth && shown.size() >= 30;
  svg += fmt::format(R"(<path class="line {}{}" d="{}"/>)", style.color,
                     smooth ? " raw" : "", path_data(raw, scale));
  if (smooth) {
    svg += fmt::format(R"(<path class="line {}" d="{}"/>)", style.color,
                       path_data(thin(running_mean(shown)), scale));
  }
  if (shown.size() == 1) {
    svg +=
        fmt::format(R"(<circle class="dot {}" cx="{:.1f}" cy="{:.1f}" r="4"/>)",
                    style.color, scale.x(shown[0].x), scale.y(shown[0].y));
  }
  return svg + "</svg>";
}

std::vector<double> linear_ticks(double low, double high, int count) {
  const double rough = (high - low) / count;
  if (!(rough > 0) || !std::isfinite(rough)) return {};
  const double power = std::pow(10, std::floor(std::log10(rough)));
  double step = 10 * power;
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= rough) {
      step = factor * power;
      break;
    }
  }
  std::vector<double> ticks;
  const double first = std::ceil(low / step - 1e-9);
  const double last = std::floor(high / step + 1e-9);
  for (double i = first; i <= last && ticks.size() < 100; ++i) {
    ticks.push_back(i == 0 ? 0 : i * step);
  }
  return ticks;
}

std::vector<double> log_ticks(double low, double high) {
  std::vector<double> powers, all;
  const double end = std::floor(std::log10(high));
  for (double e = std::floor(std::log10(low)); e <= end; ++e) {
    for (const double factor : {1.0, 2.0, 5.0}) {
      const double tick = factor * std::pow(10, e);
      if (tick < low || tick > high) continue;
      all.push_back(tick);
      if (factor == 1) powers.push_back(tick);
    }
  }
  if (powers.size() >= 4) {
    const std::size_t stride = (powers.size() + 7) / 8;
    std::vector<double> spread;
    for (std::size_t i = 0; i < powers.size(); i += stride) {
      spread.push_back(powers[i]);
    }
    return spread;
  }
  if (all.size() >= 3) return all;
  std::vector<double> linear = linear_ticks(low, high, 5);
  std::erase_if(linear, [](double tick) { return tick <= 0; });
  return linear;
}

std::string tick_label(double value) {
  const double magnitude = std::abs(value);
  if (magnitude >= 1e15) return fmt::format("{:.3g}", value);
  if (magnitude >= 1e9) return fmt::format("{:.6g}G", value / 1e9);
  if (magnitude >= 1e6) return fmt::format("{:.6g}M", value / 1e6);
  if (magnitude >= 1e4) return fmt::format("{:.6g}k", value / 1e3);
  if (magnitude >= 1e3 && value == std::floor(value)) return with_commas(value);
  return fmt::format("{:.6g}", value);
}

}  // namespace ringmax::analysis
