#include "ringmax/config/config.h"

#include <fmt/format.h>

#include <utility>

#include "ringmax/base/error.h"
#include "ringmax/config/derive.h"
#include "ringmax/config/feature_rules.h"
#include "ringmax/config/layers.h"

namespace ringmax::config {
namespace {

// A room's own check, unless one of its settings was refused already.
template <typename Options>
void check_room(Options& options, const Applied& applied, Problems& problems) {
  OptionSet own;
  declare_options(own, options);
  for (const Option& option : own.options()) {
    if (applied.refused.count(option.name) > 0) return;
  }
  validate(options, problems);
}

void add_derived(Config& config, std::string name, OptionKind kind,
                 std::string value) {
  config.settings.push_back({std::move(name),
                             "Derived",
                             kind,
                             RawValue::scalar(std::move(value)),
                             {SourceKind::kDerived, "derived"}});
}

// Rows of every setting and of what follows from them.
void fill_settings(Config& config, const OptionSet& set,
                   const Applied& applied) {
  Config built_in;
  const OptionSet defaults = options_of(built_in);
  for (const Option& option : set.options()) {
    Setting setting{option.name, option.section, option.kind, option.get(), {}};
    const auto source = applied.sources.find(option.name);
    if (source != applied.sources.end()) {
      const RawValue built = defaults.find(option.name)->get();
      const bool changed = source->second.kind != SourceKind::kDefault ||
                           !same_value(setting.value, built);
      if (changed) setting.source = source->second;
    }
    config.settings.push_back(std::move(setting));
  }
  const auto number = [&](const char* name, std::int64_t value) {
    add_derived(config, name, OptionKind::kInt, std::to_string(value));
  };
  number("num_devices", config.device_count);
  for (const mesh::MeshAxis& axis : config.device_mesh.axes()) {
    add_derived(config, "mesh_" + axis.name, OptionKind::kInt,
                std::to_string(axis.size));
  }
  number("global_batch_size", config.global_batch);
  number("tokens_per_step", config.tokens_per_step);
  number("schedule_steps", config.train.schedule_steps());
  add_derived(config, "context_strategy", OptionKind::kText,
              std::string(name_of(attention::kContextStrategies,
                                  config.plan.strategy)));
  add_derived(config, "context_layout", OptionKind::kText,
              std::string(attention::layout_name(config.plan.layout)));
  add_derived(config, "run_directory", OptionKind::kPath, config.run_directory);
}

}  // namespace

OptionSet options_of(Config& config) {
  OptionSet set;
  declare_options(set, config.model);
  declare_options(set, config.mesh);
  declare_options(set, config.attention);
  declare_options(set, config.train);
  declare_options(set, config.data);
  declare_options(set, config.runtime);
  return set;
}

Config load(std::span<const std::string> args, const DeviceFacts& facts) {
  return load(args, [&](const pjrt::RuntimeOptions&) { return facts; });
}

Config load(std::span<const std::string> args,
            const FindDevices& find_devices) {
  Config config;
  Problems problems;
  const OptionSet set = options_of(config);
  std::vector<Assignment> layers = collect_layers(args, config.notes, problems);
  const std::set<std::string> ruled_out =
      apply_feature_rules(layers, config.notes, problems);
  Applied applied = apply(set, layers, problems);
  applied.refused.insert(ruled_out.begin(), ruled_out.end());
  judge_unknown(set, applied.unknown, config.notes, problems);
  check_room(config.model, applied, problems);
  check_room(config.train, applied, problems);
  check_room(config.data, applied, problems);
  check_room(config.runtime, applied, problems);
  derive(config, find_devices(config.runtime), applied.refused, problems);
  // What a default comes to needs no word; what was asked for does.
  const auto asked = [&](const std::string& name) {
    const auto found = applied.sources.find(name);
    return found != applied.sources.end() &&
           found->second.kind >= SourceKind::kFile;
  };
  if (asked("packing") && config.data.packing &&
      config.data.dataset_type == data::DatasetType::kSynthetic) {
    config.notes.push_back(
        "packing=true has no effect with dataset_type=synthetic");
  }
  if (asked("enable_checkpointing") && config.train.enable_checkpointing) {
    config.notes.push_back(
        "enable_checkpointing=true: whole checkpoints are not there yet; "
        "parameters are written at the end");
  }
  problems.throw_if_any();
  fill_settings(config, set, applied);
  return config;
}

const Setting& Config::setting(std::string_view name) const {
  for (const Setting& each : settings) {
    if (each.name == name) return each;
  }
  fail_invalid("there is no setting {}", name);
}

}  // namespace ringmax::config
