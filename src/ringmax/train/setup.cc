#include "ringmax/train/setup.h"

#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <span>
#include <sstream>
#include <utility>

#include "ringmax/analysis/collective_order.h"
#include "ringmax/analysis/hlo.h"
#include "ringmax/base/error.h"
#include "ringmax/base/log.h"
#include "ringmax/base/reminder.h"
#include "ringmax/data/open_dataset.h"
#include "ringmax/data/reorder.h"
#include "ringmax/graph/print.h"
#include "ringmax/hw/host.h"
#include "ringmax/model/cost.h"
#include "ringmax/pjrt/executable_cache.h"
#include "ringmax/train/compile_options.h"
#include "ringmax/train/device_assignment.h"
#include "ringmax/train/devices.h"
#include "ringmax/train/native_kernels.h"
#include "ringmax/train/schedule.h"

namespace ringmax::train {
namespace {

double gigabytes(std::int64_t bytes) {
  return static_cast<double>(bytes) / 1e9;
}

DeviceAssignment assign_devices(const pjrt::Client& client,
                                const mesh::Mesh& mesh) {
  const std::vector<pjrt::DeviceDescription> devices(client.devices().begin(),
                                                     client.devices().end());
  return device_assignment(devices, mesh);
}

// What this run's programs are compiled for.
hw::Target target_of(const config::Config& config) {
  hw::Target target = hw::cpu_target(config.device_count);
  if (config.platform == "tpu") {
    // Which chip it is shows once the plugin is loaded; any TPU has no FFI.
    target.platform = "tpu";
    target.has_ffi = false;
  }
  return target;
}

HostArray scalar(double value) {
  const auto narrow = static_cast<float>(value);
  return HostArray::from<float>({}, std::span<const float>(&narrow, 1));
}

}  // namespace

void check_host_memory(const config::Config& config) {
  if (config.platform == "tpu") return;
  const model::StepMemory need =
      model::step_memory(config.model, config.device_mesh, config.global_batch,
                         config.data.max_target_length);
  const std::int64_t have = hw::host_memory().usable_bytes;
  if (need.total() <= have) return;
  fail(
      ErrorCode::kResourceExhausted,
      "model_name={} max_target_length={}: the step needs about {:.1f} GB of "
      "memory ({:.1f} parameters and optimizer state, {:.1f} gradients, {:.1f} "
      "saved for the backward pass, {:.1f} working space{}) and this machine "
      "has {:.1f} GB to give. Train a smaller model (model_name=tiny runs "
      "anywhere; override_model_config=True base_num_decoder_layers=... "
      "base_emb_dim=... cuts this one down) or a shorter max_target_length, or "
      "take a machine with more memory",
      config.model.model_name, config.data.max_target_length,
      gigabytes(need.total()), gigabytes(need.state), gigabytes(need.gradients),
      gigabytes(need.saved), gigabytes(need.working),
      config.device_count == 1
          ? ""
          : fmt::format("; {} devices together", config.device_count),
      gigabytes(have));
}

void check_collective_order(const config::Config& config,
                            std::string_view optimized_program) {
  const std::vector<std::string> overtaking =
      analysis::overtaking_collectives(analysis::decode_hlo(optimized_program));
  if (overtaking.empty()) return;
  fail(ErrorCode::kFailedPrecondition,
       "scan_layers={}: {} devices may meet this program's collectives in "
       "different orders and would then wait for ever ({}); scan_layers={} "
       "makes another program",
       config.model.scan_layers, config.device_count, overtaking.front(),
       !config.model.scan_layers);
}

std::shared_ptr<const data::Dataset> make_dataset(
    const config::Config& config) {
  const data::BatchShape shape{config.global_batch,
                               config.data.max_target_length};
  std::shared_ptr<const data::Dataset> dataset =
      data::open_dataset(config.data, shape, config.model.vocab_size);
  if (config.plan.layout == attention::LayoutKind::kContiguous) return dataset;
  const attention::Layout layout(
      config.plan.layout, shape.sequence_length,
      attention::sequence_shards(config.device_mesh));
  return data::reorder(std::move(dataset), layout.positions());
}

StepSettings step_settings(const config::Config& config,
                           const hw::Target& target) {
  return {config.model,
          config.attention,
          config.train,
          config.device_mesh,
          config.global_batch,
          config.data.max_target_length,
          config.plan,
          config.data.has_segments(),
          target};
}

Session make_session(const config::Config& config) {
  Session session;
  StepSettings settings = step_settings(config, target_of(config));
  // Programs first: a shape that does not fit is told before a plugin loads.
  const auto init = init_program(settings);
  auto step = step_program(settings);
  session.client = std::make_unique<pjrt::Client>(open_client(config));
  if (settings.target.has_ffi &&
      !register_native_kernels(session.client->plugin())) {
    settings.target.has_ffi = false;
    step = step_program(settings);
  }
  const auto start = std::chrono::steady_clock::now();
  const pjrt::ExecutableCache cache(config.runtime.executable_cache_dir);
  const DeviceAssignment assignment =
      assign_devices(*session.client, config.device_mesh);
  session.placement = std::make_shared<const Placement>(
      *session.client, config.device_mesh, assignment.ids);
  pjrt::CompileOptions options =
      compile_options(config, session.client->platform_name());
  options.device_assignment = assignment.ids;
  // The next line may be minutes away.
  log_info("compiling the training step");
  // Before XLA does: it asks after two minutes, and means its own developers.
  const Reminder reminder(std::chrono::seconds(110), [] {
    log_info(
        "still compiling, as large steps do for minutes on few cores; whether "
        "that is very slow, as XLA will ask, needs no answer");
  });
  const auto compiled = [&](const graph::Graph& graph,
                            const pjrt::ProgramCheck& check = {}) {
    try {
      return cache.load_or_compile(
          *session.client, graph::print_stablehlo(graph), options, check);
    } catch (const Error& error) {
      blame_flags(config, error);
      throw;
    }
  };
  auto loaded_init = compiled(*init);
  pjrt::ProgramCheck one_order;
  if (config.device_count > 1 && settings.target.collectives_block()) {
    one_order = {"collective order 1", [&](const pjrt::Executable& program) {
                   check_collective_order(config,
                                          program.optimized_program().code);
                 }};
  }
  auto loaded_step = compiled(*step, one_order);
  session.from_cache = loaded_init.from_cache && loaded_step.from_cache;
  session.init = std::make_unique<Program>(
      *init, std::move(loaded_init.executable), session.placement);
  session.step = std::make_unique<Program>(
      *step, std::move(loaded_step.executable), session.placement);
  session.compile_s =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start)
          .count();
  return session;
}

