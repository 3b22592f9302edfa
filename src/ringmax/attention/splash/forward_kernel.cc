#include "ringmax/attention/splash/forward_kernel.h"

#include <algorithm>
#include <functional>
#include <limits>

#include "ringmax/attention/splash/walk_kernel.h"

namespace ringmax::attention::splash {

namespace k = ringmax::kernel;
using graph::ReduceKind;
using k::Values;

namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
// Where maxima begin among the lanes that sums share with them.
constexpr std::int64_t kHalf = kLanes / 2;

class Forward : public WalkKernel {
 public:
  explicit Forward(const KernelSpec& spec)
      : WalkKernel(spec, "splash_forward", /*heads=*/1, /*keys_first=*/false) {}

  std::unique_ptr<k::Kernel> build() {
    k::Kernel& kernel = *kernel_;
    declare_windows();
    m_ = kernel.scratch("max", f32({s_.block_q, kLanes}));
    l_ = kernel.scratch("sum", f32({s_.block_q, kLanes}));
    acc_ = kernel.scratch("acc", f32({s_.block_q, s_.value_dim}));

    // The end of a row clears for the next one, where stores have time.
    kernel.begin([&](const Values& g) { return k::equal(g[1], zero()); },
                 [&](const Values&) {
                   for (std::int64_t row = 0; row < s_.block_q; row += kLanes) {
                     clear(row);
                   }
                 });
    kernel.step([&](const Values& g) { step(g); });
    kernel.end([&](const Values& g) { return work(g).last(); },
               [&](const Values&) { finish(); });

    const double pairs = s_.visible_pairs();
    const double width = static_cast<double>(s_.head_dim + s_.value_dim);
    kernel.set_cost({2 * pairs * width, pairs, bytes()});
    kernel.set_vmem_limit_bytes(s_.vmem_limit_bytes);
    return std::move(kernel_);
  }

 private:
  void declare_windows() {
    k::Kernel& kernel = *kernel_;
    q_ = query_window("q", s_.head_dim);
    key_ = key_window("k", s_.head_dim);
    v_ = key_window("v", s_.value_dim);
    declare_slots();
    out_ = kernel.output("out", f32({s_.heads(), s_.queries, s_.value_dim}),
                         {1, s_.block_q, s_.value_dim},
                         [&](const Values& g) { return at_queries(g); });
    const std::int64_t groups = s_.block_q / kLanes;
    stats_ = kernel.output(
        "stats", f32({s_.heads(), s_.query_blocks(), 2, groups, kLanes}),
        {1, 1, 2, groups, kLanes}, [&](const Values& g) {
          return Values{g[0], place(g).query_block(), zero(), zero(), zero()};
        });
  }

  double bytes() const {
    const double element = static_cast<double>(dtype_size(s_.dtype));
    const double heads = static_cast<double>(s_.heads());
    const double q = static_cast<double>(s_.queries);
    const double width = static_cast<double>(s_.head_dim + s_.value_dim);
    return heads * q *
               (static_cast<double>(s_.head_dim) * element +
                static_cast<double>(s_.value_dim) * 4 + 8) +
           s_.visible_pairs() / static_cast<double>(s_.block_q) * width *
               element;
  }

