// The report of a run: one HTML page that needs nothing else, with curves from
// metrics.jsonl, the settings worth seeing, and a sample of text.
#ifndef RINGMAX_ANALYSIS_RUN_REPORT_H_
#define RINGMAX_ANALYSIS_RUN_REPORT_H_

#include <string>
#include <utility>
#include <vector>

namespace ringmax::analysis {

inline constexpr char kReportFile[] = "report.html";

struct RunSummary {
  std::string title;     // the run's name
  std::string subtitle;  // model, devices, data: one line
  // Name and value of the settings worth seeing, in order.
  std::vector<std::pair<std::string, std::string>> settings;
  std::string sample_prompt;  // "" when there is no sample
  std::string sample_text;    // what the model made of it, without the prompt
};

// The page for the given lines of metrics.jsonl. Lines that are no JSON
// objects are passed over, null values are gaps.
std::string run_report_html(const std::string& metrics_jsonl,
                            const RunSummary& summary);

// Reads RUN_DIR/metrics.jsonl (none is a page without steps), writes
// RUN_DIR/report.html (atomically) and returns its path.
std::string write_run_report(const std::string& run_dir,
                             const RunSummary& summary);

}  // namespace ringmax::analysis

#endif  // RINGMAX_ANALYSIS_RUN_REPORT_H_
