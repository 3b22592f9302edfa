#include "ringmax/analysis/plan_picture.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <string_view>

#include "ringmax/analysis/html.h"
#include "ringmax/attention/tile_key.h"
#include "ringmax/base/numerals.h"

namespace ringmax::analysis {
namespace {

using attention::LayoutKind;
using attention::PositionRange;
using attention::RingStep;
using attention::RingTrack;

constexpr double kWidth = 1240;
constexpr double kMargin = 32;
constexpr double kSquare = 520;      // side of a mask panel
constexpr std::int64_t kCells = 64;  // cells of a side, about
constexpr std::int64_t kMostRows = 64;

// Plain colours: programs that draw SVG outside of a browser know no var().
constexpr std::string_view kStyle =
    ".plan{font-family:system-ui,'Liberation Sans',sans-serif}"
    ".plan .bg{fill:#f6f7f9}.plan .card{fill:#fff;stroke:#d5dbe3}"
    ".plan text{fill:#1b2430;font-size:13px}"
    ".plan .h1{font-size:24px;font-weight:600}"
    ".plan .h2{font-size:15px;font-weight:600}"
    ".plan .cell{shape-rendering:crispEdges}"
    ".plan .big{font-size:19px;font-weight:600}"
    ".plan .soft{fill:#5d6b7c}.plan .small{font-size:11px}"
    ".plan .grid{stroke:#d5dbe3;stroke-width:1}"
    ".plan .idle{fill:#d5dbe3}"
    ".plan .mean{stroke:#1b2430;stroke-dasharray:4 3}"
    ".plan .end{text-anchor:end}.plan .mid{text-anchor:middle}"
    "@media(prefers-color-scheme:dark){.plan .bg{fill:#12161c}"
    ".plan .card{fill:#1a2029;stroke:#39434f}.plan text{fill:#e6eaf0}"
    ".plan .soft{fill:#93a1b3}.plan .grid{stroke:#39434f}"
    ".plan .idle{fill:#39434f}.plan .mean{stroke:#e6eaf0}}";

// Joins text as the picture grows.
class Svg {
 public:
  template <typename... Args>
  void add(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(text_), format,
                   std::forward<Args>(args)...);
    text_ += '\n';
  }
  void text(double x, double y, std::string_view classes,
            std::string_view words) {
    add(R"(<text x="{:.1f}" y="{:.1f}" class="{}">{}</text>)", x, y, classes,
        escape_html(words));
  }
  void rect(double x, double y, double w, double h, std::string_view fill,
            double opacity) {
    add(R"(<rect x="{:.2f}" y="{:.2f}" width="{:.2f}" height="{:.2f}" class="cell" fill="{}" fill-opacity="{:.2f}"/>)",
        x, y, w, h, fill, opacity);
  }
  void line(double x0, double y0, double x1, double y1,
            std::string_view classes) {
    add(R"(<line x1="{:.1f}" y1="{:.1f}" x2="{:.1f}" y2="{:.1f}" class="{}"/>)",
        x0, y0, x1, y1, classes);
  }
  void card(double x, double y, double w, double h) {
    add(R"(<rect x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}" rx="10" class="card"/>)",
        x, y, w, h);
  }
  const std::string& str() const { return text_; }

 private:
  std::string text_;
};

// Told apart for up to eight devices, round the colour circle for more.
std::string color_of(std::int64_t device, std::int64_t devices) {
  constexpr std::array<std::string_view, 8> kColors = {
      "#2563c9", "#e0701b", "#0d8a72", "#b83280",
      "#7a46c2", "#a88a00", "#2aa5d8", "#c53030"};
  if (devices <= 8) {
    return std::string(kColors[static_cast<std::size_t>(device)]);
  }
  const double hue =
      360.0 * static_cast<double>(device) / static_cast<double>(devices);
  return fmt::format("hsl({:.0f},62%,{}%)", hue, device % 2 == 0 ? 45 : 56);
}

double part(std::int64_t i, std::int64_t n) {
  return static_cast<double>(i) / static_cast<double>(n);
}

