#include "ringmax/attention/cpu/kernel.h"

#include "ringmax/attention/cpu/contiguous.h"
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
  Problem p = problem;
  BackwardInputs in = inputs;
  const std::size_t bytes = dtype_size(p.dtype);
  const std::int64_t heads = p.kv_heads * p.groups;
  const RowSizes q_sizes{p.batch, heads, p.queries, p.head_dim};
  const RowSizes dout_sizes{p.batch, heads, p.queries, p.value_dim};
  const RowSizes k_sizes{p.batch, p.kv_heads, p.keys, p.head_dim};
  const RowSizes v_sizes{p.batch, p.kv_heads, p.keys, p.value_dim};
  const ContiguousRows q(p.q, q_sizes, bytes, workers);
  const ContiguousRows k(p.k, k_sizes, bytes, workers);
  const ContiguousRows v(p.v, v_sizes, bytes, workers);
  const ContiguousRows dout(in.dout, dout_sizes, bytes, workers);
  const ContiguousSums dq(in.dq, q_sizes, in.fresh, workers);
  const ContiguousSums dk(in.dk, k_sizes, in.fresh, workers);
  const ContiguousSums dv(in.dv, v_sizes, in.fresh, workers);
  p.q = q.rows();
  p.k = k.rows();
  p.v = v.rows();
  in.dout = dout.rows();
  in.dq = dq.rows();
  in.dk = dk.rows();
  in.dv = dv.rows();
  HWY_DYNAMIC_DISPATCH(backward)(p, in, workers);
  for (const ContiguousSums* sums : {&dq, &dk, &dv}) sums->finish(workers);
}

const char* instruction_set() { return HWY_DYNAMIC_DISPATCH(target_name)(); }

}  // namespace ringmax::attention::cpu
#endif
