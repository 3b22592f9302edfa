// libtpu accepts the kernels: forward and backward in one program, compiled for
// a chip that is not here. The whole matrix is in splash_slow_test.cc.
#include <gtest/gtest.h>

#include "ringmax/attention/splash/testing/compile_for_tpu.h"

namespace ringmax::attention::splash {
namespace {

using testing::compile_for_tpu;
using testing::splash_request;

TEST(SplashTpu, AcceptsAShortMatrixForV5p) {
  for (const DType dtype : {DType::kBF16, DType::kF32}) {
    for (const std::int64_t head_dim : {64, 128}) {
      KernelRequest request = splash_request(dtype, head_dim);
      EXPECT_EQ(compile_for_tpu("v5p:2x2x1", request), "");
    }
  }
  KernelRequest request = splash_request(DType::kBF16, 128);
  request.segments = true;
  request.soft_cap = 30;
  request.mask = Mask::local(600, 0) & Mask::causal();
  EXPECT_EQ(compile_for_tpu("v5p:2x2x1", request), "");
}

}  // namespace
}  // namespace ringmax::attention::splash
