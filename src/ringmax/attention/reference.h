// Attention in double precision, written straight from its formulas: what
// every kernel and every ring is held against.
//
// It shares no code with anything that it checks: masks come in as a
// predicate, there are no blocks, no online softmax and no log-sum-exp in the
// gradients. It is dense in time, not in memory, and runs on one thread.
#ifndef RINGMAX_ATTENTION_REFERENCE_H_
#define RINGMAX_ATTENTION_REFERENCE_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

namespace ringmax::attention {

// All tensors are row-major doubles. Legend: B batch, S queries, T keys, H
// query heads, K key/value heads, D head size, E value head size. Query head h
// reads key/value head h / (H / K).
struct ReferenceInputs {
  std::int64_t batch = 1;
  std::int64_t queries = 0;
  std::int64_t keys = 0;
  std::int64_t query_heads = 1;
  std::int64_t kv_heads = 1;
  std::int64_t head_dim = 1;
  std::int64_t value_dim = 1;
  std::vector<double> q;  // [B, S, H, D]
  std::vector<double> k;  // [B, T, K, D]
  std::vector<double> v;  // [B, T, K, E]
  double scale = 1;
  // Whether query i sees key j; none means all.
  std::function<bool(std::int64_t, std::int64_t)> mask;
  // Both or neither: [B, S] and [B, T]. A pair is visible only within one
  // segment; segment 0 is padding, sees nothing and is seen by nothing.
  std::vector<std::int32_t> query_segments;
  std::vector<std::int32_t> kv_segments;
  // logit = cap * tanh(score * scale / cap).
  std::optional<double> soft_cap;
  // [H] or empty: one more logit a head, which takes part in the softmax's
  // denominator and carries no value.
  std::vector<double> sinks;
  // [B, S, H, E] or empty; asks for gradients.
  std::vector<double> dout;
};

struct ReferenceOutputs {
  std::vector<double> out;         // [B, S, H, E]; 0 for a row seeing nothing
  std::vector<double> lse;         // [B, S, H] natural log, sink included
  std::vector<double> max_logits;  // [B, S, H] capped, without the sink
  // Empty without dout.
  std::vector<double> dq, dk, dv;
  std::vector<double> dsinks;  // [H], empty without sinks
};

// A row that sees nothing has out 0 and zero gradients, max_logits -inf, and
// the sink (-inf without one) as its lse. Throws kInvalidArgument naming the
// tensor whose size does not fit, or heads that do not divide.
ReferenceOutputs reference_attention(const ReferenceInputs& inputs);

// max|x - ref| / max(1, max|ref|), the meaning of "error" in all tests. Equal
// infinities differ by 0; a NaN, an infinity on one side only or different
// sizes give infinity.
double attention_error(const std::vector<double>& x,
                       const std::vector<double>& ref);

}  // namespace ringmax::attention

#endif  // RINGMAX_ATTENTION_REFERENCE_H_
