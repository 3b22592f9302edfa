// Whether this processor adds products of pairs of bfloat16 to float32 sums by
// itself (vdpbf16ps), which no instruction set of Highway 1.0 tells.
#ifndef RINGMAX_ATTENTION_CPU_BF16_DOTS_H_
#define RINGMAX_ATTENTION_CPU_BF16_DOTS_H_

namespace ringmax::attention::cpu {

bool has_bf16_dots();

// For tests: from now on the answer is no, or the processor's again.
void hide_bf16_dots(bool hidden);

}  // namespace ringmax::attention::cpu

#endif  // RINGMAX_ATTENTION_CPU_BF16_DOTS_H_
