#include "ringmax/attention/splash/backend.h"

#include <fmt/format.h>

#include "ringmax/attention/splash/blocks.h"
#include "ringmax/attention/splash/splash.h"
#include "ringmax/base/error.h"
#include "ringmax/kernel/call.h"

namespace ringmax::attention::splash {
namespace {

class SplashBackend : public Backend {
 public:
  explicit SplashBackend(kernel::Lowering lowering) : lowering_(lowering) {}

  std::string_view name() const override {
    return on_tpu() ? "mosaic" : "mosaic_twin";
  }
  bool automatic(const hw::Target& target) const override {
    return on_tpu() && target.platform == "tpu";
  }
  std::optional<KernelRequest::BlockLengths> own_blocks() const override {
    // On a TPU these stand for what the kernel's cycles say (blocks.h).
    return on_tpu() ? std::optional(KernelRequest::BlockLengths{})
                    : std::nullopt;
  }

  std::optional<std::string> refusal(const KernelRequest& request,
                                     const hw::Target& target) const override {
    if (on_tpu() && target.platform != "tpu") {
      return fmt::format(
          "{} is for TPUs, and the target is {}; kernel=mosaic_twin runs the "
          "same kernels anywhere",
          name(), target.platform);
    }
    if (request.dtype != DType::kF32 && request.dtype != DType::kBF16) {
      return fmt::format("dtype {}; float32 and bfloat16 are supported",
                         dtype_name(request.dtype));
    }
    try {
      forward_spec(request);
      backward_spec(request);
    } catch (const Error& error) {
      // Blocks that somebody asked for are an error, whatever else would do.
      if (error.code() != ErrorCode::kResourceExhausted) throw;
      return error.message();
    }
    return std::nullopt;
  }

  KernelPartial forward(const KernelRequest& request,
                        const KernelOperands& operands) const override {
    return splash_forward(request, operands, caller());
  }
  KernelGradients backward(const KernelRequest& request,
                           const KernelOperands& operands,
                           graph::Value dout_BKGSV, graph::Value lse_BKGS,
                           graph::Value delta_BKGS,
                           const KernelGradients& so_far) const override {
    return splash_backward(request, operands, dout_BKGSV, lse_BKGS, delta_BKGS,
                           so_far, caller());
  }

 private:
  bool on_tpu() const { return lowering_ == kernel::Lowering::kMosaic; }
  Caller caller() const {
    return [lowering = lowering_](const kernel::Kernel& kernel,
                                  const graph::Values& operands) {
      return kernel::call(kernel, lowering, operands);
    };
  }

  kernel::Lowering lowering_;
};

}  // namespace

const Backend& mosaic_backend() {
  static const SplashBackend backend(kernel::Lowering::kMosaic);
  return backend;
}

const Backend& mosaic_twin_backend() {
  static const SplashBackend backend(kernel::Lowering::kTwin);
  return backend;
}

}  // namespace ringmax::attention::splash
