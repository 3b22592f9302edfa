#include "ringmax/cli/bench_kernel.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>
#include <span>

#include "ringmax/analysis/kernel_cycles.h"
#include "ringmax/attention/splash/backward_kernel.h"
#include "ringmax/attention/splash/blocks.h"
#include "ringmax/attention/splash/forward_kernel.h"
#include "ringmax/attention/splash/kernel_alone.h"
#include "ringmax/attention/splash/walk_counts.h"
#include "ringmax/base/error.h"
#include "ringmax/base/option.h"
#include "ringmax/base/problems.h"
#include "ringmax/cli/bench_attention.h"
#include "ringmax/cli/scratch_folder.h"
#include "ringmax/config/settings.h"
#include "ringmax/pjrt/plugin.h"
#include "ringmax/train/ahead_of_time.h"

namespace ringmax::cli {
namespace {

namespace splash = attention::splash;

enum class Direction { kForward, kBackward };
constexpr Named<Direction> kDirections[] = {{Direction::kForward, "forward"},
                                            {Direction::kBackward, "backward"}};

struct Settings {
  pjrt::RuntimeOptions runtime;
  Direction direction = Direction::kForward;
  DType dtype = DType::kBF16;
  std::int64_t seq = 8192;
  std::int64_t heads = 8;
  std::int64_t kv_heads = 2;
  std::int64_t head_dim = 128;
  attention::KernelRequest::BlockLengths blocks;
};

Settings read(const std::vector<std::string>& words) {
  Settings s;
  OptionSet set;
  const IntRange positive{.min = 1};
  pjrt::declare_options(set, s.runtime);
  set.choice("direction", &s.direction, kDirections, "which kernel");
  set.dtype("dtype", &s.dtype, {DType::kBF16, DType::kF32},
            "of queries, keys and values");
  set.integer("seq", &s.seq, "queries, and keys, of a shard", positive);
  set.integer("heads", &s.heads, "query heads", positive);
  set.integer("kv_heads", &s.kv_heads, "key heads", positive);
  set.integer("head_dim", &s.head_dim, "of keys and of values", positive);
  set.integer("block_q", &s.blocks.q, "queries of a block", positive);
  set.integer("block_kv", &s.blocks.kv, "keys of a block", positive);
  set.integer("block_kv_compute", &s.blocks.kv_compute,
              "keys of a block that are computed with at a time", positive);
  config::read_settings(set, words);
  Problems problems;
  if (s.heads % s.kv_heads != 0) {
    problems.add("kv_heads={}: it does not divide heads={}", s.kv_heads,
                 s.heads);
  }
  validate(s.runtime, problems);
  problems.throw_if_any();
  return s;
}

attention::KernelRequest request_of(const Settings& s,
                                    const hw::Target& target) {
  attention::KernelRequest r;
  r.scale = 1 / std::sqrt(static_cast<double>(s.head_dim));
  r.kv_heads = s.kv_heads;
  r.groups = s.heads / s.kv_heads;
  r.queries = r.keys = s.seq;
  r.head_dim = r.value_dim = s.head_dim;
  r.dtype = s.dtype;
  r.forward_blocks = r.backward_blocks = s.blocks;
  r.chip = target.chip;
  r.vmem_bytes = target.vmem_bytes;
  return r;
}

// One call over a shard with this mask, or several, for runs of its keys;
// `pairs` are visible to a head.
splash::KernelWork work_of(const splash::KernelSpec& spec, bool backward,
                           const attention::Mask& mask, std::int64_t seq,
                           double pairs) {
  std::vector<std::int64_t> positions(static_cast<std::size_t>(seq));
  std::iota(positions.begin(), positions.end(), 0);
  splash::KernelWork work;
  work.spec = spec;
  work.backward = backward;
  const auto heads = static_cast<double>(spec.heads());
  for (std::int64_t at = 0; at < seq; at += spec.keys) {
    const auto keys = std::span(positions).subspan(
        static_cast<std::size_t>(at),
        static_cast<std::size_t>(std::min(spec.keys, seq - at)));
    work.counts.add(splash::count_walk(spec, mask, positions, keys), heads);
    ++work.calls;
    work.programs +=
        backward ? heads / static_cast<double>(spec.groups) : heads;
  }
  work.counts.pairs = pairs * heads;
  work.flops = work.counts.pairs * (backward ? 10 : 4) *
               static_cast<double>(spec.head_dim);
  return work;
}

}  // namespace

nlohmann::json bench_kernel(const std::vector<std::string>& words) {
  const Settings s = read(words);
  const bool backward = s.direction == Direction::kBackward;
  const ScratchFolder llo("bench kernel");
  const train::Machine machine = train::tpu_machine(s.runtime, llo.path());
  const attention::KernelRequest request = request_of(s, machine.target);
  const splash::KernelSpec spec =
      backward ? splash::backward_spec(request) : splash::forward_spec(request);
  const double before = processor_seconds();
  machine.topology.compile(splash::kernel_alone(spec, backward),
                           pjrt::CompileOptions());
  const double compile_s = processor_seconds() - before;
  const auto cycles = analysis::find_kernel_cycles(
      llo.path(), std::string(pjrt::kDumpedInstruction), spec);
  if (!cycles || !cycles->pieces) {
    fail(ErrorCode::kPlugin, "bench kernel: the compiler showed no schedule");
  }
  const analysis::KernelPieces& pieces = *cycles->pieces;
  const auto useful = [&](const attention::Mask& mask, double pairs) {
    return analysis::useful_utilisation(
        pieces, work_of(spec, backward, mask, s.seq, pairs), machine.target);
  };
  const auto seq = static_cast<double>(s.seq);
  const auto kernel =
      backward ? splash::backward_kernel(spec) : splash::forward_kernel(spec);
  return {
      {"chip", machine.target.chip},
      {"direction", backward ? "backward" : "forward"},
      {"head_dim", s.head_dim},
      {"dtype", dtype_name(s.dtype)},
      {"block_q", spec.block_q},
      {"block_kv", spec.block_kv},
      {"keys_at_once", spec.keys_at_once},
      {"keys_of_a_call", spec.keys},
      {"vmem_bytes", kernel->vmem_bytes()},
      {"useful_full", useful(attention::Mask::full(), seq * seq)},
      {"useful_causal", useful(attention::Mask::causal(), seq * (seq + 1) / 2)},
      {"spills", cycles->spills},
      {"cycles",
       {{"row", pieces.row},
        {"step", pieces.step},
        {"full_block", pieces.full},
        {"partial_block", pieces.partial},
        {"triangular_block", pieces.triangular}}},
      {"compile_processor_s", compile_s}};
}

}  // namespace ringmax::cli
