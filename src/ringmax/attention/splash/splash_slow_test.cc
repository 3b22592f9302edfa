// libtpu accepts the kernels on every generation, for every size, dtype and
// feature: forward and backward of each combination in one program.
#include <gtest/gtest.h>

#include <string>
#include <tuple>

#include "ringmax/attention/splash/testing/compile_for_tpu.h"

namespace ringmax::attention::splash {
namespace {

using testing::compile_for_tpu;
using testing::splash_request;

// Sinks join outside of the kernels (attention/partial.h).
enum class Feature { kPlain, kSegments, kSoftCap, kWindow, kChunks, kTile };

KernelRequest with(KernelRequest request, Feature feature) {
  switch (feature) {
    case Feature::kPlain:
      break;
    case Feature::kSegments:
      request.segments = true;
      break;
    case Feature::kSoftCap:
      request.soft_cap = 30;
      break;
    case Feature::kWindow:
      request.mask = Mask::local(600, 0);
      break;
    case Feature::kChunks:
      request.mask = Mask::chunked(700) | Mask::local(3, 0);
      break;
    case Feature::kTile:
      request.tile = true;
      break;
  }
  return request;
}

class SplashTpuMatrix
    : public ::testing::TestWithParam<std::tuple<const char*, DType>> {};

TEST_P(SplashTpuMatrix, AcceptsEveryKernel) {
  const auto [topology, dtype] = GetParam();
  for (const std::int64_t head_dim : {64, 128, 256}) {
    for (const Feature feature :
         {Feature::kPlain, Feature::kSegments, Feature::kSoftCap,
          Feature::kWindow, Feature::kChunks, Feature::kTile}) {
      EXPECT_EQ(compile_for_tpu(topology,
                                with(splash_request(dtype, head_dim), feature)),
                "")
          << "head_dim " << head_dim << ", feature "
          << static_cast<int>(feature);
    }
  }
  // No multiples of the 128 lanes, and one that is between powers of two.
  for (const std::int64_t head_dim : {80, 192}) {
    EXPECT_EQ(compile_for_tpu(topology, splash_request(dtype, head_dim)), "")
        << "head_dim " << head_dim;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Chips, SplashTpuMatrix,
    ::testing::Combine(::testing::Values("v4:2x2x1", "v5e:2x2", "v5p:2x2x1",
                                         "v6e:2x2", "tpu7x:2x2x1"),
                       ::testing::Values(DType::kBF16, DType::kF32)),
    [](const auto& info) {
      const std::string topology = std::get<0>(info.param);
      return topology.substr(0, topology.find(':')) + "_" +
             std::string(dtype_name(std::get<1>(info.param)));
    });

}  // namespace
}  // namespace ringmax::attention::splash
