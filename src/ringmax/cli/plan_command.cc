// `ringmax plan`: mask, layout, ring steps and work per device of the settings,
// as text, a picture and JSON. Starts nothing and needs no devices.
#include <algorithm>
#include <cstdio>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ringmax/analysis/plan_picture.h"
#include "ringmax/attention/gate.h"
#include "ringmax/base/error.h"
#include "ringmax/base/file.h"
#include "ringmax/base/numerals.h"
#include "ringmax/cli/arguments.h"
#include "ringmax/cli/commands.h"
#include "ringmax/cli/output_path.h"
#include "ringmax/cli/plan.h"
#include "ringmax/config/config.h"
#include "ringmax/model/attention.h"

namespace ringmax::cli {
namespace {

using attention::CostCase;
using attention::LayoutKind;
using attention::Strategy;

constexpr std::int64_t kMostDevices = 1024;
constexpr std::int64_t kMostTokens = std::int64_t{1} << 30;

// The settings of `ringmax attention`, for what a model's settings do not say
// or to say it otherwise. Empty and 0: as the model's settings have it.
struct Words {
  std::string mask, layout;
  Strategy strategy = Strategy::kRing;
  std::int64_t context_parallel = 0, ulysses_size = 0;
  bool bidirectional = false;
  std::int64_t seq = 0, kv_seq = 0, batch = 0;
  std::int64_t heads = 0, kv_heads = 0, value_dim = 0;
  std::int64_t block_q = 0, block_kv = 0;
  std::string topology;
};

OptionSet options_of(Words& w) {
  OptionSet set;
  set.text("mask", &w.mask,
           "full, causal[:OFFSET], local:LEFT,RIGHT, chunked:C, with & and |");
  set.text("layout", &w.layout, "contiguous, zigzag or striped");
  set.choice("strategy", &w.strategy, attention::kStrategies,
             "how keys meet queries; auto: the cheapest");
  set.integer("context_parallel", &w.context_parallel,
              "devices that share the sequence",
              {.min = 1, .max = kMostDevices});
  set.integer("ulysses_size", &w.ulysses_size,
              "of them, devices of a Ulysses group",
              {.min = 1, .max = kMostDevices});
  set.flag("bidirectional", &w.bidirectional,
           "halves of keys and values travel both ways");
  set.integer("seq", &w.seq, "queries", {.min = 1, .max = kMostTokens});
  set.integer("kv_seq", &w.kv_seq, "keys; default: as many as queries",
              {.min = 1, .max = kMostTokens});
  set.integer("batch", &w.batch, "sequences", {.min = 1, .max = kMostTokens});
  set.integer("heads", &w.heads, "query heads", {.min = 1, .max = 1 << 20});
  set.integer("kv_heads", &w.kv_heads, "heads of keys and values",
              {.min = 1, .max = 1 << 20});
  set.integer("value_dim", &w.value_dim, "of values; default: head_dim",
              {.min = 1, .max = 1 << 20});
  set.integer("block_q", &w.block_q, "queries of one block; default: chosen",
              {.min = 1, .max = kMostTokens});
  set.integer("block_kv", &w.block_kv, "keys of one block; default: chosen",
              {.min = 1, .max = kMostTokens});
  set.text("topology", &w.topology,
           "machine to estimate for, say v5p-16; default: this CPU");
  return set;
}

LayoutKind layout_of(const attention::AttentionOptions& options) {
  if (!options.context_parallel_load_balance) return LayoutKind::kContiguous;
  return options.context_parallel_reorder_strategy ==
                 attention::ReorderStrategy::kStriped
             ? LayoutKind::kStriped
             : LayoutKind::kZigzag;
}

PlanSettings read_plan_settings(const std::vector<std::string>& words) {
  Words own;
  const OptionSet set = options_of(own);
  const auto [mine, others] = config::split_words(set, words);
  const config::Applied applied = config::read_settings(set, mine);
  const config::Config config = config::load(others);
  const auto given = [&](const char* name) {
    return applied.sources.contains(name);
  };
  const auto or_else = [](std::int64_t value, std::int64_t otherwise) {
    return value == 0 ? otherwise : value;
  };
  const mesh::Mesh& mesh = config.device_mesh;
  PlanSettings settings;
  CostCase& c = settings.what;
  c.mask = own.mask.empty() ? model::attention_mask(config.model)
                            : attention::parse_mask(own.mask);
  // Words of `ringmax attention` alone have its defaults.
  c.layout = given("layout")             ? attention::parse_layout(own.layout)
             : given("context_parallel") ? LayoutKind::kContiguous
                                         : layout_of(config.attention);
  c.queries = or_else(own.seq, config.data.max_target_length);
  c.keys = or_else(own.kv_seq, c.queries);
  const std::int64_t tensor = mesh.size("tensor");
  c.batch = or_else(
      own.batch,
      std::max<std::int64_t>(
          config.global_batch / (mesh.size("data") * mesh.size("fsdp")), 1));
  c.query_heads = or_else(
      own.heads,
      std::max<std::int64_t>(config.model.base_num_query_heads / tensor, 1));
  c.kv_heads = or_else(
      own.kv_heads,
      given("heads")
          ? c.query_heads
          : std::max<std::int64_t>(config.model.base_num_kv_heads / tensor, 1));
  c.head_dim = config.model.head_dim;
  c.value_dim = or_else(own.value_dim, c.head_dim);
  c.dtype = config.model.dtype;
  c.ulysses = or_else(own.ulysses_size, mesh.size("context_usp_ulysses"));
  c.devices = or_else(own.context_parallel,
                      mesh.size("context") * mesh.size("context_usp_ulysses"));
  c.bidirectional = own.bidirectional;
  c.blocks = {own.block_q, own.block_kv};
  // Without a word about it this command shows the ring.
  settings.strategy =
      attention::strategy_of(config.attention.context_parallel_strategy);
  if (settings.strategy == Strategy::kAuto) {
    settings.strategy = c.ulysses > 1 ? Strategy::kUsp : Strategy::kRing;
  }
  if (given("strategy")) settings.strategy = own.strategy;
  settings.ring_transport = config.attention.ring_transport;
  settings.target = own.topology.empty() ? hw::cpu_target(c.devices)
                                         : hw::tpu_target(own.topology);
  return settings;
}

bool ends_with(const std::string& text, std::string_view end) {
  return text.size() > end.size() &&
         std::string_view(text).substr(text.size() - end.size()) == end;
}

analysis::PlanPicture picture_of(const Plan& plan) {
  const CostCase& c = plan.settings.what;
  const auto bytes = [](std::int64_t n) {
    const std::string count = analysis::short_count(static_cast<double>(n));
    return n < 1000 ? count + " B" : count + "B";
  };
  std::int64_t pairs = 0;
  for (const std::int64_t n : plan.pairs_per_device) pairs += n;
  analysis::PlanPicture picture;
  picture.title = fmt::format(
      "{} over {} tokens", c.mask.to_string(),
      c.queries == c.keys ? with_commas(c.queries)
                          : fmt::format("{} x {}", with_commas(c.queries),
                                        with_commas(c.keys)));
  picture.subtitle = fmt::format(
      "{} layout, {} on {} device{}{}, blocks of {} x {}",
      attention::layout_name(c.layout),
      name_of(attention::kStrategies, plan.settings.strategy), c.devices,
      c.devices == 1 ? "" : "s",
      plan.queries.shards() == c.devices
          ? ""
          : fmt::format(" in groups of {}", c.devices / plan.queries.shards()),
      c.blocks.q, c.blocks.kv);
  picture.facts = {
      {"pairs of all devices",
       analysis::short_count(static_cast<double>(pairs))},
      {"busiest device over the mean",
       fmt::format("{:.3f}", plan.max_over_mean)},
      {"ring steps in which keys leave",
       fmt::format("{}", plan.ring_steps_sent)},
      {"sent by a device, both passes", bytes(plan.estimate().sent_bytes)},
      {"mask metadata of a device", bytes(plan.mask_info_bytes)},
  };
  picture.mask = c.mask;
  picture.queries = plan.queries;
  picture.keys = plan.keys;
  picture.schedule = plan.schedule;
  picture.ring = plan.is_ring();
  return picture;
}

}  // namespace

int run_plan(Args args) {
  Words defaults;
  const Arguments arguments = read_arguments(
      "plan",
      "Shows what a context strategy does: mask, layout, ring steps, work per "
      "device. Takes the settings of `train`, and in their place its own; what "
      "is left out is as the settings of `train` have it.",
      "[FILE.yml ...] key=value ...",
      {{"--out", "picture to write", "FILE.svg|FILE.html", true},
       {"--json", "write the figures there", "FILE"}},
      args, describe_settings(options_of(defaults)));
  if (arguments.helped) return 0;
  const std::string out = *arguments.option("--out");
  const std::optional<std::string> json = arguments.option("--json");
  const bool svg = ends_with(out, ".svg");
  if (!svg && !ends_with(out, ".html")) {
    fail_invalid("--out {} must end in .svg or .html", out);
  }
  check_output_path("--out", out);
  if (json) check_output_path("--json", *json, {out});
  const Plan plan = make_plan(read_plan_settings(arguments.settings));
  const analysis::PlanPicture picture = picture_of(plan);
  atomic_write(
      out, svg ? analysis::plan_svg(picture) : analysis::plan_html(picture));
  if (json) atomic_write(*json, plan_json(plan));
  std::fputs(plan_text(plan).c_str(), stdout);
  return 0;
}

}  // namespace ringmax::cli
