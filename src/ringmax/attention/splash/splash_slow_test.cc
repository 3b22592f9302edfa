// libtpu accepts the kernels on every generation, for every size and feature.
#include <gtest/gtest.h>

#include "ringmax/attention/splash/testing/compile_for_tpu.h"

namespace ringmax::attention::splash {
namespace {

using testing::compile_for_tpu;
using testing::splash_request;

TEST(SplashTpuMatrix, EveryGenerationAcceptsEveryKernel) {
  for (const char* topology :
       {"v4:2x2x1", "v5e:2x2", "v5p:2x2x1", "v6e:2x2", "tpu7x:2x2x1"}) {
    for (const DType dtype : {DType::kBF16, DType::kF32}) {
      for (const std::int64_t head_dim : {64, 80, 192, 256}) {
        EXPECT_EQ(compile_for_tpu(topology, splash_request(dtype, head_dim)),
                  "")
            << topology << " " << dtype_name(dtype) << " " << head_dim;
      }
      for (const int feature : {0, 1, 2, 3, 4, 5}) {
        KernelRequest request = splash_request(dtype, 128);
        request.segments = feature == 1;
        if (feature == 2) request.soft_cap = 30;
        if (feature == 3) request.mask = Mask::local(600, 0);
        if (feature == 4) request.mask = Mask::chunked(700);
        request.tile = feature == 5;
        EXPECT_EQ(compile_for_tpu(topology, request), "")
            << topology << " " << dtype_name(dtype) << " feature " << feature;
      }
    }
  }
}

}  // namespace
}  // namespace ringmax::attention::splash
