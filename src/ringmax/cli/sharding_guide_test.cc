// The tables of docs/sharding.md are what the program says.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <numeric>

#include "ringmax/attention/gate.h"
#include "ringmax/attention/layout.h"
#include "ringmax/attention/mask.h"
#include "ringmax/attention/ring_schedule.h"
#include "ringmax/config/feature_rules.h"
#include "ringmax/mesh/axis_rules.h"
#include "ringmax/model/attention.h"

namespace ringmax::cli {
namespace {

using attention::ContextStrategy;
using attention::LayoutKind;

struct Row {
  ContextStrategy strategy = ContextStrategy::kRing;
  LayoutKind layout = LayoutKind::kContiguous;
  std::int64_t ring = 8;
  std::int64_t ulysses = 1;
  std::int64_t window = 0;
};

std::string traffic_row(const Row& row) {
  model::ModelOptions model;
  model.base_num_query_heads = 32;
  model.base_num_kv_heads = 8;
  model.head_dim = 128;
  if (row.window > 0) {
    model.attention_type = model::AttentionType::kLocalSliding;
    model.sliding_window_size = row.window;
  }
  constexpr std::int64_t kLength = 65536;
  const mesh::Mesh mesh = mesh::make_mesh(
      {{"context", row.ring}, {"context_usp_ulysses", row.ulysses}});
  attention::ContextPlan context;
  context.strategy = row.strategy;
  context.layout = row.layout;
  const auto heads = [&](std::int64_t count) {
    return Shape(DType::kBF16, {1, kLength, count, model.head_dim});
  };
  attention::AttendShapes shapes;
  shapes.q = heads(model.base_num_query_heads);
  shapes.k = shapes.v = heads(model.base_num_kv_heads);
  attention::AttentionOptions options;
  options.ring_transport = attention::RingTransport::kCollective;
  const attention::AttendPlan plan = attention::plan_attend(
      shapes,
      model::attend_settings(model, options, context, mesh, hw::cpu_target(8)),
      mesh);
  const auto& pairs = plan.pairs_per_device;
  const double sum = std::accumulate(pairs.begin(), pairs.end(), 0.0);
  const auto most =
      static_cast<double>(*std::max_element(pairs.begin(), pairs.end()));
  return fmt::format(
      "| {}{} | {} | {} | {} | {:.1f} MB | {:.2f} |\n",
      name_of(attention::kContextStrategies, row.strategy),
      row.ulysses > 1 ? fmt::format(" {} x {}", row.ring, row.ulysses) : "",
      attention::layout_name(row.layout),
      row.window > 0 ? fmt::format("window {}", row.window) : "causal",
      plan.ring_steps_sent,
      static_cast<double>(plan.bytes_sent_per_device) / 1e6,
      most * static_cast<double>(pairs.size()) / sum);
}

std::string traffic() {
  std::string text =
      "| strategy | layout | mask | steps | sent by a device | balance |\n"
      "|---|---|---|---|---|---|\n";
  for (const Row& row :
       {Row{}, Row{.layout = LayoutKind::kZigzag},
        Row{.layout = LayoutKind::kStriped},
        Row{.strategy = ContextStrategy::kAllGather,
        .layout = LayoutKind::kZigzag},
        Row{.strategy = ContextStrategy::kUlysses},
        Row{.strategy = ContextStrategy::kUsp,
        .layout = LayoutKind::kZigzag,
        .ring = 4,
        .ulysses = 2},
        Row{.window = 4096}, Row{.layout = LayoutKind::kZigzag, .window = 4096},
        Row{.strategy = ContextStrategy::kAllGather, .window = 4096}}) {
    text += traffic_row(row);
  }
  return text;
}

std::string layouts() {
  std::string text;
  for (const LayoutKind kind :
       {LayoutKind::kContiguous, LayoutKind::kZigzag, LayoutKind::kStriped}) {
    const attention::Layout layout(kind, 16, 4);
    const auto positions = layout.positions();
    std::vector<std::string> shards;
    for (auto at = positions.begin(); at != positions.end(); at += 4) {
      shards.push_back(fmt::format("{:2}", fmt::join(at, at + 4, " ")));
    }
    text += fmt::format("    {:<10}  {}   pairs {}\n",
                        attention::layout_name(kind), fmt::join(shards, " | "),
                        fmt::join(attention::make_ring_schedule(
                                      attention::Mask::causal(), layout, layout)
                                      .pairs_per_device(),
                                  " "));
  }
  return text;
}

std::string rules() {
  using config::Verdict;
  std::string text = "| asked for | answer | |\n|---|---|---|\n";
  for (const config::FeatureRule& rule : config::feature_rules()) {
    text +=
        fmt::format("| {} (`{}`) | {} | {} |\n", rule.feature, rule.setting,
                    rule.verdict == Verdict::kRefused ? "refused" : "computed",
                    rule.answer);
  }
  return text;
}

// Puts `body` between the marks of `name`.
void replace_section(std::string& text, const std::string& name,
                     const std::string& body) {
  const std::string begin =
      fmt::format("<!-- begin {}: made by ShardingGuide.", name);
  const std::size_t mark = text.find(begin);
  ASSERT_NE(mark, std::string::npos) << name;
  const std::size_t from = text.find('\n', mark) + 1;
  const std::size_t to = text.find(fmt::format("<!-- end {} -->", name));
  ASSERT_NE(to, std::string::npos) << name;
  text.replace(from, to - from, body);
}

TEST(ShardingGuide, IsWhatTheProgramSays) {
  const std::string path = RINGMAX_SOURCE_DIR "/docs/sharding.md";
  std::ifstream stream(path, std::ios::binary);
  const std::string held((std::istreambuf_iterator<char>(stream)),
                         std::istreambuf_iterator<char>());
  std::string text = held;
  replace_section(text, "traffic", traffic());
  replace_section(text, "layouts", layouts());
  replace_section(text, "rules", rules());
  if (std::getenv("RINGMAX_UPDATE_GOLDENS") != nullptr) {
    std::ofstream(path, std::ios::binary) << text;
    return;
  }
  EXPECT_EQ(text, held)
      << "to renew docs/sharding.md: RINGMAX_UPDATE_GOLDENS=1 and run this "
         "test again";
}

}  // namespace
}  // namespace ringmax::cli