// One row of cells at y, neighbours of equal opacity as one rectangle.
void cell_row(Svg& svg, double x, double y, double cell_w, double cell_h,
              std::string_view fill, const std::vector<double>& seen) {
  for (std::size_t i = 0; i < seen.size();) {
    std::size_t end = i + 1;
    while (end < seen.size() && seen[end] == seen[i]) ++end;
    if (seen[i] > 0) {
      const double opacity = seen[i] >= 1 ? 0.9 : 0.2 + 0.5 * seen[i];
      svg.rect(x + cell_w * static_cast<double>(i), y,
               cell_w * static_cast<double>(end - i), cell_h, fill, opacity);
    }
    i = end;
  }
}

// Cells of one side over `tokens`: all of them, or about kCells in whole parts
// of `parts`.
std::int64_t cells_for(std::int64_t tokens, std::int64_t parts) {
  if (tokens <= kCells) return tokens;
  const std::int64_t each = std::max<std::int64_t>(kCells / parts, 1);
  return std::min({tokens, parts * each, 2 * kCells});
}

void token_panel(Svg& svg, const PlanPicture& p, double x, double y) {
  const std::int64_t devices = p.queries.shards();
  const bool striped = p.queries.kind() == LayoutKind::kStriped;
  const std::int64_t parts =
      p.queries.kind() == LayoutKind::kZigzag ? 2 * devices : devices;
  const std::int64_t rows = cells_for(p.queries.tokens(), parts);
  const std::int64_t columns = cells_for(p.keys.tokens(), parts);
  const double w = kSquare / static_cast<double>(columns);
  const double h = kSquare / static_cast<double>(rows);
  // Stripes of single tokens are too thin to see: they are drawn a cell wide.
  const bool wide = striped && rows < p.queries.tokens();
  for (std::int64_t r = 0; r < rows; ++r) {
    const PositionRange q{r * p.queries.tokens() / rows,
                          (r + 1) * p.queries.tokens() / rows};
    const std::int64_t device =
        wide ? (rows < devices ? r * devices / rows : r % devices)
             : p.queries.shard_of((q.begin + q.end - 1) / 2);
    std::vector<double> seen;
    for (std::int64_t c = 0; c < columns; ++c) {
      const PositionRange k{c * p.keys.tokens() / columns,
                            (c + 1) * p.keys.tokens() / columns};
      seen.push_back(part(p.mask.count(q, k), q.size() * k.size()));
    }
    cell_row(svg, x, y + h * static_cast<double>(r), w, h,
             color_of(device, devices), seen);
  }
  svg.add(
      R"(<rect x="{}" y="{}" width="{}" height="{}" fill="none" class="grid"/>)",
      x, y, kSquare, kSquare);
  svg.text(x, y + kSquare + 18, "soft small",
           fmt::format("keys 0 to {} across, queries 0 to {} down{}",
                       with_commas(p.keys.tokens() - 1),
                       with_commas(p.queries.tokens() - 1),
                       wide ? "; stripes drawn wider than a token" : ""));
}

// Every r-th part of n slots, of a shard.
PositionRange slots_of(std::int64_t i, std::int64_t n, std::int64_t slots) {
  return {i * slots / n, (i + 1) * slots / n};
}

std::int64_t count_slots(attention::TileCounts& counts, const PlanPicture& p,
                         std::int64_t q_shard, const PositionRange& q_slots,
                         std::int64_t k_shard, const PositionRange& k_slots) {
  std::int64_t seen = 0;
  for (const attention::SlotRun& q : p.queries.real_slots(q_shard, q_slots)) {
    for (const attention::SlotRun& k : p.keys.real_slots(k_shard, k_slots)) {
      seen += counts.count(q.run, k.run);
    }
  }
  return seen;
}

