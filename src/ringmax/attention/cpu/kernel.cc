#include "ringmax/attention/cpu/kernel.h"

#include "ringmax/attention/cpu/targets.h"

// The sources below are compiled once for each instruction set.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ringmax/attention/cpu/kernel.cc"
#include <hwy/foreach_target.h>  // must come before highway.h
#include <hwy/highway.h>

#include "ringmax/attention/cpu/backward-inl.h"
#include "ringmax/attention/cpu/forward-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ringmax::attention::cpu::HWY_NAMESPACE {

const char* target_name() {
#if RINGMAX_ATTENTION_CPU_PAIRS
  if (has_bf16_dots()) return "AVX3_BF16";
#endif
  return hwy::TargetName(HWY_TARGET);
}

}  // namespace ringmax::attention::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ringmax::attention::cpu {

HWY_EXPORT(forward);
HWY_EXPORT(backward);
HWY_EXPORT(target_name);

void forward(const Problem& problem, const ForwardResult& result,
             const Workers& workers) {
  HWY_DYNAMIC_DISPATCH(forward)(problem, result, workers);
}

void backward(const Problem& problem, const BackwardInputs& inputs,
              const Workers& workers) {
  HWY_DYNAMIC_DISPATCH(backward)(problem, inputs, workers);
}

const char* instruction_set() { return HWY_DYNAMIC_DISPATCH(target_name)(); }

}  // namespace ringmax::attention::cpu
#endif
