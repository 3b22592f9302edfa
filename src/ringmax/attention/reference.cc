#include "ringmax/attention/reference.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "ringmax/base/error.h"

namespace ringmax::attention {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

void check_size(const char* name, std::size_t size, std::int64_t expected) {
  if (size != static_cast<std::size_t>(expected)) {
    fail_invalid("reference attention: {} has {} values, its shape needs {}",
                 name, size, expected);
  }
}

void check(const ReferenceInputs& in) {
  for (std::int64_t size : {in.batch, in.queries, in.keys, in.query_heads,
                            in.kv_heads, in.head_dim, in.value_dim}) {
    if (size < 1) fail_invalid("reference attention: every size is at least 1");
  }
  if (in.query_heads % in.kv_heads != 0) {
    fail_invalid(
        "reference attention: {} query heads are no multiple of {} "
        "key/value heads",
        in.query_heads, in.kv_heads);
  }
  const std::int64_t rows = in.batch * in.queries;
  const std::int64_t columns = in.batch * in.keys;
  check_size("q", in.q.size(), rows * in.query_heads * in.head_dim);
  check_size("k", in.k.size(), columns * in.kv_heads * in.head_dim);
  check_size("v", in.v.size(), columns * in.kv_heads * in.value_dim);
  if (!in.query_segments.empty() || !in.kv_segments.empty()) {
    check_size("query_segments", in.query_segments.size(), rows);
    check_size("kv_segments", in.kv_segments.size(), columns);
  }
  if (!in.sinks.empty()) check_size("sinks", in.sinks.size(), in.query_heads);
  if (!in.dout.empty()) {
    check_size("dout", in.dout.size(), rows * in.query_heads * in.value_dim);
  }
  if (in.soft_cap && !(*in.soft_cap > 0)) {
    fail_invalid("reference attention: soft_cap must be positive, got {}",
                 *in.soft_cap);
  }
}

// Four sums side by side, which the compiler may not make of one.
double dot(const double* a, const double* b, std::int64_t n) {
  double sums[4] = {0, 0, 0, 0};
  std::int64_t i = 0;
  for (; i + 4 <= n; i += 4) {
    for (std::int64_t l = 0; l < 4; ++l) sums[l] += a[i + l] * b[i + l];
  }
  for (; i < n; ++i) sums[0] += a[i] * b[i];
  return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

void add_scaled(double* to, double factor, const double* x, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) to[i] += factor * x[i];
}

struct Visible {
  std::int64_t key;
  double probability;  // the logit until the row is normalised
  double slope;        // d logit / d (q . k)
};

// One query of one head.
class Row {
 public:
  Row(const ReferenceInputs& in, std::int64_t b, std::int64_t i, std::int64_t h)
      : in_(in), b_(b), i_(i), h_(h) {}

  void forward(ReferenceOutputs& result) {
    collect();
    const double max_logit = this->max_logit();
    const double top =
        in_.sinks.empty() ? max_logit : std::max(max_logit, sink());
    double total = in_.sinks.empty() ? 0 : std::exp(sink() - top);
    sink_probability_ = total;
    for (Visible& entry : visible_) {
      entry.probability = std::exp(entry.probability - top);
      total += entry.probability;
    }
    const std::size_t row = static_cast<std::size_t>(row_index());
    result.max_logits[row] = max_logit;
    result.lse[row] = total > 0 ? top + std::log(total) : -kInfinity;
    if (visible_.empty()) {
      sink_probability_ = in_.sinks.empty() ? 0 : 1;
      return;
    }
    sink_probability_ /= total;
    double* out = &result.out[row * static_cast<std::size_t>(in_.value_dim)];
    for (Visible& entry : visible_) {
      entry.probability /= total;
      add_scaled(out, entry.probability, value(entry.key), in_.value_dim);
    }
  }

