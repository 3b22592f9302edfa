#include "ringmax/train/loop.h"

#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "ringmax/attention/cpu/meeting.h"
#include "ringmax/base/error.h"
#include "ringmax/base/file.h"
#include "ringmax/base/log.h"
#include "ringmax/base/safetensors.h"
#include "ringmax/data/prefetcher.h"
#include "ringmax/hw/host.h"
#include "ringmax/model/cost.h"
#include "ringmax/model/cpu/exchange.h"
#include "ringmax/model/hugging_face.h"
#include "ringmax/pjrt/executable_cache.h"
#include "ringmax/train/metrics.h"
#include "ringmax/train/sample.h"
#include "ringmax/train/schedule.h"
#include "ringmax/train/setup.h"
#include "ringmax/train/speed.h"

namespace ringmax::train {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Nobody should read "-nan".
double without_sign_of_nan(double value) {
  return std::isnan(value) ? std::abs(value) : value;
}

std::vector<HostArray> download_parameters(const config::Config& config,
                                           const State& state) {
  const auto infos = model::parameters(config.model, config.device_mesh);
  std::vector<HostArray> weights;
  for (std::size_t i = 0; i < infos.size(); ++i) {
    weights.push_back(download(state[i]));
  }
  return weights;
}

std::string save_parameters(const config::Config& config,
                            const std::vector<HostArray>& weights) {
  std::vector<TensorSource> tensors;
  for (auto& [name, array] : model::to_hugging_face(weights, config.model)) {
    tensors.push_back(tensor_source(name, std::move(array)));
  }
  // A run of days does not lose its parameters with its directory.
  make_directories(config.run_directory);
  atomic_write(join_path(config.run_directory, "config.json"),
               model::hugging_face_config(config.model));
  const std::string path = join_path(config.run_directory, "model.safetensors");
  write_safetensors(path, std::move(tensors), {{"format", "pt"}});
  return path;
}

// Everything from the first file on.
TrainResult train(const config::Config& config,
                  const std::shared_ptr<const data::Dataset>& dataset,
                  const Session& session, const TrainHooks& hooks) {
  MetricsWriter metrics(config.run_directory, 0);

  State state = session.init->run({});
  data::Prefetcher batches(dataset, {0, config.global_batch}, 0,
                           config.train.steps);
  const auto flops_per_device =
      static_cast<double>(model::model_flops(config.model, config.global_batch,
                                             config.data.max_target_length)) /
      static_cast<double>(config.device_count);
  TrainResult result;
  for (std::int64_t step = 0; step < config.train.steps; ++step) {
    const auto start = Clock::now();
    const StepOutput out =
        run_step(session, config, state, batches.next(), step);
    StepMetrics m;
    m.step = step + 1;
    m.loss = without_sign_of_nan(out.loss);
    m.grad_norm = without_sign_of_nan(out.grad_norm);
    m.learning_rate = learning_rate_at(step, config.train);
    m.step_time_s = seconds_since(start);
    m.tokens_per_s =
        static_cast<double>(config.tokens_per_step) / m.step_time_s;
    m.tflops_per_device = flops_per_device / m.step_time_s / 1e12;
    m.total_weights = out.total_weights;
    m.max_logits = out.max_logits;
    metrics.write(m);
    hooks.print_line(format_step_line(m, config.train.steps,
                                      config.device_count, std::nullopt));
    // A norm that is not finite has spoilt the parameters already.
    if (!std::isfinite(m.loss) || !std::isfinite(m.grad_norm)) {
      fail(ErrorCode::kInternal,
           "step {}: the loss is {} and the gradient's norm {}; stopped, no "
           "parameters written. Try a lower learning_rate (now {:g}) or "
           "gradient_clipping_threshold (now {:g})",
           m.step, m.loss, m.grad_norm, config.train.learning_rate,
           config.train.gradient_clipping_threshold);
    }
    result.steps_done = m.step;
    result.last_loss = m.loss;
    if (hooks.stop()) break;
  }
  const std::vector<HostArray> weights = download_parameters(config, state);
  result.parameters_path = save_parameters(config, weights);
  result.data_description = dataset->describe();
  if (config.data.dataset_type == data::DatasetType::kText) {
    SampleSettings sample;
    sample.prompt = "The ";
    sample.seed = static_cast<std::uint64_t>(config.train.init_weights_seed);
    result.sample_prompt = sample.prompt;
    result.sample =
        sample_text(*session.client,
                    pjrt::ExecutableCache(config.runtime.executable_cache_dir),
                    config.model, weights, sample);
  }
  return result;
}

}  // namespace

TrainResult run_training(const config::Config& settings,
                         const TrainHooks& hooks) {
  check_host_memory(settings);
  config::Config config = settings;
  const std::string chosen =
      choose_for_speed(config, hw::host_memory().usable_bytes);
  const std::shared_ptr<const data::Dataset> dataset = make_dataset(config);
  const Session session = make_session(config);
  for (const std::string& note : config.notes) log_info("note: {}", note);
  if (!chosen.empty()) log_info("{}", chosen);
  log_info("{}: {:.1f}M parameters, {} ({}), {}; {} in {:.2f} s",
           config.model.model_name,
           static_cast<double>(model::parameter_count(config.model)) / 1e6,
           config.device_mesh.to_string(), session.client->platform_name(),
           dataset->describe(),
           session.from_cache ? "loaded from the executable cache" : "compiled",
           session.compile_s);
  log_info("attention: {}", config.plan.summary);
  for (const std::string& why : config.plan.refused) {
    log_info("attention, why not {}", why);
  }
  const DirectoryLock lock = make_run_directory(config.run_directory);
  hooks.begins();
  try {
    return train(config, dataset, session, hooks);
  } catch (const Error& error) {
    attention::cpu::Meetings::instance().clear();
    model::cpu::Exchange::instance().clear();
    if (exit_code_for(error.code()) != 2) throw;
    throw Error(ErrorCode::kIo, error.message());
  }
}

}  // namespace ringmax::train
