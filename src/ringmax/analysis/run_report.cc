#include "ringmax/analysis/run_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "ringmax/analysis/html.h"
#include "ringmax/analysis/line_chart.h"
#include "ringmax/base/file.h"
#include "ringmax/base/numerals.h"

namespace ringmax::analysis {
namespace {

constexpr std::string_view kStyle = R"css(
:root{color-scheme:light dark;--bg:#f6f7f9;--card:#fff;--ink:#1b2430;
--soft:#5d6b7c;--line:#e3e7ec;--c1:#2563c9;--c2:#0d8a72;--c3:#b4540a;
--c4:#7a46c2}
@media(prefers-color-scheme:dark){:root{--bg:#12161c;--card:#1a2029;
--ink:#e6eaf0;--soft:#93a1b3;--line:#2b3440;--c1:#6ea8fe;--c2:#46c9ab;
--c3:#f0a35e;--c4:#b794f4}}
*{box-sizing:border-box}
body{margin:0;background:var(--bg);color:var(--ink);
font:15px/1.5 system-ui,"Liberation Sans",sans-serif}
main{max-width:1080px;margin:0 auto;padding:32px 20px 48px}
h1{font-size:26px;margin:0;overflow-wrap:anywhere}
h2{font-size:15px;margin:0;font-weight:600}
.sub{color:var(--soft);margin:2px 0 22px}
.tiles{display:grid;gap:12px;margin-bottom:16px;
grid-template-columns:repeat(auto-fit,minmax(150px,1fr))}
.tile,.card{background:var(--card);border:1px solid var(--line);
border-radius:10px;padding:14px 16px}
.tile b{display:block;font-size:22px;font-weight:600;
font-variant-numeric:tabular-nums;line-height:1.3}
.tile span,.note{color:var(--soft);font-size:13px}
.grid2{display:grid;gap:16px;
grid-template-columns:repeat(auto-fit,minmax(min(100%,440px),1fr))}
.card{margin:0;min-width:0;position:relative}
.wide{grid-column:1/-1}
.head{display:flex;flex-wrap:wrap;gap:2px 10px;align-items:baseline;
margin-bottom:6px}
.head .note{margin-right:auto}
.head label{font-size:13px;color:var(--soft);cursor:pointer}
.head label:has(:checked){color:var(--ink)}
.head input{margin:0 4px 0 0;vertical-align:-1px}
.chart{display:block;width:100%;height:auto;overflow:visible}
.log-chart,.card:has(.log:checked) .linear-chart{display:none}
.card:has(.log:checked) .log-chart{display:block}
.grid{stroke:var(--line)}
.axis{stroke:var(--soft)}
.tick{fill:var(--soft);font-size:12px;font-variant-numeric:tabular-nums}
@media(max-width:600px){.wide .tick{font-size:21px}}
.line{fill:none;stroke-width:2;stroke-linejoin:round}
.raw{stroke-width:1.2;opacity:.38}
.c1{stroke:var(--c1)}.c2{stroke:var(--c2)}.c3{stroke:var(--c3)}
.c4{stroke:var(--c4)}
.dot{fill:var(--card);stroke-width:2}
.tip{position:absolute;pointer-events:none;background:var(--ink);
color:var(--bg);font-size:12px;padding:3px 7px;border-radius:5px;
white-space:nowrap;transform:translate(-50%,-140%);
font-variant-numeric:tabular-nums}
table{width:100%;border-collapse:collapse;margin-top:6px}
td{padding:5px 0;border-top:1px solid var(--line);vertical-align:top;
overflow-wrap:anywhere}
td:first-child{color:var(--soft);padding-right:16px;width:46%}
pre{margin:8px 0 0;white-space:pre-wrap;overflow-wrap:anywhere;
font:13px/1.55 ui-monospace,"Liberation Mono",monospace}
pre mark{background:none;color:var(--c1)}
)css";

// Shows step and value of the nearest point under the pointer.
constexpr std::string_view kScript = R"js(
for(const svg of document.querySelectorAll('svg[data-points]')){
const points=svg.dataset.points.split(';').map(p=>p.split(','));
const card=svg.closest('.card'),tip=document.createElement('div');
const dot=document.createElementNS('http://www.w3.org/2000/svg','circle');
tip.className='tip';tip.hidden=true;card.append(tip);
dot.setAttribute('class','dot '+svg.querySelector('.line').classList[1]);
dot.setAttribute('r',4);dot.style.display='none';svg.append(dot);
svg.addEventListener('pointermove',e=>{
const box=svg.getBoundingClientRect(),at=card.getBoundingClientRect();
const scale=box.width/svg.viewBox.baseVal.width;
const x=(e.clientX-box.left)/scale;
let best=points[0];
for(const p of points)if(Math.abs(p[0]-x)<Math.abs(best[0]-x))best=p;
dot.setAttribute('cx',best[0]);dot.setAttribute('cy',best[1]);
dot.style.display='';tip.hidden=false;
tip.textContent='step '+best[2]+': '+best[3];
tip.style.left=box.left-at.left+best[0]*scale+'px';
tip.style.top=box.top-at.top+best[1]*scale+'px';});
svg.addEventListener('pointerleave',()=>{
dot.style.display='none';tip.hidden=true;});}
)js";

struct Record {
  double step, loss, grad_norm, learning_rate, step_time_s, tokens_per_s;
  double total_weights;
};

std::vector<Record> parse_records(std::string_view text) {
  std::vector<Record> records;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    const auto json = nlohmann::json::parse(line, nullptr, false);
    if (!json.is_object()) continue;
    const auto number = [&json](const char* key) {
      const auto it = json.find(key);
      return it != json.end() && it->is_number()
                 ? it->get<double>()
                 : std::numeric_limits<double>::quiet_NaN();
    };
    const Record record = {number("step"),         number("loss"),
                           number("grad_norm"),    number("learning_rate"),
                           number("step_time_s"),  number("tokens_per_s"),
                           number("total_weights")};
    if (std::isfinite(record.step)) records.push_back(record);
  }
  return records;
}

std::vector<Point> series(const std::vector<Record>& records,
                          double Record::*value) {
  std::vector<Point> points;
  for (const Record& record : records) {
    points.push_back({record.step, record.*value});
  }
  return points;
}

double median(std::vector<double> values) {
  std::erase_if(values, [](double v) { return !std::isfinite(v); });
  if (values.empty()) return std::numeric_limits<double>::quiet_NaN();
  const auto middle = values.begin() + std::ssize(values) / 2;
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

std::string number_or_dash(double value, const char* format) {
  return std::isfinite(value) ? fmt::format(fmt::runtime(format), value)
                              : "&ndash;";
}

std::string duration(double seconds) {
  if (seconds < 60) return fmt::format("{:.1f} s", seconds);
  const auto whole = static_cast<long long>(std::llround(seconds));
  if (whole < 3600) return fmt::format("{} min {} s", whole / 60, whole % 60);
  return fmt::format("{} h {} min", whole / 3600, whole % 3600 / 60);
}

std::string tile(std::string_view value, std::string_view name) {
  return fmt::format(R"(<div class="tile"><b>{}</b><span>{}</span></div>)",
                     value, name);
}

std::string tiles(const std::vector<Record>& records) {
  double seconds = 0, pairs = 0;
  std::vector<double> speeds;
  for (const Record& record : records) {
    if (std::isfinite(record.step_time_s)) seconds += record.step_time_s;
    if (std::isfinite(record.total_weights)) pairs += record.total_weights;
    speeds.push_back(record.tokens_per_s);
  }
  const Record& last = records.back();
  const double speed = median(std::move(speeds));
  return R"(<div class="tiles">)" +
         tile(number_or_dash(last.loss, "{:.4f}"), "final loss (nats)") +
         tile(number_or_dash(records.front().loss, "{:.4f}"), "first loss") +
         tile(with_commas(last.step), "steps") +
         tile(tick_label(std::round(pairs)), "tokens trained on") +
         tile(std::isfinite(speed) ? with_commas(speed) : "&ndash;",
              "tokens/s, median") +
         tile(duration(seconds), "in steps") + "</div>";
}

std::string card(std::string_view title, std::string_view note,
                 std::string_view body, bool wide = false) {
  return fmt::format(R"(<section class="card{}"><div class="head"><h2>{}</h2>)"
                     R"(<span class="note">{}</span></div>{}</section>)",
                     wide ? " wide" : "", title, note, body);
}

std::string loss_card(const std::vector<Record>& records) {
  const std::vector<Point> points = series(records, &Record::loss);
  ChartStyle style{.title = "Loss by step", .smooth = true, .width = 900};
  const std::string linear = line_chart_svg(points, style);
  style.log_y = true;
  const std::string log = line_chart_svg(points, style);
  return fmt::format(
      R"(<section class="card wide"><div class="head"><h2>Loss</h2>)"
      R"(<span class="note">nats a token; the thick line is a running mean</span>)"
      R"(<label><input type="radio" name="scale" checked>linear</label>)"
      R"(<label><input type="radio" name="scale" class="log">log</label></div>)"
      R"(<div class="linear-chart">{}</div><div class="log-chart">{}</div>)"
      R"(</section>)",
      linear, log);
}

std::string charts(const std::vector<Record>& records) {
  return loss_card(records) +
         card("Throughput", "tokens a second, all devices",
              line_chart_svg(series(records, &Record::tokens_per_s),
                             {.title = "Tokens a second by step",
                              .from_zero = true,
                              .color = "c2"})) +
         card("Step time", "seconds",
              line_chart_svg(series(records, &Record::step_time_s),
                             {.title = "Seconds a step",
                              .from_zero = true,
                              .color = "c2"})) +
         card("Gradient norm", "before clipping, and its running mean",
              line_chart_svg(series(records, &Record::grad_norm),
                             {.title = "Gradient norm by step",
                              .from_zero = true,
                              .smooth = true,
                              .color = "c3"})) +
         card("Learning rate", "",
              line_chart_svg(series(records, &Record::learning_rate),
                             {.title = "Learning rate by step",
                              .from_zero = true,
                              .color = "c4"}));
}

std::string settings_card(const RunSummary& summary) {
  if (summary.settings.empty()) return "";
  std::string rows;
  for (const auto& [name, value] : summary.settings) {
    rows += fmt::format("<tr><td>{}</td><td>{}</td></tr>", escape_html(name),
                        escape_html(value));
  }
  return card("Settings", "", "<table>" + rows + "</table>");
}

std::string sample_card(const RunSummary& summary) {
  if (summary.sample_text.empty()) return "";
  return card("Sample", "the prompt is coloured",
              fmt::format("<pre><mark>{}</mark>{}</pre>",
                          escape_html(summary.sample_prompt),
                          escape_html(summary.sample_text)));
}

}  // namespace

std::string run_report_html(const std::string& metrics_jsonl,
                            const RunSummary& summary) {
  const std::vector<Record> records = parse_records(metrics_jsonl);
  const std::string curves =
      records.empty() ? card("No steps", "",
                             "<p class=\"note\">The run has not completed a "
                             "step.</p>",
                             true)
                      : charts(records);
  return fmt::format(
      "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\">"
      "<meta name=\"viewport\" content=\"width=device-width\">"
      "<title>{0}</title><style>{2}</style></head><body><main><h1>{0}</h1>"
      "<p class=\"sub\">{1}</p>{3}<div class=\"grid2\">{4}{5}{6}</div></main>"
      "<script>{7}</script></body></html>\n",
      escape_html(summary.title), escape_html(summary.subtitle), kStyle,
      records.empty() ? "" : tiles(records), curves, settings_card(summary),
      sample_card(summary), kScript);
}

std::string write_run_report(const std::string& run_dir,
                             const RunSummary& summary) {
  std::string path = join_path(run_dir, kReportFile);
  const std::string metrics = join_path(run_dir, "metrics.jsonl");
  // Someone may have cleaned up during the run.
  const std::string steps = path_exists(metrics) ? read_file(metrics) : "";
  atomic_write(path, run_report_html(steps, summary));
  return path;
}

}  // namespace ringmax::analysis
