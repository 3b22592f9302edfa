#include "ringmax/attention/testing/cases.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "ringmax/base/error.h"

namespace ringmax::attention::testing {
namespace {

constexpr std::int64_t kTokens = 16;

double harmonic(std::int64_t n) {
  double sum = 0;
  for (std::int64_t i = 1; i <= n; ++i) sum += 1.0 / static_cast<double>(i);
  return sum;
}

void set_mask(Case& c, const Mask& mask) {
  c.mask = mask;
  c.inputs.mask = [mask](std::int64_t i, std::int64_t j) {
    return mask.visible(i, j);
  };
}

std::vector<double> make(std::int64_t count,
                         const std::function<double(std::int64_t)>& f) {
  std::vector<double> values;
  for (std::int64_t i = 0; i < count; ++i) values.push_back(f(i));
  return values;
}

double as_double(std::int64_t i) { return static_cast<double>(i); }

// One head of size 1, q = k = 0, v_j = j, dout = 1, causal.
Case uniform(std::string name, std::int64_t tokens = kTokens) {
  Case c;
  c.name = std::move(name);
  set_mask(c, Mask::causal());
  c.inputs.queries = c.inputs.keys = tokens;
  c.inputs.q.assign(static_cast<std::size_t>(tokens), 0);
  c.inputs.k = c.inputs.q;
  c.inputs.v = make(tokens, as_double);
  c.inputs.dout.assign(static_cast<std::size_t>(tokens), 1);
  return c;
}

Case case1() {
  Case c = uniform("case1_forward");
  c.expected = {
      {"out", make(kTokens, [](auto i) { return as_double(i) / 2; })},
      {"lse", make(kTokens, [](auto i) { return std::log(as_double(i + 1)); })},
      {"max_logits", make(kTokens, [](auto) { return 0.0; })}};
  return c;
}

Case case2() {
  Case c = uniform("case2_dv");
  c.expected = {{"dv", make(kTokens, [](auto j) {
                   return harmonic(kTokens) - harmonic(j);
                 })}};
  return c;
}

Case case3() {
  Case c = uniform("case3_dq");
  c.inputs.k = make(kTokens, as_double);
  c.expected = {{"dq", make(kTokens, [](auto i) {
                   return as_double(i) * as_double(i + 2) / 12;
                 })}};
  return c;
}

Case case4() {
  Case c = uniform("case4_log_base");
  c.inputs.v = make(kTokens, [](auto j) { return j >= 8 ? 1.0 : 0.0; });
  c.expected = {{"out", make(kTokens, [](auto i) {
                   return i < 8 ? 0.0 : as_double(i - 7) / as_double(i + 1);
                 })}};
  return c;
}

// One half of the keys has logit 0, the other `extreme`. exp(-200) is below
// any f64 that could show beside 1.
Case case5(double extreme, bool extreme_first, const Mask& mask) {
  Case c =
      uniform(fmt::format("case5_extreme_{}_{}_{}", extreme,
                          extreme_first ? "first" : "last", mask.to_string()));
  set_mask(c, mask);
  c.inputs.q.assign(kTokens, 1);
  const auto logit = [=](std::int64_t j) {
    return (j < kTokens / 2) == extreme_first ? extreme : 0.0;
  };
  c.inputs.k = make(kTokens, logit);
  Expectation out{"out", {}};
  Expectation lse{"lse", {}};
  Expectation top{"max_logits", {}};
  for (std::int64_t i = 0; i < kTokens; ++i) {
    double largest = -std::numeric_limits<double>::infinity();
    for (std::int64_t j = 0; j < kTokens; ++j) {
      if (mask.visible(i, j)) largest = std::max(largest, logit(j));
    }
    double count = 0;
    double sum = 0;
    for (std::int64_t j = 0; j < kTokens; ++j) {
      if (!mask.visible(i, j) || logit(j) != largest) continue;
      count += 1;
      sum += as_double(j);
    }
    out.values.push_back(sum / count);
    lse.values.push_back(largest + std::log(count));
    top.values.push_back(largest);
  }
  c.expected = {out, lse, top};
  return c;
}

Case case5_all_low() {
  Case c = uniform("case5_all_minus_60000");
  c.inputs.q.assign(kTokens, 1);
  c.inputs.k.assign(kTokens, -60000);
  c.expected = {{"out", make(kTokens, [](auto i) { return as_double(i) / 2; })},
                {"lse", make(kTokens, [](auto i) {
                   return -60000 + std::log(as_double(i + 1));
                 })}};
  return c;
}

// The first `blind` rows see nothing: query i sees j <= i - blind. With one
// blind row only row 0 is empty; with more than a shard's tokens, so are all
// rows of the first shards, and every row in some ring shards.
Case case6(std::int64_t blind, double blind_dout) {
  Case c = uniform(fmt::format("case6_blind_{}_dout_{}", blind, blind_dout));
  set_mask(c, Mask::causal(-blind));
  c.inputs.k = make(kTokens, as_double);
  for (std::int64_t i = 0; i < blind; ++i) {
    c.inputs.dout[static_cast<std::size_t>(i)] = blind_dout;
  }
  const auto shifted = [=](auto f) {
    return make(kTokens,
                [=](std::int64_t i) { return i < blind ? 0.0 : f(i - blind); });
  };
  const double infinity = std::numeric_limits<double>::infinity();
  Expectation dv{"dv", make(kTokens, [=](std::int64_t j) {
                   return harmonic(kTokens - blind) -
                          harmonic(std::min(j, kTokens - blind));
                 })};
  dv.exact_zeros = true;
  Expectation dk{"dk", std::vector<double>(kTokens, 0)};
  dk.exact_zeros = true;  // q = 0
  Expectation out{"out", shifted([](auto n) { return as_double(n) / 2; })};
  out.exact_zeros = true;
  Expectation dq{"dq", shifted([](auto n) {
                   return as_double(n) * as_double(n + 2) / 12;
                 })};
  // Row `blind` sees one key: its dq is 0 by cancellation and need not be
  // exact. check_case asks for exact zeros in the blind rows alone.
  c.expected = {
      out, dq, dk, dv, {"lse", make(kTokens, [=](std::int64_t i) {
                          return i < blind ? -infinity
                                           : std::log(as_double(i - blind + 1));
                        })}};
  return c;
}

Case case10() {
  Case c = uniform("case10_gqa");
  constexpr std::int64_t kHeads = 8;
  constexpr std::int64_t kKvHeads = 2;
  c.inputs.query_heads = kHeads;
  c.inputs.kv_heads = kKvHeads;
  c.inputs.q.assign(kTokens * kHeads, 0);
  c.inputs.k.assign(kTokens * kKvHeads, 0);
  c.inputs.v =
      make(kTokens * kKvHeads, [](auto n) { return as_double(n / kKvHeads); });
  c.inputs.dout =
      make(kTokens * kHeads, [](auto n) { return as_double(n % kHeads + 1); });
  c.expected = {{"out", make(kTokens * kHeads,
                             [](auto n) { return as_double(n / kHeads) / 2; })},
                {"dv", make(kTokens * kKvHeads, [](auto n) {
                   return (n % kKvHeads == 0 ? 10 : 26) *
                          (harmonic(kTokens) - harmonic(n / kKvHeads));
                 })}};
  return c;
}

// A window of 6, itself included.
Case case7() {
  Case c = uniform("case7_window");
  set_mask(c, Mask::local(5, 0));
  const auto first = [](std::int64_t i) {
    return std::max<std::int64_t>(0, i - 5);
  };
  c.expected = {
      {"out",
       make(kTokens, [=](auto i) { return as_double(first(i) + i) / 2; })},
      {"lse", make(kTokens, [=](auto i) {
         return std::log(as_double(i - first(i) + 1));
       })}};
  return c;
}

// Documents of 6 and 10 tokens; `poison` stands in the first one's values as
// seen from the second, or is 0.
Case case8(bool poison) {
  constexpr std::int64_t kFirst = 6;
  Case c = uniform(poison ? "case8_poisoned" : "case8_documents");
  for (std::int64_t i = 0; i < kTokens; ++i) {
    c.inputs.query_segments.push_back(i < kFirst ? 1 : 2);
    if (poison && i < kFirst) c.inputs.v[static_cast<std::size_t>(i)] = 1e9;
  }
  c.inputs.kv_segments = c.inputs.query_segments;
  c.expected = {{"out", make(kTokens,
                             [=](auto i) {
                               if (i >= kFirst)
                                 return as_double(kFirst + i) / 2;
                               return poison ? 1e9 : as_double(i) / 2;
                             })},
                {"dv", make(kTokens, [](auto j) {
                   return j < kFirst ? harmonic(kFirst) - harmonic(j)
                                     : harmonic(kTokens - kFirst) -
                                           harmonic(j - kFirst);
                 })}};
  if (poison) {
    // The error is relative to the largest number, and 1e9 would hide all else.
    c.expected.erase(c.expected.begin());
  }
  return c;
}

// 7 real tokens; the eighth is in nobody's segment.
Case case9() {
  constexpr std::int64_t kReal = 7;
  Case c = uniform("case9_padding", kReal + 1);
  c.inputs.query_segments.assign(kReal, 1);
  c.inputs.query_segments.push_back(0);
  c.inputs.kv_segments = c.inputs.query_segments;
  c.inputs.dout.back() = 1e6;
  const double infinity = std::numeric_limits<double>::infinity();
  const auto real = [](auto f) {
    return make(kReal + 1,
                [=](std::int64_t i) { return i < kReal ? f(i) : 0; });
  };
  c.expected = {
      {"out", real([](auto i) { return as_double(i) / 2; }), 2e-5, true},
      {"dv", real([](auto j) { return harmonic(kReal) - harmonic(j); }), 2e-5,
       true},
      {"dk", std::vector<double>(kReal + 1, 0), 2e-5, true},
      {"dq", std::vector<double>(kReal + 1, 0), 2e-5},
      {"lse", make(kReal + 1, [=](auto i) {
         return i < kReal ? std::log(as_double(i + 1)) : -infinity;
       })}};
  return c;
}

// Eight visible keys and a sink as heavy as all of them.
Case case11() {
  constexpr std::int64_t kKeys = 8;
  Case c = uniform("case11_sink", kKeys);
  set_mask(c, Mask::full());
  c.inputs.v.assign(kKeys, 1);
  c.inputs.sinks = {std::log(8.0)};
  c.expected = {{"out", std::vector<double>(kKeys, 0.5)},
                {"lse", std::vector<double>(kKeys, std::log(16.0))},
                {"max_logits", std::vector<double>(kKeys, 0)},
                {"dv", std::vector<double>(kKeys, 0.5)},
                {"dsinks", {-0.25 * kKeys}}};
  return c;
}

// A raw score of 2 under a cap of 2, and lower ones.
Case case12() {
  Case c = uniform("case12_soft_cap");
  c.inputs.soft_cap = 2;
  c.inputs.q.assign(kTokens, 2);
  c.inputs.k = make(kTokens, [](auto j) {
    return j % 3 == 0 ? 1.0 : 0.25 * as_double(j % 3);
  });
  const ReferenceOutputs ref = reference_attention(c.inputs);
  c.expected = {{"max_logits", std::vector<double>(kTokens, 1.523188), 1e-6},
                {"out", ref.out},
                {"dq", ref.dq, 5e-5},
                {"dk", ref.dk, 5e-5}};
  return c;
}

// Largest logits in the first keys: on a ring they reach the last device in
// the last step, and every statistic gathered before is rescaled.
Case case21() {
  Case c = random_case("case21_late_maximum", Mask::causal(), 1, 24, 24, 2, 1,
                       8, 3, 21);
  for (std::size_t n = 0; n < 3 * 8; ++n) {
    c.inputs.k[n] *= 4;
  }
  return c;
}

void add_reference(Case& c) {
  const ReferenceOutputs ref = reference_attention(c.inputs);
  c.expected = {{"out", ref.out},
                {"lse", ref.lse},
                {"max_logits", ref.max_logits},
                {"dq", ref.dq, 5e-5},
                {"dk", ref.dk, 5e-5},
                {"dv", ref.dv, 5e-5}};
}

const std::vector<double>& tensor_of(const ReferenceOutputs& result,
                                     const std::string& name) {
  if (name == "out") return result.out;
  if (name == "lse") return result.lse;
  if (name == "max_logits") return result.max_logits;
  if (name == "dq") return result.dq;
  if (name == "dk") return result.dk;
  if (name == "dv") return result.dv;
  if (name == "dsinks") return result.dsinks;
  fail(ErrorCode::kInternal, "a case expects unknown tensor {}", name);
}

// SplitMix64: tiny, and the same everywhere.
double uniform_value(std::uint64_t& state) {
  state += 0x9E3779B97F4A7C15u;
  std::uint64_t z = state;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  z ^= z >> 31;
  return (static_cast<double>(z >> 11) + 0.5) * 0x1.0p-53;
}

}  // namespace

std::vector<Case> known_cases() {
  std::vector<Case> cases = {case1(), case2(), case3(), case4()};
  for (const Mask& mask : {Mask::causal(), Mask::full()}) {
    for (double extreme : {200.0, -200.0}) {
      for (bool first : {true, false}) {
        cases.push_back(case5(extreme, first, mask));
      }
    }
  }
  cases.push_back(case5_all_low());
  for (std::int64_t blind : {1, 5, 8}) {
    for (double dout : {0.0, 1e6}) cases.push_back(case6(blind, dout));
  }
  cases.push_back(case10());
  Case twenty_four = uniform("case1_24_tokens", 24);
  twenty_four.expected = {
      {"out", make(24, [](auto i) { return as_double(i) / 2; })}};
  cases.push_back(twenty_four);
  Case thirty = uniform("case2_30_tokens", 30);
  thirty.expected = {
      {"dv", make(30, [](auto j) { return harmonic(30) - harmonic(j); })}};
  cases.push_back(thirty);
  Case late = case21();
  add_reference(late);
  cases.push_back(late);
  Case wide =
      random_case("case21_full_gqa", Mask::full(), 2, 24, 24, 4, 2, 8, 3, 22);
  add_reference(wide);
  cases.push_back(wide);
  return cases;
}

std::vector<Case> attend_cases() {
  std::vector<Case> cases = known_cases();
  for (Case& c : std::vector<Case>{case7(), case8(false), case8(true), case9(),
                                   case11(), case12()}) {
    cases.push_back(std::move(c));
  }
  return cases;
}

Case repeat_heads(const Case& c, std::int64_t copies) {
  Case many = c;
  ReferenceInputs& in = many.inputs;
  // Rows of one head's numbers, each `copies` times.
  const auto repeat = [&](std::vector<double>& values, std::int64_t row) {
    std::vector<double> result;
    for (std::size_t at = 0; at < values.size();
         at += static_cast<std::size_t>(row)) {
      for (std::int64_t n = 0; n < copies; ++n) {
        const auto begin = values.begin() + static_cast<std::ptrdiff_t>(at);
        result.insert(result.end(), begin, begin + row);
      }
    }
    values = std::move(result);
  };
  repeat(in.q, in.head_dim);
  repeat(in.k, in.head_dim);
  repeat(in.v, in.value_dim);
  repeat(in.dout, in.value_dim);
  repeat(in.sinks, 1);
  if (in.query_heads != in.kv_heads) {
    // Copies of a kv head are then read by copies of different query heads.
    std::erase_if(many.expected, [](const Expectation& expected) {
      return expected.tensor == "dk" || expected.tensor == "dv";
    });
  }
  for (Expectation& expected : many.expected) {
    const std::string& name = expected.tensor;
    const bool of_values = name == "out" || name == "dv";
    const bool of_keys = name == "dq" || name == "dk";
    repeat(expected.values, of_values ? in.value_dim
                            : of_keys ? in.head_dim
                                      : 1);
  }
  in.query_heads *= copies;
  in.kv_heads *= copies;
  return many;
}

std::vector<double> normal_values(std::int64_t count, double deviation,
                                  std::uint64_t seed) {
  std::uint64_t state = seed;
  return make(count, [&](std::int64_t) {
    const double radius = std::sqrt(-2 * std::log(uniform_value(state)));
    const double angle = 2 * std::numbers::pi * uniform_value(state);
    return static_cast<double>(
        static_cast<float>(deviation * radius * std::cos(angle)));
  });
}

Case random_case(std::string name, const Mask& mask, std::int64_t batch,
                 std::int64_t queries, std::int64_t keys,
                 std::int64_t query_heads, std::int64_t kv_heads,
                 std::int64_t head_dim, double deviation, std::uint64_t seed) {
  Case c;
  c.name = std::move(name);
  set_mask(c, mask);
  ReferenceInputs& in = c.inputs;
  in.batch = batch;
  in.queries = queries;
  in.keys = keys;
  in.query_heads = query_heads;
  in.kv_heads = kv_heads;
  in.head_dim = in.value_dim = head_dim;
  in.scale = 1 / std::sqrt(static_cast<double>(head_dim));
  const std::int64_t q_size = batch * queries * query_heads * head_dim;
  const std::int64_t kv_size = batch * keys * kv_heads * head_dim;
  in.q = normal_values(q_size, deviation, seed * 4);
  in.k = normal_values(kv_size, deviation, seed * 4 + 1);
  in.v = normal_values(kv_size, deviation, seed * 4 + 2);
  in.dout = normal_values(q_size, 1, seed * 4 + 3);
  return c;
}

std::vector<std::string> check_case(const Case& c,
                                    const ReferenceOutputs& result) {
  std::vector<std::string> findings;
  for (const Expectation& expected : c.expected) {
    const std::vector<double>& got = tensor_of(result, expected.tensor);
    const double error = attention_error(got, expected.values);
    if (!(error <= expected.tolerance)) {
      findings.push_back(
          fmt::format("{}: {} has error {:.3g}, more than {:.3g}", c.name,
                      expected.tensor, error, expected.tolerance));
      continue;
    }
    for (std::size_t i = 0; expected.exact_zeros && i < got.size(); ++i) {
      if (expected.values[i] == 0 && got[i] != 0) {
        findings.push_back(fmt::format("{}: {}[{}] is {:.3g}, not exactly 0",
                                       c.name, expected.tensor, i, got[i]));
      }
    }
  }
  // Case 6 in general: a row that sees nothing has exactly zero gradients.
  const ReferenceInputs& in = c.inputs;
  const std::int64_t row_width = in.query_heads * in.head_dim;
  for (std::int64_t i = 0; i < in.queries && !result.dq.empty(); ++i) {
    if (c.mask.count(PositionRange{i, i + 1}, PositionRange{0, in.keys}) > 0)
      continue;
    for (std::int64_t n = 0; n < in.batch * row_width; ++n) {
      const std::int64_t at =
          (n / row_width * in.queries + i) * row_width + n % row_width;
      if (result.dq[static_cast<std::size_t>(at)] != 0) {
        findings.push_back(
            fmt::format("{}: dq of blind row {} is not exactly 0", c.name, i));
        break;
      }
    }
  }
  return findings;
}

std::vector<std::string> run_known_cases(const RunCase& run) {
  std::vector<std::string> findings;
  for (const Case& c : known_cases()) {
    for (std::int64_t ring : {1, 2, 3, 4, 5, 6, 8}) {
      if (c.inputs.queries % ring != 0 || c.inputs.keys % ring != 0) continue;
      const LayoutKind layout = LayoutKind::kContiguous;
      for (const std::string& finding : check_case(c, run(c, ring, layout))) {
        findings.push_back(
            fmt::format("ring {} {}: {}", ring, layout_name(layout), finding));
      }
    }
  }
  return findings;
}

Case everything_case() {
  Case c = random_case("everything", Mask::causal(4), 2, 21, 23, 4, 2, 8, 2, 9);
  ReferenceInputs& in = c.inputs;
  in.value_dim = 5;
  in.v = normal_values(2 * 23 * 2 * 5, 2, 91);
  in.dout = normal_values(2 * 21 * 4 * 5, 1, 92);
  in.soft_cap = 3;
  in.sinks = {0.5, -1, 2, 0};
  for (std::int64_t b = 0; b < 2; ++b) {
    const auto segment = [&](std::int64_t i) {
      return static_cast<std::int32_t>(i > 18 ? 0 : i < 7 + 4 * b ? 1 : 2);
    };
    for (std::int64_t i = 0; i < 21; ++i) {
      in.query_segments.push_back(segment(i));
    }
    for (std::int64_t i = 0; i < 23; ++i) in.kv_segments.push_back(segment(i));
  }
  return c;
}

}  // namespace ringmax::attention::testing
