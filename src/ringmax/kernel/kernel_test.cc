#include "ringmax/kernel/kernel.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "ringmax/base/error.h"
#include "ringmax/kernel/mosaic.h"
#include "ringmax/kernel/ops.h"
#include "ringmax/kernel/testing/mosaic_parser.h"
#include "ringmax/kernel/testing/small_kernels.h"

namespace ringmax::kernel {
namespace {

using ::testing::HasSubstr;

Shape f32(Dims dims) { return Shape(DType::kF32, std::move(dims)); }

template <typename F>
std::string message_of(F f) {
  try {
    f();
  } catch (const Error& error) {
    return error.message();
  }
  return "no error";
}

TEST(KernelBuilder, RefusesWhatDoesNotFit) {
  Kernel k("k");
  EXPECT_THAT(message_of([&] {
                k.scratch("early", f32({8, 128}));
              }),
              HasSubstr("'early' is declared before the walk"));
  k.walk(4, false);
  EXPECT_THAT(message_of([&] { k.parallel(2); }),
              HasSubstr("declared before the walk"));
  const IndexMap map = [&](const Values& g) {
    return Values{g[0], constant_i32(k, 0)};
  };
  EXPECT_THAT(message_of([&] {
                k.input("x", f32({12, 128}), {8, 128}, map);
              }),
              HasSubstr("blocks [8,128] of 'x' do not divide f32[12,128]"));
  EXPECT_THAT(message_of([&] {
                k.input("x", f32({1, 8, 128}), {1, 8, 128}, map);
              }),
              HasSubstr("returns 2 indices"));
  const Ref x = k.input("x", f32({32, 128}), {8, 128}, map);
  const Ref y = k.output("y", f32({32, 128}), {8, 128}, map);
  EXPECT_THAT(message_of([&] {
                k.input("late", f32({8, 128}), {8, 128}, map);
              }),
              HasSubstr("'late' is declared too late"));
  EXPECT_THAT(message_of([&] { k.check_complete(); }), HasSubstr("no step"));
  Value leaked;
  k.step([&](const Values&) {
    const Value v = load(x);
    leaked = v;
    EXPECT_THAT(message_of([&] {
                  matmul(v, v, MatmulAttr{1, 0});
                }),
                HasSubstr("matmul of f32[8,128] and f32[8,128]"));
    EXPECT_THAT(message_of([&] { v + convert(v, DType::kBF16); }),
                HasSubstr("add of f32[8,128] and bf16[8,128]"));
    EXPECT_THAT(message_of([&] { store(x, v); }), HasSubstr("an input"));
    EXPECT_THAT(message_of([&] {
                  load(x, {1, 0}, {8, 128});
                }),
                HasSubstr("does not fit window"));
    EXPECT_THAT(message_of([&] {
                  broadcast_to(v, {8, 256});
                }),
                HasSubstr("broadcast to [8,256]"));
    store(y, v);
  });
  EXPECT_THAT(message_of([&] {
                k.end([&](const Values& g) { return equal(g[0], g[0]); },
                      [&](const Values&) { store(y, leaked); });
              }),
              HasSubstr("used outside of the region"));
}

TEST(KernelBuilder, CountsTheVmemItNeeds) {
  const auto kernel = testing::sum_of_blocks(4, 1);
  // Two windows, twice each, and scratch, of 4 KiB.
  EXPECT_EQ(kernel->vmem_bytes(), 5 * 4096);
}

TEST(MosaicText, IsGenericMlirWithTheVersionOfTheDialect) {
  const std::string text = mosaic_text(*testing::sum_of_blocks(4, 1));
  const testing::MlirOp module = testing::parse_mlir(text);
  EXPECT_EQ(module.name, "builtin.module");
  EXPECT_EQ(module.attribute("stable_mosaic.version"),
            std::to_string(kMosaicVersion) + " : i64");
  // The kernel and an index map for each window.
  EXPECT_EQ(module.regions.at(0).ops.size(), 3u);
  const testing::MlirOp& main = module.regions[0].ops[0];
  EXPECT_EQ(main.attribute("scalar_prefetch"), "1 : i64");
  EXPECT_EQ(main.attribute("iteration_bounds"),
            "array<i64: 2, -9223372036854775808>");
}

}  // namespace
}  // namespace ringmax::kernel