  // One update of the softmax: the keys of a tile against its query rows.
  void tile(const Place&, const Tile& t, const Hide& hide) override {
    const Value at = k::multiple_of(t.keys, kLanes);
    const k::MatmulAttr by_row{1, 1, precision()};
    const Value q = k::load(q_, {0, t.row, 0}, {1, t.row_count, s_.head_dim});
    const Value key = k::load(key_, {0, at, 0}, {1, t.key_count, s_.head_dim});
    Value s = base2(k::matmul(q, key, by_row));
    if (hide) s = hide(s, -kInf);

    const k::Indices row0 = {t.row, 0};
    const Dims state = {t.row_count, kLanes};
    const Value m_old = k::load(m_, row0, state);
    const Value m_new = k::maximum(
        m_old, k::broadcast_to(k::reduce(s, 1, ReduceKind::kMax), state));
    k::store(m_, m_new, row0, state);
    // A row that has seen nothing keeps -inf, and -inf - -inf must not occur.
    const Value m =
        hide
            ? k::select(k::equal(m_new, k::number_like(m_new, -kInf)), 0, m_new)
            : m_new;
    const Value p = k::exp2(s - with_lanes(m, t.key_count));
    const Value alpha = k::exp2(m_old - m);
    Value l = k::load(l_, row0, state) * alpha;
    for (std::int64_t lane = 0; lane < t.key_count; lane += kLanes) {
      l = l + k::slice(p, {0, lane}, {t.row_count, kLanes});
    }
    k::store(l_, l, row0, state);
    const Value v = k::load(v_, {0, at, 0}, {1, t.key_count, s_.value_dim});
    const Dims acc_dims = {t.row_count, s_.value_dim};
    const Value scaled =
        k::load(acc_, row0, acc_dims) * with_lanes(alpha, s_.value_dim);
    k::store(acc_,
             scaled + k::matmul(k::convert(p, s_.dtype), v,
                                k::MatmulAttr{1, 0, precision()}),
             row0, acc_dims);
  }

  // Logits times log2(e).
  Value base2(Value scores) const {
    if (s_.soft_cap == 0) return scores * (s_.scale * kLog2E);
    return k::tanh(scores * (s_.scale / s_.soft_cap)) * (s_.soft_cap * kLog2E);
  }

  // kLanes rows that have seen nothing.
  void clear(std::int64_t row) {
    const auto fill = [&](k::Ref ref, std::int64_t width, double value) {
      const Dims dims = {kLanes, width};
      k::store(ref, k::constant(*kernel_, f32(dims), value), {row, 0}, dims);
    };
    fill(m_, kLanes, -kInf);
    fill(l_, kLanes, 0);
    fill(acc_, s_.value_dim, 0);
  }

  // Statistics are the same in all lanes of a row: those of the whole block,
  // 128 rows in a lane, fit one square, and one transposition turns them all.
  void finish() {
    k::Kernel& kernel = *kernel_;
    const Dims square = {kLanes, kLanes};
    const std::int64_t groups = s_.block_q / kLanes;
    const Value lane = k::iota(kernel, square, 1);
    Value both = k::constant(kernel, f32(square), 1);
    const auto put = [&](std::int64_t at, Value x) {
      const Value here =
          k::equal(lane, k::number_like(lane, static_cast<double>(at)));
      both = k::select(here, x, both);
    };
    for (std::int64_t j = 0; j < groups; ++j) {
      const k::Indices at = {j * kLanes, 0};
      const Value sum = k::broadcast_to(
          k::reduce(k::load(l_, at, square), 1, ReduceKind::kSum), square);
      put(j, sum);
      // A row that sees nothing has sum 0 and maximum -inf.
      const Value l = k::select(k::equal(sum, k::number_like(sum, 0)), 1, sum);
      put(kHalf + j, k::load(m_, at, square));
      const Value inverse = k::number_like(l, 1) / l;
      const Value acc = k::load(acc_, at, {kLanes, s_.value_dim});
      k::store(out_, acc * with_lanes(inverse, s_.value_dim),
               {0, j * kLanes, 0}, {1, kLanes, s_.value_dim});
      clear(j * kLanes);
    }
    const Value turned = k::transpose(both);
    const Value sum = k::slice(turned, {0, 0}, {groups, kLanes});
    const Value max = k::slice(turned, {kHalf, 0}, {groups, kLanes}) * kLn2;
    const Dims one = {1, 1, 1, groups, kLanes};
    k::store(stats_, sum, {0, 0, 0, 0, 0}, one);
    k::store(stats_, max, {0, 0, 1, 0, 0}, one);
  }

  k::Ref q_, key_, v_, out_, stats_, m_, l_, acc_;
};

}  // namespace

std::unique_ptr<k::Kernel> forward_kernel(const KernelSpec& spec) {
  return Forward(spec).build();
}

}  // namespace ringmax::attention::splash