void device_panel(Svg& svg, const PlanPicture& p, double x, double y) {
  const std::int64_t devices = p.queries.shards();
  const std::int64_t shown = std::min(devices, kMostRows);
  const double band = kSquare / static_cast<double>(shown);
  const std::int64_t most =
      std::max<std::int64_t>(shown == devices ? kCells / devices : 1, 1);
  const std::int64_t rows = std::min(most, p.queries.shard_tokens());
  const std::int64_t columns = std::min(most, p.keys.shard_tokens());
  attention::TileCounts counts(p.mask);
  for (std::int64_t d = 0; d < shown; ++d) {
    // Of more devices than are shown, every n-th.
    const std::int64_t device = d * devices / shown;
    for (std::int64_t r = 0; r < rows; ++r) {
      const PositionRange q = slots_of(r, rows, p.queries.shard_tokens());
      std::vector<double> seen;
      for (std::int64_t o = 0; o < shown; ++o) {
        for (std::int64_t c = 0; c < columns; ++c) {
          const PositionRange k = slots_of(c, columns, p.keys.shard_tokens());
          seen.push_back(
              part(count_slots(counts, p, device, q, o * devices / shown, k),
                   q.size() * k.size()));
        }
      }
      cell_row(svg, x, y + band * (static_cast<double>(d) + part(r, rows)),
               band / static_cast<double>(columns),
               band / static_cast<double>(rows), color_of(device, devices),
               seen);
    }
  }
  if (shown <= 32) {
    for (std::int64_t d = 0; d <= shown; ++d) {
      const double at = band * static_cast<double>(d);
      svg.line(x + at, y, x + at, y + kSquare, "grid");
      svg.line(x, y + at, x + kSquare, y + at, "grid");
    }
  }
  svg.add(
      R"(<rect x="{}" y="{}" width="{}" height="{}" fill="none" class="grid"/>)",
      x, y, kSquare, kSquare);
  const bool numbered = p.ring && devices <= 16 && devices > 1;
  if (numbered) {
    for (std::int64_t d = 0; d < devices; ++d) {
      for (std::int64_t o = 0; o < devices; ++o) {
        svg.text(x + band * (static_cast<double>(o) + 1) - 4,
                 y + band * static_cast<double>(d) + 13, "small end",
                 fmt::format("{}", (d - o + devices) % devices));
      }
    }
  }
  std::string caption = "keys by device across, queries by device down";
  if (devices == 1) caption = "one device holds it all";
  if (numbered) caption += "; the number is the shift that joins them";
  if (shown < devices) {
    caption += fmt::format("; {} of {} devices are shown", shown, devices);
  }
  svg.text(x, y + kSquare + 18, "soft small", caption);
}

std::string hop_label(const RingStep& step) {
  return step.hop == 0 ? "home" : fmt::format("{:+d}", step.hop);
}

