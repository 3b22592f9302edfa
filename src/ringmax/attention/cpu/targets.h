// The instruction sets that kernels are built for. Include before Highway's
// foreach_target.h; the machine's best one is chosen at run time.
#ifndef RINGMAX_ATTENTION_CPU_TARGETS_H_
#define RINGMAX_ATTENTION_CPU_TARGETS_H_

// AVX-512, AVX2, SSE4 for older machines, NEON on Arm; not those whose vectors
// have no size known to the compiler: kernels keep arrays of vectors.
#define HWY_DISABLED_TARGETS \
  (HWY_SSSE3 | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV)

#endif  // RINGMAX_ATTENTION_CPU_TARGETS_H_
