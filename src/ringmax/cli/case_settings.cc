#include "ringmax/cli/case_settings.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "ringmax/attention/backend.h"
#include "ringmax/base/problems.h"
#include "ringmax/base/suggest.h"
#include "ringmax/cli/arguments.h"
#include "ringmax/config/settings.h"

namespace ringmax::cli {
namespace {

constexpr std::int64_t kMostDevices = 1024;  // virtual ones, threads each

void check_kernel(const std::string& kernel, Problems& problems) {
  std::vector<std::string> valid = {"auto", "reference"};
  for (const attention::Backend* backend : attention::backends()) {
    valid.emplace_back(backend->name());
  }
  if (std::find(valid.begin(), valid.end(), kernel) != valid.end()) return;
  const std::string meant = closest_name(kernel, valid);
  problems.add("kernel={}: must be one of {}{}", kernel, fmt::join(valid, ", "),
               meant.empty() ? "" : "; did you mean " + meant + "?");
}

// As written; what has no place in CaseSettings beside it.
struct Written {
  CaseWords read;
  std::string layout = "contiguous";
  double scale = 0;
  DType dtype = DType::kF32;
};

void declare(OptionSet& set, Written& words) {
  set.text("mask", &words.read.mask,
           "full, causal[:OFFSET], local:LEFT,RIGHT, chunked:C or dense, "
           "combined by & and |");
  set.number("scale", &words.scale, "factor of the logits; default 1/sqrt(D)");
  set.number("logit_soft_cap", &words.read.settings.soft_cap,
             "logits become cap * tanh(logit / cap); 0: as they are",
             {.min = 0});
  set.dtype("dtype", &words.dtype, {DType::kF32, DType::kBF16},
            "what is computed in; default the dtype of q");
  set.integer("context_parallel", &words.read.settings.context_parallel,
              "devices that share the sequence",
              {.min = 1, .max = kMostDevices});
  set.choice("strategy", &words.read.settings.strategy, attention::kStrategies,
             "how keys and values meet all queries; default ring, or usp with "
             "ulysses_size; auto: the cheapest");
  set.integer("ulysses_size", &words.read.settings.ulysses_size,
              "devices of context_parallel that share out heads, for usp",
              {.min = 1, .max = kMostDevices});
  set.text("layout", &words.layout,
           "where tokens live: contiguous, zigzag or striped");
  set.flag("bidirectional", &words.read.settings.bidirectional,
           "halves of the keys go round the ring both ways");
  set.integer("ring_scan_unroll", &words.read.settings.ring_scan_unroll,
              "ring steps in one pass of a loop; 0: no loop", {.min = 0});
  set.choice("ring_transport", &words.read.settings.ring_transport,
             attention::kRingTransports,
             "how keys go round: collective sends them; memory: devices of one "
             "process read them where they lie; auto: memory if possible");
  set.text("kernel", &words.read.settings.kernel, "what computes");
  set.integer("block_q", &words.read.settings.block_q,
              "queries of one block; default: chosen", {.min = 1});
  set.integer("block_kv", &words.read.settings.block_kv,
              "keys of one block; default: chosen", {.min = 1});
  set.path("pjrt_plugin", &words.read.settings.pjrt_plugin,
           "another PJRT plugin");
}

}  // namespace

CaseWords read_case_settings(const std::vector<std::string>& words,
                             const std::function<void(OptionSet&)>& more) {
  Written written;
  CaseWords& read = written.read;
  CaseSettings& settings = read.settings;
  OptionSet set;
  declare(set, written);
  if (more) more(set);
  const config::Applied applied = config::read_settings(set, words);
  Problems problems;
  check_kernel(settings.kernel, problems);
  if (applied.sources.contains("scale")) {
    settings.scale = written.scale;
    if (written.scale == 0) {
      problems.add("scale=0 makes all logits equal; any other number is valid");
    }
  }
  if (applied.sources.contains("dtype")) settings.dtype = written.dtype;
  if (!applied.sources.contains("strategy") && settings.context_parallel > 1 &&
      settings.kernel != "reference") {
    settings.strategy = settings.ulysses_size > 1 ? attention::Strategy::kUsp
                                                  : attention::Strategy::kRing;
  }
  problems.throw_if_any();
  settings.layout = attention::parse_layout(written.layout);
  return read;
}

std::string describe_case_settings(
    const std::function<void(OptionSet&)>& more) {
  Written defaults;
  OptionSet set;
  declare(set, defaults);
  if (more) more(set);
  return describe_settings(set);
}

}  // namespace ringmax::cli
