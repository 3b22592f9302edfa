#include "ringmax/attention/splash/blocks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ringmax/attention/splash/backward_kernel.h"
#include "ringmax/attention/splash/block_table.h"
#include "ringmax/attention/splash/forward_kernel.h"
#include "ringmax/base/error.h"
#include "ringmax/hw/target.h"

namespace ringmax::attention::splash {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr std::int64_t kMiB = std::int64_t{1} << 20;

KernelRequest request(std::int64_t vmem_mib) {
  KernelRequest r;
  r.mask = Mask::causal();
  r.kv_heads = 2;
  r.groups = 4;
  r.queries = r.keys = 8192;
  r.head_dim = r.value_dim = 128;
  r.dtype = DType::kBF16;
  r.vmem_bytes = vmem_mib * kMiB;
  return r;
}

TEST(SplashBlocks, DefaultsShrinkUntilTheyFit) {
  for (const std::int64_t mib : {16, 32, 64, 128}) {
    SCOPED_TRACE(mib);
    const KernelSpec forward = forward_spec(request(mib));
    const KernelSpec backward = backward_spec(request(mib));
    EXPECT_LE(forward_kernel(forward)->vmem_bytes(), mib * kMiB);
    EXPECT_LE(backward_kernel(backward)->vmem_bytes(), mib * kMiB);
    EXPECT_EQ(forward.queries % forward.block_q, 0);
    EXPECT_EQ(forward.block_kv % forward.keys_unrolled, 0);
    EXPECT_EQ(forward.keys_unrolled % forward.keys_at_once, 0);
    EXPECT_LE(forward.vmem_limit_bytes, mib * kMiB);
  }
  EXPECT_EQ(forward_spec(request(64)).block_q, 2048);
  EXPECT_EQ(backward_spec(request(64)).block_kv, 1024);
}

// What was measured best on a chip is what its kernels get: it fits.
TEST(SplashBlocks, EveryGenerationHasItsOwn) {
  for (const hw::Chip& chip : hw::known_chips()) {
    for (const std::int64_t head_dim : {64, 80, 128, 192, 256}) {
      SCOPED_TRACE(chip.name);
      SCOPED_TRACE(head_dim);
      KernelRequest r = request(0);
      r.chip = chip.name;
      r.vmem_bytes = chip.vmem_bytes;
      r.head_dim = r.value_dim = head_dim;
      const BlockRow& row = blocks_for(chip.name, head_dim);
      EXPECT_EQ(row.chip, chip.name);
      EXPECT_GE(row.head_dim, head_dim);
      EXPECT_EQ(forward_spec(r).block_q, row.forward);
      EXPECT_EQ(forward_spec(r).block_kv, row.forward);
      EXPECT_EQ(backward_spec(r).block_q, row.backward);
      EXPECT_EQ(backward_spec(r).block_kv, row.backward);
    }
  }
  EXPECT_EQ(blocks_for("v4", 512).head_dim, 256);
  EXPECT_EQ(blocks_for("a chip to come", 128).forward, 2048);
}

TEST(SplashBlocks, WhatWasAskedForIsKeptOrRefused) {
  KernelRequest r = request(32);
  r.forward_blocks.q = 1024;
  r.forward_blocks.kv = 256;
  EXPECT_EQ(forward_spec(r).block_q, 1024);
  EXPECT_EQ(forward_spec(r).block_kv, 256);
  r.forward_blocks.q = r.forward_blocks.kv = 8192;
  r.backward_blocks.q = 8192;
  const auto message = [&](auto make) {
    try {
      make(r);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
      return error.message();
    }
    return std::string("nothing");
  };
  EXPECT_THAT(message(forward_spec),
              AllOf(HasSubstr("sa_block_q=8192, sa_block_kv=8192"),
                    HasSubstr("MiB more than the 32 MiB"),
                    HasSubstr("sa_block_q=4096 with sa_block_kv=4096 would "
                              "fit")));
  // Nothing to tune for where there is no such memory.
  r.vmem_bytes = 0;
  EXPECT_EQ(message(forward_spec), "nothing");
}

TEST(SplashBlocks, KernelsCostTheirVisiblePairs) {
  KernelRequest r = request(64);
  const double all = 8.0 * 8192 * 8192;
  EXPECT_EQ(forward_kernel(forward_spec(r))->cost().flops, 4 * 128 * all);
  r.visible_share = 0.25;
  EXPECT_EQ(forward_kernel(forward_spec(r))->cost().flops, 128 * all);
  EXPECT_EQ(forward_kernel(forward_spec(r))->cost().transcendentals, all / 4);
  EXPECT_EQ(backward_kernel(backward_spec(r))->cost().flops, 2.5 * 128 * all);
}

}  // namespace
}  // namespace ringmax::attention::splash