// Rows are devices, columns are steps; a cell is filled to the share that its
// work has of the largest. Of many steps, every n-th is drawn.
double steps_panel(Svg& svg, const PlanPicture& p, double x, double y,
                   double width) {
  const std::int64_t devices = p.schedule.ring_size;
  const std::int64_t shown = std::min(devices, kMostRows);
  const auto tracks = p.schedule.tracks.size();
  std::size_t longest = 1;
  std::int64_t most = 1;
  for (const RingTrack& track : p.schedule.tracks) {
    longest = std::max(longest, track.steps.size());
    for (const RingStep& step : track.steps) {
      most = std::max(most,
                      *std::max_element(step.pairs.begin(), step.pairs.end()));
    }
  }
  const std::size_t each = (longest * tracks + kMostRows - 1) / kMostRows;
  const std::size_t columns = (longest + each - 1) / each;
  const double row = shown <= 16 ? 22 : shown <= 32 ? 14 : 8;
  const double label = 34;
  const double gap = 18;  // between tracks
  const double room = width - label - gap * static_cast<double>(tracks - 1);
  const double column =
      std::min(84.0, room / static_cast<double>(columns * tracks));
  const double top = y + 40;
  double at = x + label;
  for (std::int64_t d = 0; d < shown && shown <= 32; ++d) {
    svg.text(x + label - 8, top + row * static_cast<double>(d) + row * 0.7,
             "soft small end", fmt::format("{}", d));
  }
  for (const RingTrack& track : p.schedule.tracks) {
    if (tracks > 1) {
      svg.text(at, y + 4, "soft small",
               track.direction > 0 ? "first halves, forward"
                                   : "second halves, backward");
    }
    if (track.steps.empty()) {
      svg.text(at, top + 20, "soft", "nothing is visible: no step");
    }
    for (std::size_t i = 0; i < track.steps.size(); i += each) {
      const RingStep& step = track.steps[i];
      if (column >= 22) {
        svg.text(at + column / 2, y + 20, "small mid",
                 fmt::format("{}", step.shift));
        svg.text(at + column / 2, y + 34, "soft small mid",
                 p.ring ? hop_label(step) : "");
      }
      svg.add(
          R"(<rect x="{:.2f}" y="{:.2f}" width="{:.2f}" height="{:.2f}" class="cell idle" fill-opacity="0.35"/>)",
          at + 1, top + 1, column - 2, row * static_cast<double>(shown) - 2);
      for (std::int64_t d = 0; d < shown; ++d) {
        const std::int64_t device = d * devices / shown;
        const double share =
            part(step.pairs[static_cast<std::size_t>(device)], most);
        if (share == 0) continue;
        svg.rect(at + 1, top + row * static_cast<double>(d) + 1,
                 (column - 2) * share, row - 2, color_of(device, devices), 0.9);
      }
      at += column;
    }
    at += gap;
  }
  if (each > 1) {
    svg.text(x + label, y + 34, "soft small",
             fmt::format("every {}th of {} steps", each, longest));
  }
  return 40 + row * static_cast<double>(shown);
}

double work_panel(Svg& svg, const PlanPicture& p, double x, double y,
                  double width) {
  const std::vector<std::int64_t> pairs = p.schedule.pairs_per_device();
  const auto devices = static_cast<std::int64_t>(pairs.size());
  const std::int64_t shown = std::min(devices, kMostRows);
  const std::int64_t most =
      std::max<std::int64_t>(*std::max_element(pairs.begin(), pairs.end()), 1);
  const double row = shown <= 16 ? 22 : shown <= 32 ? 14 : 8;
  const double label = 34;
  const double value = 70;
  const double bar = width - label - value;
  const double top = y + 40;
  for (std::int64_t d = 0; d < shown; ++d) {
    const std::int64_t device = d * devices / shown;
    const std::int64_t count = pairs[static_cast<std::size_t>(device)];
    const double cy = top + row * static_cast<double>(d);
    svg.rect(x + label, cy + 1, bar * part(count, most), row - 2,
             color_of(device, devices), 0.9);
    if (shown > 32) continue;
    svg.text(x + label - 8, cy + row * 0.7, "soft small end",
             fmt::format("{}", device));
    svg.text(x + width, cy + row * 0.7, "small end",
             short_count(static_cast<double>(count)));
  }
  const double mean = static_cast<double>(p.schedule.total_pairs()) /
                      static_cast<double>(devices);
  const double mean_x = x + label + bar * mean / static_cast<double>(most);
  svg.line(mean_x, top - 6, mean_x, top + row * static_cast<double>(shown),
           "mean");
  svg.text(std::min(mean_x, x + label + bar), top - 10, "small soft end",
           fmt::format("mean {}", short_count(mean)));
  return 40 + row * static_cast<double>(shown);
}

}  // namespace

std::string short_count(double value) {
  constexpr std::array<std::string_view, 7> kUnits = {"",   " k", " M", " G",
                                                      " T", " P", " E"};
  std::size_t unit = 0;
  while (value >= 999.5 && unit + 1 < kUnits.size()) {
    value /= 1000;
    ++unit;
  }
  const int digits = unit == 0 || value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2;
  return fmt::format("{:.{}f}{}", value, digits, kUnits[unit]);
}

