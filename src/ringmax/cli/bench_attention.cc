#include "ringmax/cli/bench_attention.h"

#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <utility>

#include "ringmax/base/error.h"
#include "ringmax/base/log.h"
#include "ringmax/cli/attention_case.h"
#include "ringmax/cli/case_settings.h"
#include "ringmax/hw/host.h"

namespace ringmax::cli {
namespace {

using Clock = std::chrono::steady_clock;

struct Sizes {
  std::int64_t batch = 1;
  std::int64_t seq = 2048;
  std::int64_t heads = 4;
  std::int64_t kv_heads = 0;  // 0: as heads
  std::int64_t head_dim = 128;
  std::int64_t repeats = 5;
};

void declare_sizes(OptionSet& set, Sizes& sizes) {
  const IntRange positive{.min = 1};
  set.integer("batch", &sizes.batch, "sequences", positive);
  set.integer("seq", &sizes.seq, "tokens of queries and of keys", positive);
  set.integer("heads", &sizes.heads, "query heads", positive);
  set.integer("kv_heads", &sizes.kv_heads, "key heads; 0: as heads",
              {.min = 0});
  set.integer("head_dim", &sizes.head_dim, "of keys and of values", positive);
  set.integer("repeats", &sizes.repeats,
              "runs that count, after one that "
              "does not",
              positive);
}

// Of zero mean and unit variance, like normed activations.
HostArray random_array(Dims dims, DType dtype, std::uint64_t seed) {
  HostArray array{Shape(DType::kF32, std::move(dims))};
  std::uint64_t state = seed * 0x9E3779B97F4A7C15U + 1;
  for (float& x : array.data<float>()) {
    // The sum of 12 uniform numbers, from a linear congruence.
    float sum = -6;
    for (int i = 0; i < 3; ++i) {
      state = state * 6364136223846793005U + 1442695040888963407U;
      for (int part = 1; part <= 4; ++part) {
        sum += static_cast<float>(state >> (64 - 12 * part) & 0xFFF) / 4096;
      }
    }
    x = sum;
  }
  return array.convert(dtype);
}

std::vector<double> times_of(CompiledCase& compiled, std::int64_t repeats) {
  // The first run fills caches and starts threads.
  compiled.run();
  std::vector<double> times;
  for (std::int64_t r = 0; r < repeats; ++r) {
    const auto begin = Clock::now();
    compiled.run();
    times.push_back(
        std::chrono::duration<double>(Clock::now() - begin).count());
  }
  return times;
}

}  // namespace

nlohmann::json spread(std::vector<double> times) {
  std::sort(times.begin(), times.end());
  return {{"min", times.front()},
          {"median", times[times.size() / 2]},
          {"max", times.back()}};
}

std::int64_t peak_rss_bytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<std::int64_t>(usage.ru_maxrss) * 1024;
}

double processor_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) +
           1e-6 * static_cast<double>(t.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

std::string describe_attention_bench() {
  Sizes sizes;
  return describe_case_settings(
      [&](OptionSet& set) { declare_sizes(set, sizes); });
}

nlohmann::json bench_attention(const std::vector<std::string>& words) {
  Sizes sizes;
  CaseWords read = read_case_settings(
      words, [&](OptionSet& set) { declare_sizes(set, sizes); });
  CaseSettings& settings = read.settings;
  if (settings.kernel == "reference") {
    fail_invalid("kernel=reference: it is there to be right, not to be timed");
  }
  settings.mask = attention::parse_mask(read.mask);
  if (sizes.kv_heads == 0) sizes.kv_heads = sizes.heads;
  const DType dtype = settings.dtype.value_or(DType::kF32);
  const auto array = [&](std::int64_t heads, std::uint64_t seed) {
    return random_array({sizes.batch, sizes.seq, heads, sizes.head_dim}, dtype,
                        seed);
  };
  CaseTensors tensors = {{"q", array(sizes.heads, 1)},
                         {"k", array(sizes.kv_heads, 2)},
                         {"v", array(sizes.kv_heads, 3)}};
  std::map<std::string, Shape> shapes;
  for (const auto& [name, tensor] : tensors) shapes[name] = tensor.shape();
  check_case(settings, shapes);

  const attention::PositionRange all{0, sizes.seq};
  const double flops = 4.0 * static_cast<double>(sizes.head_dim) *
                       static_cast<double>(settings.mask.count(all, all)) *
                       static_cast<double>(sizes.batch * sizes.heads);
  nlohmann::json json;
  const auto report = [&](const std::string& what, double work) {
    CompiledCase compiled(settings, tensors);
    json[what + "_s"] = spread(times_of(compiled, sizes.repeats));
    json[what + "_gflops"] =
        work / json[what + "_s"]["median"].get<double>() / 1e9;
    const attention::AttendPlan& plan = compiled.plan();
    json["kernel"] = plan.backend->name();
    json["strategy"] = name_of(attention::kStrategies, plan.strategy);
    json["bytes_sent_per_device"] = plan.bytes_sent_per_device;
    // Of both in the end.
    json["compile_s"] = compiled.compile_s();
    json["temporaries_bytes"] = compiled.temporaries_bytes();
  };
  report("forward", flops);
  tensors.emplace("do", array(sizes.heads, 4));
  report("forward_backward", 3.5 * flops);
  json["layout"] = attention::layout_name(settings.layout);
  json["threads"] = hw::host_cores();
  json["peak_rss_bytes"] = peak_rss_bytes();
  return json;
}

}  // namespace ringmax::cli
