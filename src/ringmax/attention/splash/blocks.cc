#include "ringmax/attention/splash/blocks.h"

#include <algorithm>
#include <functional>
#include <memory>

#include "ringmax/attention/splash/backward_kernel.h"
#include "ringmax/attention/splash/block_table.h"
#include "ringmax/attention/splash/forward_kernel.h"
#include "ringmax/attention/splash/kernel_math.h"
#include "ringmax/base/error.h"

namespace ringmax::attention::splash {
namespace {

constexpr std::int64_t kMiB = std::int64_t{1} << 20;
// What the compiler grants without being asked, and what it needs at least
// beside the kernel's own windows.
constexpr std::int64_t kDefaultLimit = 16 * kMiB;
constexpr std::int64_t kLeastTemporaries = 6 * kMiB;
// MaxText's default, which says nothing about this machine.
constexpr std::int64_t kUnasked = 512;

// Found by static cycles of libtpu's schedules (docs/kernels.md); blocks in
// bfloat16 are in block_table.h. Larger float32 ones take the compiler minutes.
struct Best {
  std::int64_t block;
  std::int64_t keys_at_once;
  std::int64_t keys_unrolled;
  std::int64_t triangle_keys_at_once;
  // Of temporaries, for a pair of a tile.
  std::int64_t pair_bytes;
};
constexpr Best kForwardF32 = {1024, 512, 1024, 256, 6};
constexpr Best kBackwardF32 = {512, 256, 512, 128, 12};
Best forward_best(const KernelRequest& r) {
  if (r.dtype == DType::kF32) return kForwardF32;
  return {blocks_for(r.chip, r.head_dim).forward, 512, 1024, 256, 6};
}
Best backward_best(const KernelRequest& r) {
  if (r.dtype == DType::kF32) return kBackwardF32;
  return {blocks_for(r.chip, r.head_dim).backward, 512, 1024, 128, 12};
}

// Upwards.
std::int64_t mib(std::int64_t bytes) { return (bytes + kMiB - 1) / kMiB; }

std::int64_t round_up(std::int64_t n, std::int64_t to) {
  return (n + to - 1) / to * to;
}

// As few blocks of at most `wanted` slots as there must be, and those as small
// as they get.
std::int64_t balanced(std::int64_t length, std::int64_t wanted) {
  wanted = round_up(wanted, kLanes);
  const std::int64_t blocks = (length + wanted - 1) / wanted;
  return round_up((length + blocks - 1) / blocks, kLanes);
}

// The largest of `most`, half of it, ... 128 that divides n.
std::int64_t largest_divisor(std::int64_t n, std::int64_t most) {
  while (n % most != 0) most /= 2;
  return most;
}

void set_blocks(KernelSpec* s, const KernelRequest& r, const Best& best,
                std::int64_t q, std::int64_t kv, std::int64_t keys_at_once) {
  s->block_q = balanced(r.queries, q);
  s->block_kv = balanced(r.keys, kv);
  s->keys_at_once = largest_divisor(s->block_kv, keys_at_once);
  s->keys_unrolled = std::max(s->keys_at_once,
                              largest_divisor(s->block_kv, best.keys_unrolled));
  s->triangle_keys_at_once =
      largest_divisor(s->block_kv, best.triangle_keys_at_once);
  s->queries = round_up(r.queries, s->block_q);
  const std::int64_t blocks = round_up(r.keys, s->block_kv) / s->block_kv;
  s->window_parts = std::min(kMaxParts, blocks);
  s->keys = round_up(r.keys, s->window());
}

// What a kernel is called in messages, with its settings.
struct Names {
  const char* kernel;
  const char* block_q;
  const char* block_kv;
};
constexpr Names kForwardNames = {"forward", "sa_block_q", "sa_block_kv"};
constexpr Names kBackwardNames = {"backward", "sa_block_q_dkv",
                                  "sa_block_kv_dkv"};

KernelSpec fitted(
    const KernelRequest& r, const KernelRequest::BlockLengths& asked,
    const Best& best, const Names& names, bool split_keys,
    const std::function<std::unique_ptr<kernel::Kernel>(const KernelSpec&)>&
        build) {
  KernelSpec s;
  s.scale = r.scale;
  s.soft_cap = r.soft_cap;
  s.batch = r.batch;
  s.kv_heads = r.kv_heads;
  s.groups = r.groups;
  s.head_dim = r.head_dim;
  s.value_dim = r.value_dim;
  s.dtype = r.dtype;
  s.segments = r.segments;
  s.tile = r.tile;
  s.visible_share = r.visible_share;
  // Only a machine with such memory has an opinion on blocks.
  const bool tuned = r.vmem_bytes > 0;
  const auto wanted = [&](std::int64_t setting, std::int64_t ours) {
    return tuned && setting == kUnasked ? ours : setting;
  };
  const std::int64_t asked_q = wanted(asked.q, best.block);
  const std::int64_t asked_kv = wanted(asked.kv, best.block);
  std::int64_t q = asked_q;
  std::int64_t kv = asked_kv;
  // A power of two times 128, so that halves of it stay whole lanes.
  const std::int64_t asked_keys = wanted(asked.kv_compute, best.keys_at_once);
  std::int64_t at_once = best.keys_at_once;
  while (at_once > kLanes && at_once > asked_keys) at_once /= 2;
  set_blocks(&s, r, best, q, kv, at_once);
  if (!tuned) return s;

  const bool chosen = asked.q != kUnasked || asked.kv != kUnasked;
  std::int64_t first_need = 0;  // of the blocks that were asked for
  while (true) {
    const std::int64_t need =
        build(s)->vmem_bytes() +
        std::max(kLeastTemporaries,
                 s.block_q * s.keys_at_once * best.pair_bytes);
    if (need <= r.vmem_bytes && first_need > 0) {
      fail_invalid(
          "{}={}, {}={}: a {} splash kernel with such blocks of head_dim {} in "
          "{} needs {} MiB of VMEM, {} MiB more than the {} MiB there are; "
          "{}={} with {}={} would fit",
          names.block_q, asked_q, names.block_kv, asked_kv, names.kernel,
          r.head_dim, dtype_name(r.dtype), mib(first_need),
          mib(first_need - r.vmem_bytes), r.vmem_bytes / kMiB, names.block_q, q,
          names.block_kv, kv);
    }
    if (need <= r.vmem_bytes) {
      s.vmem_limit_bytes = std::max(kDefaultLimit, need);
      return s;
    }
    if (split_keys && s.keys > s.block_kv) {
      // Half the keys at a time.
      const std::int64_t blocks = s.keys / s.block_kv / 2;
      s.window_parts =
          std::min(s.window_parts, std::max<std::int64_t>(blocks, 1));
      s.keys = std::max<std::int64_t>(blocks / s.window_parts, 1) * s.window();
    } else if (s.window_parts > 1) {
      s.window_parts /= 2;
      s.keys = round_up(r.keys, s.window());
    } else if (std::max(q, kv) > kLanes) {
      if (chosen && first_need == 0) first_need = need;
      q = std::max(kLanes, q / 2);
      kv = std::max(kLanes, kv / 2);
      set_blocks(&s, r, best, q, kv, s.keys_at_once);
    } else {
      fail(ErrorCode::kResourceExhausted,
           "attention: a splash kernel with blocks of {} queries and {} keys "
           "of head_dim {} needs {} MiB of VMEM, and there are {} MiB; no "
           "smaller block exists",
           s.block_q, s.block_kv, s.head_dim, mib(need), r.vmem_bytes / kMiB);
    }
  }
}

}  // namespace

KernelSpec forward_spec(const KernelRequest& r) {
  return fitted(r, r.forward_blocks, forward_best(r), kForwardNames,
                /*split_keys=*/false, forward_kernel);
}

KernelSpec backward_spec(const KernelRequest& r) {
  return fitted(r, r.backward_blocks, backward_best(r), kBackwardNames,
                /*split_keys=*/true, backward_kernel);
}

}  // namespace ringmax::attention::splash
