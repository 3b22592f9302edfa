// Attention cases with an answer known from mathematics, as a table that any
// kernel, ring size and layout is run through, and inputs with a large spread.
#ifndef RINGMAX_ATTENTION_TESTING_CASES_H_
#define RINGMAX_ATTENTION_TESTING_CASES_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "ringmax/attention/layout.h"
#include "ringmax/attention/mask.h"
#include "ringmax/attention/reference.h"

namespace ringmax::attention::testing {

struct Expectation {
  // One of out, lse, max_logits, dq, dk, dv, dsinks.
  std::string tensor;
  std::vector<double> values;
  double tolerance = 2e-5;   // of attention_error
  bool exact_zeros = false;  // where values are 0, so is the result, exactly
};

struct Case {
  std::string name;  // "case3_dq"
  Mask mask = Mask::causal();
  // `mask` within is set to the same mask, for the reference.
  ReferenceInputs inputs;
  std::vector<Expectation> expected;
};

// Cases 1 to 6, 10 and 20 with their closed forms, and 21 (logits of standard
// deviation 8 and more, the largest arriving in the last ring step) against
// the reference. Case 16 counts tokens and FLOPs; train's metrics test it.
std::vector<Case> known_cases();

// These, and what is attend()'s rather than a kernel's: 7 (windows), 8
// (documents, poisoned too), 9 (padding), 11 (sinks) and 12 (soft cap).
std::vector<Case> attend_cases();

// Every head `copies` times over, neighbours: for strategies that share out
// heads. What is expected is repeated, gradients of sinks included; of grouped
// heads, dk and dv are no longer expected.
Case repeat_heads(const Case& c, std::int64_t copies);

// Normal numbers of a standard deviation, the same for a seed everywhere.
std::vector<double> normal_values(std::int64_t count, double deviation,
                                  std::uint64_t seed);
// Random q, k, v and dout; q, k, v with the given deviation. Rounded to f32,
// so that an f32 kernel starts from the same numbers.
Case random_case(std::string name, const Mask& mask, std::int64_t batch,
                 std::int64_t queries, std::int64_t keys,
                 std::int64_t query_heads, std::int64_t kv_heads,
                 std::int64_t head_dim, double deviation, std::uint64_t seed);

// Every feature at once: two documents, padding, sinks, a soft cap, Dv != D, S
// != T, lengths that no ring divides.
Case everything_case();

// Runs a case on a ring of that size and returns its tensors in the original
// token order. Gradients may be empty only where inputs.dout is.
using RunCase = std::function<ReferenceOutputs(
    const Case&, std::int64_t ring_size, LayoutKind layout)>;

// What is wrong with the result of a case, one line a finding; empty if it
// is right.
std::vector<std::string> check_case(const Case& test_case,
                                    const ReferenceOutputs& result);

// Runs all known cases for ring sizes 1, 2, 3, 4, 5, 6 and 8 that divide both
// sequences, and returns all findings with case, ring size and layout.
std::vector<std::string> run_known_cases(const RunCase& run);

}  // namespace ringmax::attention::testing

#endif  // RINGMAX_ATTENTION_TESTING_CASES_H_
