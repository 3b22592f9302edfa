// The picture of `ringmax plan`: a mask in the order of the tokens and as the
// devices hold it, what happens in every ring step, and the work of each
// device. One SVG, by itself or in a page.
#ifndef RINGMAX_ANALYSIS_PLAN_PICTURE_H_
#define RINGMAX_ANALYSIS_PLAN_PICTURE_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "ringmax/attention/layout.h"
#include "ringmax/attention/mask.h"
#include "ringmax/attention/ring_schedule.h"

namespace ringmax::analysis {

struct PlanPicture {
  std::string title;
  std::string subtitle;
  // Name and value, shown in a row.
  std::vector<std::pair<std::string, std::string>> facts;
  attention::Mask mask = attention::Mask::full();
  attention::Layout queries{attention::LayoutKind::kContiguous, 1, 1};
  attention::Layout keys{attention::LayoutKind::kContiguous, 1, 1};
  attention::RingSchedule schedule;
  // Whether keys travel by the schedule, or are gathered or local.
  bool ring = true;
};

std::string plan_svg(const PlanPicture& picture);
// The SVG in a page, with the steps as a table below.
std::string plan_html(const PlanPicture& picture);

// "3.4 G" for 3.4e9: three digits and a power of 1000.
std::string short_count(double value);

}  // namespace ringmax::analysis

#endif  // RINGMAX_ANALYSIS_PLAN_PICTURE_H_
