// Partial results of attention over parts of the keys: how they meet, and how
// sinks join at the very end. float32, natural log (see backend.h).
#ifndef RINGMAX_ATTENTION_PARTIAL_H_
#define RINGMAX_ATTENTION_PARTIAL_H_

#include "ringmax/attention/backend.h"
#include "ringmax/graph/graph.h"

namespace ringmax::attention {

// Of no keys at all: out 0, sum 0, max -inf. `q` gives the sizes.
KernelPartial empty_partial(graph::Value q_BKGSD, std::int64_t value_dim);

// Of the keys of both; empty ones change nothing, to the bit.
KernelPartial merge(const KernelPartial& a, const KernelPartial& b);

// log(sum), relative to the maximum: -inf for a row that sees nothing; and the
// log-sum-exp itself.
graph::Value log_sum(const KernelPartial& partial);
graph::Value log_sum_exp(const KernelPartial& partial);

// With one more logit a head in every row's sum, without a value: out shrinks,
// and what is called max here is the larger of the keys' and the sink. sinks
// f32 [K, G].
KernelPartial with_sinks(const KernelPartial& partial, graph::Value sinks_KG);

}  // namespace ringmax::attention

#endif  // RINGMAX_ATTENTION_PARTIAL_H_
