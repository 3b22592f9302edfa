#include "ringmax/config/derive.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "ringmax/data/options.h"

namespace ringmax::config {
namespace {

using mesh::AxisInfo;
using mesh::kAxes;

constexpr std::int64_t kMostCpuDevices = 4096;

// "data=2 x context=4"; "1" when no axis is larger.
std::string product_text(
    std::initializer_list<std::pair<std::string_view, std::int64_t>> axes) {
  std::vector<std::string> parts;
  for (const auto& [name, size] : axes) {
    if (size > 1) parts.push_back(fmt::format("{}={}", name, size));
  }
  return parts.empty() ? "1" : fmt::format("{}", fmt::join(parts, " x "));
}

class Derivation {
 public:
  Derivation(Config& config, const DeviceFacts& facts,
             const std::set<std::string>& refused, Problems& problems)
      : config_(config),
        facts_(facts),
        refused_(refused),
        problems_(problems) {}

  void run() {
    config_.platform = platform();
    const std::size_t before = problems_.messages().size();
    check_axes();
    if (problems_.messages().size() == before && good(axis_settings())) {
      fill_mesh();
    }
    if (has_mesh_) {
      const std::size_t sizes = problems_.messages().size();
      batch();
      heads();
      widths();
      Problems of_model;  // said already
      validate(config_.model, of_model);
      context(problems_.messages().size() == sizes && of_model.empty());
    }
    vocabulary();
    config_.run_directory =
        train::run_directory(config_.train, config_.model.model_name);
  }

 private:
  bool good(const std::vector<std::string>& names) const {
    return std::none_of(
        names.begin(), names.end(),
        [&](const std::string& name) { return refused_.count(name) > 0; });
  }

  static std::vector<std::string> axis_settings() {
    std::vector<std::string> names = {"cpu_device_count", "hardware"};
    for (const AxisInfo& axis : kAxes) {
      names.push_back(mesh::ici_setting(axis));
      names.push_back(mesh::dcn_setting(axis));
    }
    return names;
  }

  // Each axis setting by itself, and at most one -1.
  void check_axes() {
    std::vector<std::string> left_over;
    for (std::size_t i = 0; i < kAxes.size(); ++i) {
      const std::int64_t ici = config_.mesh.ici[i];
      const std::int64_t dcn = config_.mesh.dcn[i];
      if (!kAxes[i].in_use && ici != 1) {
        problems_.add("{}={}: the {} axis is not there yet; valid is 1",
                      mesh::ici_setting(kAxes[i]), ici, kAxes[i].axis);
      } else if (ici == 0) {
        problems_.add(
            "{}=0: valid is a whole number >= 1, or -1 for what is left over",
            mesh::ici_setting(kAxes[i]));
      } else if (ici == -1) {
        left_over.push_back(mesh::ici_setting(kAxes[i]));
      }
      // There is one slice, so -1 is 1 whichever axis asks for it.
      if (dcn != 1 && dcn != -1) {
        problems_.add("{}={}: several slices are not there yet; valid is 1",
                      mesh::dcn_setting(kAxes[i]), dcn);
      }
    }
    if (left_over.size() > 1) {
      problems_.add(
          "{} are all -1; one axis can take what is left over, set the others",
          fmt::join(left_over, ", "));
    }
  }

  // What the settings name counts where nobody asked the machine.
  std::string platform() const {
    using pjrt::Hardware;
    const Hardware hardware = config_.runtime.hardware;
    if (facts_.platform != "cpu" || hardware == Hardware::kAuto) {
      return facts_.platform;
    }
    return std::string(name_of(pjrt::kHardwareNames, hardware));
  }
  bool on_cpu() const { return config_.platform == "cpu"; }