std::string plan_svg(const PlanPicture& p) {
  Svg body;
  body.text(kMargin, 46, "h1", p.title);
  body.text(kMargin, 70, "soft", p.subtitle);
  double y = 90;
  const double facts = kWidth - 2 * kMargin;
  const double tile = (facts + 10) / static_cast<double>(std::max<std::size_t>(
                                         p.facts.size(), 1));
  for (std::size_t i = 0; i < p.facts.size(); ++i) {
    const double x = kMargin + tile * static_cast<double>(i);
    body.card(x, y, tile - 10, 58);
    body.text(x + 14, y + 27, "big", p.facts[i].second);
    body.text(x + 14, y + 46, "soft small", p.facts[i].first);
  }
  y += 76;
  const double half = (kWidth - 2 * kMargin - 16) / 2;
  const double inset = (half - kSquare) / 2;
  body.card(kMargin, y, half, kSquare + 84);
  body.text(kMargin + inset, y + 30, "h2", "In the order of the tokens");
  token_panel(body, p, kMargin + inset, y + 44);
  body.card(kMargin + half + 16, y, half, kSquare + 84);
  body.text(kMargin + half + 16 + inset, y + 30, "h2",
            "As the devices hold it");
  device_panel(body, p, kMargin + half + 16 + inset, y + 44);
  y += kSquare + 100;
  // Cards of steps and work are as high as their contents, which come first
  // to know that.
  Svg rows;
  const double wide = (kWidth - 2 * kMargin - 16) * 0.62;
  const double narrow = kWidth - 2 * kMargin - 16 - wide;
  const double heights =
      std::max(steps_panel(rows, p, kMargin + 20, y + 52, wide - 40),
               work_panel(rows, p, kMargin + wide + 36, y + 52, narrow - 40));
  body.card(kMargin, y, wide, heights + 74);
  body.card(kMargin + wide + 16, y, narrow, heights + 74);
  body.text(kMargin + 20, y + 30, "h2",
            p.ring ? "Steps: shift, and how far the keys hop"
                   : "Work by shard of keys");
  body.text(kMargin + wide + 36, y + 30, "h2",
            "Query-key pairs of each device");
  y += heights + 74 + kMargin;
  return fmt::format(
      R"(<svg xmlns="http://www.w3.org/2000/svg" class="plan" viewBox="0 0 {0:.0f} {1:.0f}" width="{0:.0f}" height="{1:.0f}">
<title>{2}</title>
<style>{3}</style>
<rect width="{0:.0f}" height="{1:.0f}" class="bg"/>
{4}{5}</svg>
)",
      kWidth, y, escape_html(p.title), kStyle, body.str(), rows.str());
}

std::string plan_html(const PlanPicture& p) {
  // Of more steps the file would hold a book; the JSON has them all.
  constexpr std::size_t kMostLines = 128;
  std::string table;
  for (const RingTrack& track : p.schedule.tracks) {
    if (!p.ring) break;
    for (std::size_t i = 0; i < track.steps.size() && i < kMostLines; ++i) {
      const RingStep& step = track.steps[i];
      table += fmt::format("<tr><td>{}<td>{}<td>{}<td>{}<td>{}\n", step.shift,
                           hop_label(step), step.source_target_pairs.size(),
                           step.active_devices().size(),
                           with_commas(step.total_pairs()));
    }
  }
  if (!table.empty()) {
    table =
        "<table><tr><th>shift<th>hop<th>transfers<th>devices at "
        "work<th>pairs\n" +
        table + "</table>";
  }
  return fmt::format(
      R"(<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>{}</title>
<style>
:root{{color-scheme:light dark}}
body{{margin:0;background:#f6f7f9;color:#1b2430;font:14px/1.5 system-ui,"Liberation Sans",sans-serif}}
@media(prefers-color-scheme:dark){{body{{background:#12161c;color:#e6eaf0}}}}
main{{max-width:1240px;margin:0 auto}}
svg{{display:block;width:100%;height:auto}}
table{{border-collapse:collapse;margin:0 32px 40px;font-variant-numeric:tabular-nums}}
th,td{{text-align:right;padding:3px 22px 3px 0}}
</style>
<main>
{}{}</main></html>
)",
      escape_html(p.title), plan_svg(p), table);
}

}  // namespace ringmax::analysis