  // With p the probabilities and g_j = dout . v_j: dv_j += p_j dout,
  // dlogit_j = p_j (g_j - sum_l p_l g_l), and the sink, whose g is 0, gets
  // -p_sink sum_l p_l g_l.
  void backward(ReferenceOutputs& result) const {
    const double* dout = &in_.dout[offset(row_index(), in_.value_dim)];
    std::vector<double> g;
    double mean = 0;
    for (const Visible& entry : visible_) {
      g.push_back(dot(dout, value(entry.key), in_.value_dim));
      mean += entry.probability * g.back();
    }
    double* dq = &result.dq[offset(row_index(), in_.head_dim)];
    const double* q = &in_.q[offset(row_index(), in_.head_dim)];
    for (std::size_t n = 0; n < visible_.size(); ++n) {
      const Visible& entry = visible_[n];
      const double dscore = entry.probability * (g[n] - mean) * entry.slope;
      const std::int64_t at = key_index(entry.key);
      add_scaled(dq, dscore, &in_.k[offset(at, in_.head_dim)], in_.head_dim);
      add_scaled(&result.dk[offset(at, in_.head_dim)], dscore, q, in_.head_dim);
      add_scaled(&result.dv[offset(at, in_.value_dim)], entry.probability, dout,
                 in_.value_dim);
    }
    if (!in_.sinks.empty()) {
      result.dsinks[static_cast<std::size_t>(h_)] -= sink_probability_ * mean;
    }
  }

 private:
  static std::size_t offset(std::int64_t index, std::int64_t width) {
    return static_cast<std::size_t>(index * width);
  }
  std::int64_t row_index() const {
    return (b_ * in_.queries + i_) * in_.query_heads + h_;
  }
  std::int64_t key_index(std::int64_t j) const {
    const std::int64_t kv_head = h_ / (in_.query_heads / in_.kv_heads);
    return (b_ * in_.keys + j) * in_.kv_heads + kv_head;
  }
  const double* value(std::int64_t j) const {
    return &in_.v[offset(key_index(j), in_.value_dim)];
  }
  double sink() const { return in_.sinks[static_cast<std::size_t>(h_)]; }

  bool sees(std::int64_t j) const {
    if (in_.mask && !in_.mask(i_, j)) return false;
    if (in_.query_segments.empty()) return true;
    const std::int32_t segment =
        in_.query_segments[offset(b_ * in_.queries + i_, 1)];
    return segment != 0 &&
           segment == in_.kv_segments[offset(b_ * in_.keys + j, 1)];
  }

  void collect() {
    const double* q = &in_.q[offset(row_index(), in_.head_dim)];
    for (std::int64_t j = 0; j < in_.keys; ++j) {
      if (!sees(j)) continue;
      double logit =
          in_.scale *
          dot(q, &in_.k[offset(key_index(j), in_.head_dim)], in_.head_dim);
      double slope = in_.scale;
      if (in_.soft_cap) {
        const double t = std::tanh(logit / *in_.soft_cap);
        logit = *in_.soft_cap * t;
        slope *= 1 - t * t;
      }
      visible_.push_back({j, logit, slope});
    }
  }

  double max_logit() const {
    double top = -kInfinity;
    for (const Visible& entry : visible_) {
      top = std::max(top, entry.probability);
    }
    return top;
  }

  const ReferenceInputs& in_;
  std::int64_t b_, i_, h_;
  std::vector<Visible> visible_;
  double sink_probability_ = 0;
};

}  // namespace

ReferenceOutputs reference_attention(const ReferenceInputs& in) {
  check(in);
  const std::int64_t rows = in.batch * in.queries * in.query_heads;
  ReferenceOutputs result;
  result.out.assign(static_cast<std::size_t>(rows * in.value_dim), 0);
  result.lse.assign(static_cast<std::size_t>(rows), -kInfinity);
  result.max_logits.assign(static_cast<std::size_t>(rows), -kInfinity);
  if (!in.dout.empty()) {
    result.dq.assign(in.q.size(), 0);
    result.dk.assign(in.k.size(), 0);
    result.dv.assign(in.v.size(), 0);
    result.dsinks.assign(in.sinks.size(), 0);
  }
  // Heads outside, so that a head's keys and values stay in cache.
  for (std::int64_t b = 0; b < in.batch; ++b) {
    for (std::int64_t h = 0; h < in.query_heads; ++h) {
      for (std::int64_t i = 0; i < in.queries; ++i) {
        Row row(in, b, i, h);
        row.forward(result);
        if (!in.dout.empty()) row.backward(result);
      }
    }
  }
  return result;
}

double attention_error(const std::vector<double>& x,
                       const std::vector<double>& ref) {
  if (x.size() != ref.size()) return kInfinity;
  double worst = 0;
  double largest = 1;
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (x[i] == ref[i]) {
      if (std::isfinite(ref[i])) largest = std::max(largest, std::abs(ref[i]));
      continue;
    }
    if (!std::isfinite(x[i]) || !std::isfinite(ref[i])) return kInfinity;
    worst = std::max(worst, std::abs(x[i] - ref[i]));
    largest = std::max(largest, std::abs(ref[i]));
  }
  return worst / largest;
}

}  // namespace ringmax::attention