StepOutput run_step(const Session& session, const config::Config& config,
                    State& state, const data::Batch& batch, std::int64_t step) {
  const mesh::PartitionSpec rows = batch_spec(config.device_mesh);
  const auto t = static_cast<double>(step + 1);
  std::vector<DeviceArray> inputs;
  std::vector<const HostArray*> arrays = {&batch.tokens, &batch.targets,
                                          &batch.positions, &batch.weights};
  if (config.data.has_segments()) arrays.push_back(&batch.segment_ids);
  for (const HostArray* a : arrays) {
    inputs.push_back(upload(session.placement, *a, rows));
  }
  for (const double s : {learning_rate_at(step, config.train),
                         1 - std::pow(config.train.adam_b1, t),
                         1 - std::pow(config.train.adam_b2, t)}) {
    inputs.push_back(
        upload(session.placement, scalar(s), mesh::PartitionSpec()));
  }
  std::vector<const DeviceArray*> arguments;
  for (const DeviceArray& a : state) arguments.push_back(&a);
  for (const DeviceArray& a : inputs) arguments.push_back(&a);
  std::vector<DeviceArray> results = session.step->run(arguments);
  const auto take = [&] {
    const double value = results.back().shards[0].to_host().data<float>()[0];
    results.pop_back();
    return value;
  };
  StepOutput output;
  output.total_weights = take();
  output.grad_norm = take();
  output.loss = take();
  if (config.attention.record_max_logits) {
    const HostArray logits = results.back().shards[0].to_host();
    output.max_logits.assign(logits.data<float>().begin(),
                             logits.data<float>().end());
    results.pop_back();
  }
  state = std::move(results);
  return output;
}

}  // namespace ringmax::train
