// Mask metadata of a million tokens over 64 devices, 1,024 x 1,024 blocks: what
// one device needs for all 64 ring steps (its "shard set"), what all devices
// need, one step cut out, and the schedule.
#include <benchmark/benchmark.h>

#include "ringmax/attention/mask_info.h"
#include "ringmax/attention/ring_schedule.h"

namespace ringmax::attention {
namespace {

constexpr std::int64_t kTokens = 1 << 20;
constexpr std::int64_t kDevices = 64;
constexpr BlockSizes kBlocks{1024, 1024};

Mask mask_of(const benchmark::State& state) {
  return state.range(0) == 0 ? Mask::causal() : Mask::local(4095, 0);
}

Layout layout_of(const benchmark::State& state) {
  return Layout(static_cast<LayoutKind>(state.range(1)), kTokens, kDevices);
}

void label(benchmark::State& state) {
  state.SetLabel(mask_of(state).to_string() + " " +
                 std::string(layout_name(layout_of(state).kind())));
}

// The last device has the most blocks of a contiguous causal mask.
void one_device(benchmark::State& state) {
  const Mask mask = mask_of(state);
  const Layout layout = layout_of(state);
  std::int64_t bytes = 0;
  for (auto _ : state) {
    const MaskInfo info(mask, layout, layout, kBlocks, kDevices - 1);
    bytes = info.memory_bytes();
    for (std::int64_t shift = 0; shift < kDevices; ++shift) {
      for (const WalkOrder order : {WalkOrder::kByQuery, WalkOrder::kByKey}) {
        const BlockWalk walk = info.walk(shift, order, kDevices);
        bytes += walk.visits() * 14;
        benchmark::DoNotOptimize(walk.rows.data());
      }
    }
  }
  state.counters["bytes"] = static_cast<double>(bytes);
  label(state);
}

void all_devices(benchmark::State& state) {
  const Mask mask = mask_of(state);
  const Layout layout = layout_of(state);
  std::int64_t bytes = 0;
  for (auto _ : state) {
    bytes = 0;
    for (std::int64_t device = 0; device < kDevices; ++device) {
      bytes += MaskInfo(mask, layout, layout, kBlocks, device).memory_bytes();
    }
  }
  state.counters["bytes"] = static_cast<double>(bytes);
  label(state);
}

void one_slice(benchmark::State& state) {
  const Layout layout = layout_of(state);
  const MaskInfo info(mask_of(state), layout, layout, kBlocks, kDevices - 1);
  for (auto _ : state) {
    benchmark::DoNotOptimize(info.slice(1, kDevices));
  }
  label(state);
}

void schedule(benchmark::State& state) {
  const Mask mask = mask_of(state);
  const Layout layout = layout_of(state);
  for (auto _ : state) {
    benchmark::DoNotOptimize(make_ring_schedule(mask, layout, layout));
  }
  label(state);
}

void every_case(benchmark::internal::Benchmark* made) {
  made->ArgsProduct({{0, 1}, {0, 1, 2}})->Unit(benchmark::kMillisecond);
}
BENCHMARK(one_device)->Apply(every_case);
BENCHMARK(all_devices)->Apply(every_case);
BENCHMARK(one_slice)->Apply(every_case);
BENCHMARK(schedule)->Apply(every_case);

}  // namespace
}  // namespace ringmax::attention

BENCHMARK_MAIN();