  void fill_mesh() {
    std::int64_t fixed = 1;
    std::vector<std::string> parts;
    std::optional<std::size_t> left_over;
    for (std::size_t i = 0; i < kAxes.size(); ++i) {
      const std::int64_t size = config_.mesh.ici[i];
      if (size == -1) {
        left_over = i;
      } else if (__builtin_mul_overflow(fixed, size, &fixed)) {
        problems_.add("the mesh axes multiply to more than 2^63 devices");
        return;
      } else if (size > 1) {
        parts.push_back(
            fmt::format("{}={}", mesh::ici_setting(kAxes[i]), size));
      }
    }
    const std::string asked =
        parts.empty() ? "all 1" : fmt::format("{}", fmt::join(parts, ", "));

    std::int64_t devices = facts_.device_count;
    std::string whence =
        fmt::format("there are {} {} devices", devices, facts_.platform);
    if (on_cpu()) {
      devices = config_.runtime.cpu_device_count;
      whence = fmt::format("cpu_device_count={}", devices);
    } else if (config_.runtime.cpu_device_count != 0) {
      problems_.add(
          "cpu_device_count={}: it counts devices of the CPU plugin and this "
          "run is for {}; valid is 0",
          config_.runtime.cpu_device_count, config_.platform);
      return;
    }
    if (devices == 0) devices = fixed;
    if (left_over ? devices % fixed != 0 : devices != fixed) {
      problems_.add(
          "the mesh axes ({}) multiply to {} and {}; {}", asked, fixed, whence,
          left_over ? fmt::format("the product must divide the devices, {} "
                                  "takes what is left over",
                                  mesh::ici_setting(kAxes[*left_over]))
                    : std::string("they must agree, or one axis may be -1"));
      return;
    }
    if (on_cpu() && devices > kMostCpuDevices) {
      problems_.add(
          "the mesh axes ({}) ask for {} virtual CPU devices; valid is at "
          "most {}",
          asked, devices, kMostCpuDevices);
      return;
    }
    std::vector<mesh::MeshAxis> axes;
    for (std::size_t i = 0; i < kAxes.size(); ++i) {
      const std::int64_t size =
          left_over == i ? devices / fixed : config_.mesh.ici[i];
      axes.push_back({std::string(kAxes[i].axis), size});
    }
    config_.device_mesh = mesh::Mesh(std::move(axes));
    config_.device_count = devices;
    has_mesh_ = true;
  }

  std::int64_t axis(std::string_view name) const {
    return config_.device_mesh.size(name);
  }

  // The global batch is a whole number of sequences that its shards divide.
  void batch() {
    if (!good({"per_device_batch_size", "max_target_length"})) return;
    const double per_device = config_.data.per_device_batch_size;
    const double devices = static_cast<double>(config_.device_count);
    const double global = per_device * devices;
    const std::int64_t shards = axis("data") * axis("fsdp");
    const double nearest = std::round(global);
    // 0.1 x 10 devices is 1 sequence although 0.1 is no binary fraction.
    const bool whole = std::abs(global - nearest) <= 1e-9 * nearest;
    const auto sequences = static_cast<std::int64_t>(nearest);
    if (!whole || sequences < 1 || sequences % shards != 0) {
      const std::int64_t below =
          static_cast<std::int64_t>(std::floor(global)) / shards * shards;
      std::vector<std::string> valid;
      for (const std::int64_t each : {below, below + shards}) {
        if (each < 1) continue;
        valid.push_back(fmt::format("{} ({} sequence{})",
                                    static_cast<double>(each) / devices, each,
                                    each == 1 ? "" : "s"));
      }
      problems_.add(
          "per_device_batch_size={}: times {} device{} it is a global batch of "
          "{} sequences, which must be a whole number that the batch shards "
          "({}) divide; nearest valid: {}",
          per_device, config_.device_count,
          config_.device_count == 1 ? "" : "s", global,
          product_text({{"data", axis("data")}, {"fsdp", axis("fsdp")}}),
          fmt::join(valid, " and "));
      return;
    }
    config_.global_batch = sequences;
    if (__builtin_mul_overflow(sequences, config_.data.max_target_length,
                               &config_.tokens_per_step)) {
      problems_.add(
          "per_device_batch_size={}, max_target_length={}: a step of more than "
          "2^63 tokens",
          per_device, config_.data.max_target_length);
    }
  }

