#include "ringmax/analysis/run_report.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "ringmax/analysis/html.h"
#include "ringmax/analysis/line_chart.h"
#include "ringmax/base/file.h"
#include "ringmax/base/testing/temp_dir.h"

namespace ringmax::analysis {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

std::string metrics(int steps) {
  std::string text;
  for (int step = 1; step <= steps; ++step) {
    const double t = step / 100.0;
    text += fmt::format(
        R"({{"step":{},"loss":{},"grad_norm":{},"learning_rate":{},)"
        R"("step_time_s":{},"tokens_per_s":{},"total_weights":4095.0}})"
        "\n",
        step, 1.6 + 3.9 * std::exp(-t) + 0.08 * std::sin(step * 12.9898),
        0.6 + 2 * std::exp(-2 * t) + 0.1 * std::sin(step * 78.233),
        step < 30 ? 1e-3 * step / 30
                  : 5e-4 * (1 + std::cos((step - 30.0) / steps * 3)),
        step == 1 ? 1.4 : 0.231 + 0.01 * std::sin(step * 3.1),
        step == 1 ? 2900 : 17716 + 600 * std::sin(step * 3.1));
  }
  return text;
}

RunSummary summary() {
  return {.title = "demo <tiny>",
          .subtitle = "tiny, 8 devices",
          .settings = {{"context_parallel_strategy", "ring"}, {"a&b", "<x>"}},
          .sample_prompt = "The license",
          .sample_text = " shall \"be\" <given>"};
}

TEST(RunReport, PageIsOneFileAndEscaped) {
  const TempDir dir;
  dir.write("metrics.jsonl", metrics(300));
  const std::string path = write_run_report(dir.path(), summary());
  EXPECT_EQ(path, dir.path() + "/report.html");
  const std::string page = read_file(path);
  EXPECT_THAT(page, HasSubstr("demo &lt;tiny&gt;"));
  EXPECT_THAT(page, HasSubstr("a&amp;b"));
  EXPECT_THAT(page, HasSubstr("&lt;given&gt;"));
  EXPECT_THAT(page, Not(HasSubstr("<given>")));
  EXPECT_THAT(page, Not(HasSubstr("src=")));
  EXPECT_THAT(page, Not(HasSubstr("href=")));
  EXPECT_THAT(page, Not(HasSubstr("url(")));
  EXPECT_THAT(page, Not(HasSubstr("nan")));
  EXPECT_THAT(page, HasSubstr("<b>300</b><span>steps</span>"));
}

TEST(RunReport, LongRunsStaySmall) {
  EXPECT_LT(run_report_html(metrics(20000), summary()).size(), 400'000u);
}

TEST(RunReport, BrokenMetricsStillGiveAPage) {
  EXPECT_THAT(run_report_html("", summary()), HasSubstr("No steps"));
  EXPECT_THAT(run_report_html("garbage\n[1]\n{\"step\":null}\n", summary()),
              HasSubstr("No steps"));
  const std::string page = run_report_html(
      "{\"step\":1,\"loss\":null}\n{\"step\":2,\"loss\":-1}\n{\"st", {});
  EXPECT_THAT(page, HasSubstr("no values"));
  EXPECT_THAT(page, Not(HasSubstr("nan")));
  EXPECT_THAT(page, Not(HasSubstr("inf")));
}

TEST(RunReport, MetricsThatSomebodyTookAwayStillGiveAPage) {
  const TempDir dir;
  const std::string path = write_run_report(dir.path(), {});
  EXPECT_THAT(read_file(path), HasSubstr("No steps"));
}

TEST(LineChart, ConstantSingleAndExtremeSeries) {
  const std::vector<std::vector<Point>> all = {{{1, 5}},
                                               {{1, 0}, {2, 0}},
                                               {{1, 1e-300}, {2, 1e300}},
                                               {{1, NAN}, {2, INFINITY}},
                                               {{1, -3}, {2, 4}}};
  for (const std::vector<Point>& points : all) {
    for (const bool log_y : {false, true}) {
      const std::string svg =
          line_chart_svg(points, {.title = "t", .log_y = log_y});
      EXPECT_THAT(svg, Not(HasSubstr("nan")));
      EXPECT_THAT(svg, Not(HasSubstr("inf")));
      EXPECT_TRUE(svg.ends_with("</svg>"));
    }
  }
}

TEST(LineChart, ThinningKeepsTheExtremes) {
  std::vector<Point> points;
  for (int i = 0; i < 10000; ++i) points.push_back({i * 1.0, 1});
  points[4321].y = 77;
  EXPECT_THAT(line_chart_svg(points, {}), HasSubstr(",4321,77"));
}

TEST(LineChart, Ticks) {
  EXPECT_THAT(linear_ticks(0, 10, 5), ElementsAre(0, 2, 4, 6, 8, 10));
  EXPECT_THAT(linear_ticks(-1, 1, 4), ElementsAre(-1, -0.5, 0, 0.5, 1));
  EXPECT_TRUE(linear_ticks(1, 1, 4).empty());
  EXPECT_THAT(log_ticks(0.9, 6), ElementsAre(1, 2, 5));
  EXPECT_EQ(log_ticks(1e-4, 1e3).size(), 8u);
  EXPECT_GE(log_ticks(2.1, 2.9).size(), 3u);
  EXPECT_EQ(tick_label(1500), "1,500");
  EXPECT_EQ(tick_label(15000), "15k");
  EXPECT_EQ(tick_label(2.5e6), "2.5M");
  EXPECT_EQ(tick_label(0.25), "0.25");
  EXPECT_EQ(tick_label(3e-5), "3e-05");
}

TEST(Html, EscapesAndCleans) {
  EXPECT_EQ(escape_html("<a href=\"x\">'&\x01\n"),
            "&lt;a href=&quot;x&quot;&gt;&#39;&amp;\n");
  EXPECT_EQ(escape_html("\xFF"), "\xEF\xBF\xBD");
}

}  // namespace
}  // namespace ringmax::analysis