  void divides(
      std::string_view setting, std::int64_t value,
      std::initializer_list<std::pair<std::string_view, std::int64_t>> axes) {
    if (!good({std::string(setting)})) return;
    std::int64_t shards = 1;
    for (const auto& [name, size] : axes) shards *= size;
    if (value % shards == 0) return;
    const std::int64_t below = value / shards * shards;
    problems_.add("{}={}: {} shards ({}) must divide it; valid is {}{} ...",
                  setting, value, shards, product_text(axes),
                  below > 0 ? fmt::format("{}, ", below) : "", below + shards);
  }

  void heads() {
    const std::int64_t shards = axis("tensor");
    const model::ModelOptions& model = config_.model;
    for (const auto& [name, value] :
         {std::pair("base_num_query_heads", model.base_num_query_heads),
          std::pair("base_num_kv_heads", model.base_num_kv_heads)}) {
      if (!good({name}) || value % shards == 0) continue;
      problems_.add(
          "{}={}: ici_tensor_parallelism={} must divide it; choose a tensor "
          "axis that divides the heads",
          name, value, shards);
    }
  }

  // Parameters shard their embedding dimension over fsdp and, where it divides,
  // the context axes; the feed-forward and vocabulary dimensions over tensor.
  void widths() {
    const model::ModelOptions& model = config_.model;
    divides("base_emb_dim", model.base_emb_dim, {{"fsdp", axis("fsdp")}});
    for (const char* name : {"context", "context_usp_ulysses"}) {
      const std::int64_t shards = axis("fsdp") * axis(name);
      if (!good({"base_emb_dim"}) || model.base_emb_dim % shards == 0) continue;
      config_.notes.push_back(fmt::format(
          "base_emb_dim={}: {} ({}) does not divide it, so parameters and "
          "optimizer state are whole along {}, which takes more memory",
          model.base_emb_dim, shards,
          product_text({{"fsdp", axis("fsdp")}, {name, axis(name)}}), name));
    }
    divides("base_mlp_dim", model.base_mlp_dim, {{"tensor", axis("tensor")}});
    divides("vocab_size", model.vocab_size, {{"tensor", axis("tensor")}});
  }

  // How the sequence is spread. Looks at most settings of model and attention:
  // with one of them refused there is no telling.
  void context(bool sizes_fit) {
    OptionSet looked_at;
    declare_options(looked_at, config_.model);
    declare_options(looked_at, config_.attention);
    std::vector<std::string> names = {"max_target_length"};
    for (const Option& option : looked_at.options()) {
      names.push_back(option.name);
    }
    if (!good(names)) return;
    config_.plan = model::plan_context(
        config_.model, config_.attention, config_.device_mesh,
        {sizes_fit ? config_.global_batch : 0, config_.data.max_target_length,
         config_.data.has_segments()},
        config_.runtime.compile_topology, problems_);
    for (const std::string& note : config_.plan.notes) {
      config_.notes.push_back(note);
    }
  }

  // A model of bytes needs an id for each byte and the marks between documents.
  void vocabulary() {
    if (config_.data.dataset_type != data::DatasetType::kText) return;
    const std::int64_t size = config_.model.vocab_size;
    if (!good({"vocab_size"}) || size >= data::kByteVocabSize) return;
    problems_.add(
        "vocab_size={}: dataset_type=text with tokenizer_type=bytes has {} "
        "tokens; valid is {} or more",
        size, data::kByteVocabSize, data::kByteVocabSize);
  }

  Config& config_;
  const DeviceFacts& facts_;
  const std::set<std::string>& refused_;
  Problems& problems_;
  bool has_mesh_ = false;
};

}  // namespace

void derive(Config& config, const DeviceFacts& facts,
            const std::set<std::string>& refused, Problems& problems) {
  Derivation(config, facts, refused, problems).run();
}

}  // namespace ringmax::config
